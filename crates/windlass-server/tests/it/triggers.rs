//! Triggers.

use serde_json::json;

use crate::world::World;

#[tokio::test]
async fn a_trigger_is_saved_fired_paused_and_removed() {
    let world = World::new().await;
    let spec = json!({"schedule": {"cron": "0 9 * * mon-fri", "zone": "Europe/Berlin"}, "target": {"job": {"queue": "q"}},
        "payload": {"n": 1}});
    let created = world.post("/v1/triggers", spec.clone()).await;
    assert_eq!(created.status, 201);
    let id = created.ok()["id"].as_str().unwrap().to_owned();
    let fired = world.post(&format!("/v1/triggers/{id}/fire"), json!({"by": "zoe"})).await.ok();
    assert_eq!(fired["parent"], id.as_str());
    let claimed = world.post("/v1/queues/q/claim", json!({"worker": "w", "max": 1, "wait": "20s"})).await.ok();
    assert_eq!(claimed["claimed"][0]["payload"]["n"], 1);
    world.post(&format!("/v1/triggers/{id}/pause"), json!({"by": "zoe"})).await.ok();
    assert_eq!(world.get(&format!("/v1/triggers/{id}")).await.ok()["paused"]["by"], "zoe");
    world.put("/v1/triggers/mine", spec).await.ok();
    assert!(world.get("/v1/triggers").await.ok()["items"].as_array().unwrap().len() >= 2);
    world.delete(&format!("/v1/triggers/{id}")).await.ok();
    world.delete(&format!("/v1/triggers/{id}")).await.refused(404, "WL-3001");
    world.get("/v1/triggers/mine/notes").await.ok();
}

#[tokio::test]
async fn a_schedule_is_previewed_and_a_bad_one_names_its_place() {
    let world = World::new().await;
    let times = world.post("/v1/triggers/preview", json!({"schedule": {"every": "5m"}, "n": 3})).await.ok();
    assert_eq!(times["items"].as_array().unwrap().len(), 3);
    let refused = world.post("/v1/triggers/preview", json!({"schedule": {"every": 5}})).await.refused(400, "WL-6002");
    assert!(refused["pointer"].as_str().unwrap().starts_with("/schedule"), "{refused}");
    world.post("/v1/triggers", json!({"schedule": {"every": "5m"}})).await.refused(400, "WL-6002");
}
