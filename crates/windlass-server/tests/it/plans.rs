//! Plans, tasks and tenants.

use serde_json::json;

use crate::world::{World, approvals};

#[tokio::test]
async fn a_plan_is_created_started_approved_and_waited_for() {
    let world = World::new().await;
    let created = world.plan(&approvals("p1", &["acme", "bolt"]), "?start=true").await;
    assert_eq!(created.status, 201);
    assert_eq!(created.body["taskCount"], 2);
    let plan = world.get("/v1/plans/p1?wait=20s").await.ok();
    assert_eq!((plan["status"].as_str(), plan["tally"]["PAUSED"].as_u64()), (Some("RUNNING"), Some(2)), "{plan}");
    assert!(plan["createdAt"].as_str().unwrap().ends_with('Z'));
    let inbox = world.get("/v1/inbox").await.ok();
    assert_eq!(inbox["items"][0]["kind"], "approval");
    let done = world.post("/v1/tasks/p1-0/approve", json!({"by": "zoe", "reason": "fine"})).await.ok();
    assert_eq!(done["task"], "p1-0");
    world.post("/v1/tenants/bolt/task/approve", json!({"by": "zoe"})).await.ok();
    let plan = world.get("/v1/plans/p1?wait=20s").await.ok();
    assert_eq!(plan["status"], "COMPLETED", "{plan}");
    let history = world.get("/v1/tasks/p1-0/history").await.ok();
    let approved = history["items"].as_array().unwrap().iter().find(|event| event["type"] == "Approved").unwrap();
    assert_eq!((approved["by"].as_str(), approved["reason"].as_str()), (Some("zoe"), Some("fine")));
    assert_eq!(approved["data"]["stage"], "ask");
    let task = world.get("/v1/tenants/acme/task").await.ok();
    assert_eq!((task["taskId"].as_str(), task["status"].as_str()), (Some("p1-0"), Some("COMPLETED")));
}

#[tokio::test]
async fn a_refusal_says_the_state_and_what_could_be_done_instead() {
    let world = World::new().await;
    world.plan(&approvals("p1", &["acme"]), "").await.ok();
    let refused = world.post("/v1/plans/p1/pause", json!({})).await.refused(409, "WL-2001");
    assert_eq!(refused["state"], "READY");
    assert!(refused["possible"].as_array().unwrap().contains(&json!("start")), "{refused}");
    world.get("/v1/plans/none").await.refused(404, "WL-3001");
    world.get("/v1/tenants/nobody/task").await.refused(404, "WL-3001");
    world.plan(&approvals("p1", &["acme"]), "").await.refused(409, "WL-3002");
}

#[tokio::test]
async fn a_plan_file_with_mistakes_is_refused_with_every_place() {
    let world = World::new().await;
    let refused = world.plan("plan: p\nstages:\n  - nam: x\n    sleep: 1s\ntasks: []\n", "").await;
    assert_eq!(refused.status, 422, "{refused:?}");
    assert_eq!(refused.body["line"], 3);
    assert!(refused.body["problems"].as_array().unwrap().len() > 1, "{}", refused.body);
}

#[tokio::test]
async fn a_dry_run_writes_nothing() {
    let world = World::new().await;
    assert_eq!(world.plan(&approvals("p1", &["acme"]), "?dryRun=true").await.status, 200);
    world.get("/v1/plans/p1").await.refused(404, "WL-3001");
    world.plan(&approvals("p1", &["acme"]), "").await.ok();
    world.post("/v1/plans/p1/start", json!({"dryRun": true})).await.ok();
    world.post("/v1/plans/p1/start?dryRun=true", json!({})).await.ok();
    assert_eq!(world.get("/v1/plans/p1").await.ok()["status"], "READY");
    world.put("/v1/tenants/acme/freeze", json!({"dryRun": true})).await.ok();
    assert!(world.get("/v1/tenants/acme/freeze").await.ok().get("freeze").is_none());
}

#[tokio::test]
async fn the_same_key_gets_the_same_answer_and_another_request_under_it_is_refused() {
    let world = World::new().await;
    let yaml = approvals("p1", &["acme"]).replace("id: p1\n", "");
    let create = async |yaml: &str| {
        let request = world.request(reqwest::Method::POST, "/v1/plans").header("content-type", "application/yaml");
        world.send(request.header("idempotency-key", "k1").body(yaml.to_owned())).await
    };
    let first = create(&yaml).await.ok();
    assert_eq!(create(&yaml).await.ok()["plan"], first["plan"]);
    create(&yaml.replace("acme", "bolt")).await.refused(409, "WL-3008");
    assert_eq!(world.get("/v1/plans").await.ok()["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn lists_are_paged_and_filtered() {
    let world = World::new().await;
    for n in 0..5 {
        world.plan(&approvals(&format!("p{n}"), &[&format!("t{n}")]), "").await.ok();
    }
    let mut seen = Vec::new();
    let mut path = "/v1/plans?limit=2".to_owned();
    loop {
        let page = world.get(&path).await.ok();
        seen.extend(page["items"].as_array().unwrap().iter().map(|plan| plan["planId"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        path = reqwest::Url::parse_with_params("http://x/v1/plans", [("limit", "2"), ("after", next)])
            .unwrap()
            .to_string();
        path = path["http://x".len()..].to_owned();
    }
    seen.sort();
    assert_eq!(seen, ["p0", "p1", "p2", "p3", "p4"]);
    assert_eq!(world.get("/v1/plans?status=running,failed").await.ok()["items"], json!([]));
    assert_eq!(world.get("/v1/tasks?tenant=t3").await.ok()["items"][0]["planId"], "p3");
    world.get("/v1/plans?status=LOST").await.refused(400, "WL-6003");
    world.get("/v1/plans?limit=0").await.refused(400, "WL-6003");
    world.get("/v1/plans?limit=1001").await.refused(400, "WL-6003");
    world.get("/v1/plans?colour=red").await.refused(400, "WL-6003");
    world.get("/v1/plans?limit=1&limit=2").await.refused(400, "WL-6003");
    world.get("/v1/plans?after=made-up").await.refused(400, "WL-3022");
}

#[tokio::test]
async fn a_tenant_is_frozen_and_its_lock_released() {
    let world = World::new().await;
    world.put("/v1/tenants/acme/freeze", json!({"by": "zoe", "reason": "audit"})).await.ok();
    let frozen = world.get("/v1/tenants/acme/freeze").await.ok();
    assert_eq!((frozen["freeze"]["by"].as_str(), frozen["freeze"]["reason"].as_str()), (Some("zoe"), Some("audit")));
    assert_eq!(world.get("/v1/locks").await.ok()["items"][0]["tenantId"], "acme");
    world.delete("/v1/tenants/acme/freeze").await.ok();
    world.plan(&approvals("p1", &["acme"]), "?start=true").await.ok();
    world.get("/v1/plans/p1?wait=20s").await.ok();
    assert_eq!(world.get("/v1/tenants/acme/lock").await.ok()["holder"]["taskId"], "p1-0");
    assert_eq!(world.delete("/v1/tenants/acme/lock").await.ok()["holder"]["taskId"], "p1-0");
    assert!(world.get("/v1/tenants/acme/lock").await.ok().get("holder").is_none());
    assert_eq!(world.get("/v1/instances").await.ok()["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn what_was_done_is_measured() {
    let world = World::new().await;
    world.plan(&approvals("p1", &["acme"]), "?start=true").await.ok();
    world.get("/v1/plans/p1?wait=20s").await.ok();
    world.post("/v1/tasks/p1-0/approve", json!({})).await.ok();
    world.get("/v1/plans/p1?wait=20s").await.ok();
    world.post("/v1/jobs", json!({"queue": "q"})).await.ok();
    let text = world.get("/metrics").await.ok().as_str().unwrap().to_owned();
    for line in [
        "windlass_stage_seconds_count 1",
        "windlass_task_machine_seconds_count 1",
        "windlass_task_human_seconds_count 1",
        "windlass_stages_completed_total 1",
        "windlass_queue_jobs{queue=\"q\",state=\"waiting\"} 1",
        "windlass_http_requests_total{operation=\"createPlan\",status=\"2xx\"} 1",
        "windlass_store_call_seconds_count{call=\"jobs_submit\"} 1",
        "windlass_degraded 0",
        "windlass_ready 1",
        "windlass_loop_stalled{loop=\"lease\"} 0",
    ] {
        assert!(text.lines().any(|one| one == line), "{line} is not in\n{text}");
    }
    // Every name is explained once, and every line is one of the format.
    let mut names: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all);
}

#[tokio::test]
async fn it_says_that_it_lives_that_it_is_ready_and_who_asks() {
    let world = World::new().await;
    assert_eq!(world.get("/healthz").await.ok()["status"], "ok");
    assert_eq!(world.get("/readyz").await.ok()["ready"], true);
    assert_eq!(world.get("/v1/whoami").await.ok()["role"], "admin");
    world.engine.stop().await;
    let stopping = world.get("/readyz").await;
    assert_eq!((stopping.status, stopping.body["stopping"].as_bool()), (503, Some(true)));
    world.plan(&approvals("p1", &["acme"]), "").await.refused(503, "WL-5105");
}
