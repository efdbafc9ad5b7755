//! Jobs, queues, and the worker protocol.

use serde_json::{Value, json};

use crate::world::World;

async fn submit(world: &World, body: Value) -> String {
    world.post("/v1/jobs", body).await.ok()["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_job_is_submitted_claimed_completed_and_waited_for() {
    let world = World::new().await;
    let id = submit(&world, json!({"queue": "q", "payload": {"n": 1}, "tenant": "acme"})).await;
    let claimed = world.post("/v1/queues/q/claim", json!({"worker": "w1", "max": 5})).await.ok();
    let job = &claimed["claimed"][0];
    assert_eq!((job["id"].as_str(), job["payload"]["n"].as_u64()), (Some(id.as_str()), Some(1)), "{claimed}");
    let held = json!([{"job": id, "fence": job["fence"]}]);
    let beaten = world.post("/v1/claim", json!({"worker": "w1", "heartbeat": held})).await.ok();
    assert_eq!(beaten["answers"][0]["ok"], true);
    let path = format!("/v1/jobs/{id}?wait=20s");
    let waited = world.get(&path);
    let said = async {
        let done = json!([{"job": id, "fence": job["fence"], "result": [1, 2]}]);
        world.post("/v1/claim", json!({"worker": "w1", "complete": done})).await.ok()
    };
    let (waited, said) = tokio::join!(waited, said);
    assert_eq!(said["answers"][0]["status"], "COMPLETED");
    let job = waited.ok();
    assert_eq!((job["status"].as_str(), &job["result"]), (Some("COMPLETED"), &json!([1, 2])));
}

#[tokio::test]
async fn many_are_submitted_all_or_none() {
    let world = World::new().await;
    let ids = world.post("/v1/jobs", json!([{"queue": "q"}, {"queue": "q"}])).await.ok();
    assert_eq!(ids.as_array().unwrap().len(), 2);
    let refused =
        world.post("/v1/jobs", json!([{"queue": "q"}, {"queue": "not a name"}])).await.refused(400, "WL-6002");
    assert_eq!(refused["pointer"], "/1/queue");
    world.post("/v1/jobs", json!([])).await.refused(400, "WL-6002");
    let many: Vec<Value> = vec![json!({"queue": "q"}); 1_001];
    world.post("/v1/jobs", json!(many)).await.refused(400, "WL-6002");
    assert_eq!(world.get("/v1/queues").await.ok()["items"][0]["waiting"], 2);
}

#[tokio::test]
async fn a_submission_that_is_repeated_is_the_same_job() {
    let world = World::new().await;
    let send = async |body: Value| {
        let request = world.request(reqwest::Method::POST, "/v1/jobs").header("idempotency-key", "once");
        world.send(request.json(&body)).await
    };
    let first = send(json!({"queue": "q", "payload": 1})).await.ok();
    let again = send(json!({"queue": "q", "payload": 1})).await;
    assert_eq!((again.status, &again.body["id"], &again.body["existing"]), (200, &first["id"], &json!(true)));
    send(json!({"queue": "q", "payload": 2})).await.refused(409, "WL-3008");
}

#[tokio::test]
async fn a_claim_waits_for_what_comes() {
    let world = World::new().await;
    let waiting = world.post("/v1/queues/q/claim", json!({"worker": "w1", "max": 1, "wait": "20s"}));
    let (claimed, id) = tokio::join!(waiting, submit(&world, json!({"queue": "q"})));
    assert_eq!(claimed.ok()["claimed"][0]["id"], id);
}

#[tokio::test]
async fn a_late_answer_and_one_under_another_fence_are_refused_for_themselves() {
    let world = World::new().await;
    let id = submit(&world, json!({"queue": "q", "maxAttempts": 2})).await;
    let claimed = world.post("/v1/queues/q/claim", json!({"worker": "w1", "max": 1})).await.ok();
    let fence = claimed["claimed"][0]["fence"].as_u64().unwrap();
    let said = json!({"worker": "w1", "complete": [{"job": id, "fence": fence - 1}],
        "fail": [{"job": id, "fence": fence, "error": {"message": "no"}}]});
    let answers = world.post("/v1/claim", said).await.ok();
    assert_eq!(
        (answers["answers"][0]["ok"].as_bool(), answers["answers"][0]["code"].as_str()),
        (Some(false), Some("WL-3003"))
    );
    assert_eq!(
        (answers["answers"][1]["ok"].as_bool(), answers["answers"][1]["status"].as_str()),
        (Some(true), Some("PENDING"))
    );
}

#[tokio::test]
async fn jobs_are_cancelled_and_requeued_one_by_one_and_by_filter() {
    let world = World::new().await;
    let id = submit(&world, json!({"queue": "q"})).await;
    let asked = world.post(&format!("/v1/jobs/{id}/cancel"), json!({"by": "zoe"})).await.ok();
    assert_eq!(asked["answer"], "cancelled");
    assert_eq!(world.post(&format!("/v1/jobs/{id}/cancel"), json!({})).await.ok()["answer"], "ended");
    world.post(&format!("/v1/jobs/{id}/requeue"), json!({})).await.refused(409, "WL-3005");
    world.post("/v1/jobs", json!([{"queue": "r"}, {"queue": "r"}, {"queue": "s"}])).await.ok();
    let bulk = world.post("/v1/jobs/cancel", json!({"filter": {"queue": "r"}, "dryRun": true})).await.ok();
    assert_eq!(bulk["count"], 2);
    let bulk = world.post("/v1/jobs/cancel", json!({"filter": {"queue": "r"}, "reason": "wrong"})).await.ok();
    assert_eq!((bulk["count"].as_u64(), bulk["more"].as_bool()), (Some(2), Some(false)));
    assert_eq!(world.get("/v1/jobs?status=PENDING").await.ok()["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_queue_is_limited_and_held() {
    let world = World::new().await;
    world.put("/v1/queues/q/limits", json!({"waiting": 1})).await.ok();
    submit(&world, json!({"queue": "q"})).await;
    world.post("/v1/jobs", json!({"queue": "q"})).await.refused(429, "WL-3015");
    world.put("/v1/queues/q/limits", json!({"hold": true, "by": "zoe"})).await.ok();
    let limits = world.get("/v1/queues/q/limits").await.ok();
    assert_eq!((limits["waiting"].as_u64(), limits["held"]["by"].as_str()), (Some(1), Some("zoe")));
    let nothing = world.post("/v1/queues/q/claim", json!({"worker": "w", "max": 1})).await.ok();
    assert_eq!(nothing["claimed"], json!([]));
    world.put("/v1/queues/q/limits", json!({"hold": false, "waiting": null})).await.ok();
    assert_eq!(world.get("/v1/queues/q/limits").await.ok(), json!({}));
}
