//! The same request again under the same key.

use reqwest::Method;
use serde_json::{Value, json};

use crate::world::{Got, World};

async fn keyed(world: &World, method: Method, path: &str, key: &str, body: Value) -> Got {
    world.send(world.request(method, path).header("idempotency-key", key).json(&body)).await
}

/// Sends it twice; the same comes back, and another request under the key is refused.
async fn twice(world: &World, method: Method, path: &str, key: &str, body: Value) -> Value {
    let first = keyed(world, method.clone(), path, key, body.clone()).await;
    let again = keyed(world, method.clone(), path, key, body.clone()).await;
    assert_eq!((again.status, &again.body), (first.status, &first.body), "{method} {path}");
    let mut other = body;
    other["reason"] = json!("another one");
    keyed(world, method, path, key, other).await.refused(409, "WL-3008");
    first.ok()
}

async fn notes(world: &World, id: &str) -> usize {
    world.get(&format!("/v1/triggers/{id}/notes")).await.ok()["items"].as_array().unwrap().len()
}

async fn triggers(world: &World) -> usize {
    world.get("/v1/triggers").await.ok()["items"].as_array().unwrap().len()
}

#[tokio::test]
async fn what_is_done_to_triggers_is_done_once_under_a_key() {
    let world = World::new().await;
    let spec = json!({"schedule": {"every": "1d", "from": "2999-01-01T00:00:00Z"}, "target": {"job": {"queue": "q"}}});
    let made = twice(&world, Method::POST, "/v1/triggers", "create", spec.clone()).await;
    let id = made["id"].as_str().unwrap().to_owned();
    assert_eq!(triggers(&world).await, 1);
    let path = |verb: &str| format!("/v1/triggers/{id}/{verb}");
    twice(&world, Method::POST, &path("pause"), "pause", json!({"by": "zoe"})).await;
    twice(&world, Method::POST, &path("resume"), "resume", json!({"by": "zoe"})).await;
    // A repeat of the pause is answered as it was, and pauses nothing.
    let again = keyed(&world, Method::POST, &path("pause"), "pause", json!({"by": "zoe"})).await.ok();
    assert_eq!(again["paused"]["by"], "zoe");
    assert!(world.get(&format!("/v1/triggers/{id}")).await.ok().get("paused").is_none());
    let before = notes(&world, &id).await;
    twice(&world, Method::POST, &path("skip"), "skip", json!({})).await;
    assert_eq!(notes(&world, &id).await, before + 1, "one occurrence is left out");
    let fired = twice(&world, Method::POST, &path("fire"), "fire", json!({})).await;
    assert_eq!(fired["parent"], id.as_str());
    let claimed = world.post("/v1/queues/q/claim", json!({"worker": "w", "max": 9, "wait": "20s"})).await.ok();
    assert_eq!(claimed["claimed"].as_array().unwrap().len(), 1, "it fired once");
    twice(&world, Method::DELETE, &format!("/v1/triggers/{id}"), "remove", json!({})).await;
    world.get(&format!("/v1/triggers/{id}")).await.refused(404, "WL-3001");
    twice(&world, Method::PUT, "/v1/triggers/mine", "put", spec).await;
}

#[tokio::test]
async fn two_that_come_at_once_under_one_key_are_one() {
    let world = World::new().await;
    let spec = json!({"schedule": {"every": "1d", "from": "2999-01-01T00:00:00Z"}, "target": {"job": {"queue": "q"}}});
    world.put("/v1/triggers/daily", spec).await.ok();
    let fire = || keyed(&world, Method::POST, "/v1/triggers/daily/fire", "fire", json!({}));
    let (one, two, three) = tokio::join!(fire(), fire(), fire());
    let one = one.ok();
    assert_eq!((&one["id"], &one["id"]), (&two.ok()["id"], &three.ok()["id"]));
    assert_eq!(world.get("/v1/triggers/daily/notes").await.ok()["items"].as_array().unwrap().len(), 0);
    assert_eq!(triggers(&world).await, 2, "the trigger and its one occurrence");
}

#[tokio::test]
async fn what_is_asked_of_jobs_and_limits_is_done_once_under_a_key() {
    let world = World::new().await;
    let ids = world.post("/v1/jobs", json!([{"queue": "q"}, {"queue": "q"}, {"queue": "r"}])).await.ok();
    let id = ids[0]["id"].as_str().unwrap();
    let asked = twice(&world, Method::POST, &format!("/v1/jobs/{id}/cancel"), "cancel", json!({})).await;
    assert_eq!(asked["answer"], "cancelled", "and not `ended`, which it is by now");
    let bulk = twice(&world, Method::POST, "/v1/jobs/cancel", "bulk", json!({"filter": {"queue": "q"}})).await;
    assert_eq!(bulk["count"], 1);
    let claimed = world.post("/v1/queues/r/claim", json!({"worker": "w", "max": 1})).await.ok();
    let (dead, fence) = (claimed["claimed"][0]["id"].clone(), claimed["claimed"][0]["fence"].clone());
    let fail = json!({"worker": "w", "fail": [{"job": dead, "fence": fence, "error": {"message": "no"}}]});
    world.post("/v1/claim", fail).await.ok();
    let path = format!("/v1/jobs/{}/requeue", dead.as_str().unwrap());
    assert_eq!(twice(&world, Method::POST, &path, "requeue", json!({})).await["answer"], "requeued");
    let limits = twice(&world, Method::PUT, "/v1/queues/q/limits", "limits", json!({"running": 3})).await;
    assert_eq!(limits["running"], 3);
    world.put("/v1/queues/q/limits", json!({"running": 5})).await.ok();
    keyed(&world, Method::PUT, "/v1/queues/q/limits", "limits", json!({"running": 3})).await.ok();
    assert_eq!(world.get("/v1/queues/q/limits").await.ok()["running"], 5, "the repeat set nothing");
    twice(&world, Method::PUT, "/v1/tenants/acme/limits", "tenant", json!({"waiting": 7})).await;
}

#[tokio::test]
async fn neither_a_refusal_nor_a_dry_run_is_kept() {
    let world = World::new().await;
    let fire = || keyed(&world, Method::POST, "/v1/triggers/daily/fire", "k", json!({}));
    fire().await.refused(404, "WL-3001");
    let spec = json!({"schedule": {"every": "1d", "from": "2999-01-01T00:00:00Z"}, "target": {"job": {"queue": "q"}}});
    world.put("/v1/triggers/daily", spec).await.ok();
    fire().await.ok();
    let dry = json!({"running": 1, "dryRun": true});
    keyed(&world, Method::PUT, "/v1/queues/q/limits", "l", dry).await.ok();
    keyed(&world, Method::PUT, "/v1/queues/q/limits", "l", json!({"running": 2})).await.ok();
    assert_eq!(world.get("/v1/queues/q/limits").await.ok()["running"], 2);
}

#[tokio::test]
async fn a_claim_refuses_the_key_it_could_not_honour() {
    let world = World::new().await;
    for path in ["/v1/queues/q/claim", "/v1/claim"] {
        let refused = keyed(&world, Method::POST, path, "k", json!({"worker": "w"})).await.refused(400, "WL-6003");
        assert_eq!(refused["parameter"], "Idempotency-Key");
    }
}
