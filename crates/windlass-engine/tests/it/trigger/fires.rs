//! On time: jobs, plans, operations and URLs, each occurrence once.

use windlass_core::plan::PlanStatus;
use windlass_core::port::state::{Filter, Row};
use windlass_core::port::trigger::Save;
use windlass_core::trigger::rules::create;
use windlass_core::trigger::{Made, Noted, TriggerStatus};
use windlass_engine::Engine;

use super::*;
use crate::stage::server::Server;
use crate::world::{file, until};

#[tokio::test(start_paused = true)]
async fn every_schedule_submits_its_job_at_its_times_and_once() {
    let hall = Hall::new();
    let desk = hall.desk().await;
    desk.save("every", &job(r#"{"every": "700ms"}"#, "")).await;
    desk.save("cron", &job(r#"{"cron": "*/2 * * * * *"}"#, "")).await;
    desk.save("after", &job(r#"{"after": "1500ms"}"#, "")).await;
    let at = format!(r#"{{"at": "{}"}}"#, BEGIN.plus(3_333));
    desk.save("at", &job(&at, r#", "payload": {"n": 1}, "tenant": "acme""#)).await;
    pass(5_000).await;

    let jobs = hall.jobs().await;
    for job in &jobs {
        let at = occurrence(job.key.as_deref().unwrap());
        assert_eq!(job.submitted_at, BEGIN.plus(at), "{:?} is submitted at its time", job.key);
    }
    let of = |id: &str| -> Vec<u64> {
        let keys = jobs.iter().filter_map(|job| job.key.as_deref()).filter(|key| key.starts_with(&format!("{id}@")));
        keys.map(occurrence).collect()
    };
    assert_eq!(of("every"), [700, 1_400, 2_100, 2_800, 3_500, 4_200, 4_900]);
    // It began at second 20 of a minute, which fires as well.
    assert_eq!(of("cron"), [0, 2_000, 4_000]);
    assert_eq!((of("after"), of("at")), (vec![1_500], vec![3_333]));
    let last = jobs.iter().find(|job| job.key.as_deref().unwrap().starts_with("at@")).unwrap();
    assert_eq!(last.payload.as_ref().unwrap().as_str(), r#"{"n":1}"#);
    assert_eq!(last.tenant.as_ref().unwrap().as_str(), "acme");
    assert_eq!(hall.get("at").await.run.made, Some(Made::Job(last.id)));
    assert_eq!(hall.notes("at").await, [(3_333, Noted::Fired(Made::Job(last.id)))]);
    assert_eq!(hall.status("after").await, TriggerStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_lost_make_nothing_twice() {
    let hall = Hall::new();
    let desk = hall.desk().await;
    desk.save("j", &job(r#"{"every": "1s"}"#, "")).await;
    desk.save("p", &plan(r#"{"after": "1s"}"#, "")).await;
    desk.ports.lose_settles(4);
    desk.ports.lose_jobs(2);
    pass(4_500).await;
    assert_eq!(hall.times().await, [1_000, 2_000, 3_000, 4_000]);
    assert_eq!(plans(&desk.engine).await.len(), 1);
    let failed = hall.notes("j").await.into_iter().filter(|(_, what)| matches!(what, Noted::Failed(_))).count();
    assert_eq!(failed, 0, "a store that does not answer is nobody's failure");
}

#[tokio::test(start_paused = true)]
async fn what_another_saved_without_a_word_is_found_by_the_next_look() {
    let hall = Hall::new();
    let ports = Shaky::over(&hall.store);
    ports.deafen();
    let desk = hall.desk_with(ports, 1).await;
    // Far from its next look, and with nothing that it knows to be due.
    pass(2_000).await;
    let spec = parse(&job(r#"{"after": "1s"}"#, ""));
    let trigger = create("silent".parse().unwrap(), spec, hall.now()).unwrap();
    Triggers::save(&hall.store, &[Save { trigger, notes: Vec::new() }]).await.unwrap().remove(0).unwrap();
    pass(hall.options.scan_ms + 500).await;
    assert_eq!(hall.times().await, [3_000]);
    let job = hall.jobs().await.remove(0);
    assert!(job.submitted_at <= BEGIN.plus(3_000 + hall.options.scan_ms), "{job:?}");
    drop(desk);
}

async fn plans(engine: &Engine) -> Vec<PlanStatus> {
    let rows = engine.list(&Filter::Plans { statuses: Vec::new() }, None, 100).await.unwrap().items;
    rows.iter()
        .map(|row| match row {
            Row::Plan(row) => row.plan.status,
            other => panic!("{other:?}"),
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_plan_is_created_and_started_once_for_each_time() {
    let hall = Hall::new();
    let desk = hall.desk().await;
    desk.save("p", &plan(r#"{"every": "10s"}"#, "")).await;
    pass(25_000).await;
    assert_eq!(plans(&desk.engine).await, [PlanStatus::Completed; 2]);
}

#[tokio::test(start_paused = true)]
async fn plans_do_not_overlap_if_they_may_not() {
    let hall = Hall::new();
    let desk = hall.desk().await;
    hall.script.shut("acme/a");
    desk.save("p", &plan(r#"{"every": "10s"}"#, r#", "overlap": "skip""#)).await;
    pass(35_000).await;
    assert_eq!(plans(&desk.engine).await, [PlanStatus::Running]);
    let notes = hall.notes("p").await;
    assert!(matches!(notes[1], (20_000, Noted::Skipped(_))) && matches!(notes[2], (30_000, Noted::Skipped(_))));
    hall.script.let_go("acme/a");
    pass(10_000).await;
    assert_eq!(plans(&desk.engine).await.len(), 2, "{:?}", hall.notes("p").await);
}

#[tokio::test(start_paused = true)]
async fn operations_are_carried_out_as_a_person_would() {
    let hall = Hall::new();
    let desk = hall.desk().await;
    let yaml = crate::world::plan(1, &["acme"]);
    let made = desk.engine.create(&file(&yaml), false, &by("ann")).await.unwrap().plan;
    let operation = |after: u32, verb: &str, on: &str| {
        format!(r#"{{"schedule": {{"after": "{after}s"}}, "target": {{"operation": {{"do": "{verb}", "on": {on}}}}}}}"#)
    };
    hall.script.shut("acme/a");
    let (of_plan, of_tenant) = (format!(r#"{{"plan": "{made}"}}"#), r#"{"tenant": "acme"}"#);
    desk.save("start", &operation(1, "start", &of_plan)).await;
    desk.save("freeze", &operation(2, "freeze", of_tenant)).await;
    desk.save("unfreeze", &operation(3, "unfreeze", of_tenant)).await;
    desk.save("cancel", &operation(4, "cancel", of_tenant)).await;
    pass(1_500).await;
    assert_eq!(plans(&desk.engine).await, [PlanStatus::Running]);
    pass(1_000).await;
    let frozen =
        async || windlass_core::port::lock::Locks::load(&hall.store, &["acme".parse().unwrap()]).await.unwrap();
    assert_eq!(frozen().await[0].freeze.as_ref().unwrap().by.as_str(), "trigger:freeze");
    pass(1_000).await;
    assert!(frozen().await.iter().all(|tenant| tenant.freeze.is_none()));
    hall.script.let_go("acme/a");
    pass(2_000).await;
    for id in ["start", "freeze", "unfreeze"] {
        assert!(matches!(hall.get(id).await.run.made, Some(Made::Operation(_))), "{id}: {:?}", hall.notes(id).await);
    }
    assert_ne!(hall.notes("cancel").await, [], "it was tried");
}

#[tokio::test]
async fn a_url_is_called_with_key_and_fence_and_an_error_counts() {
    let server = Server::start(|asked| match asked.line().contains("/good") {
        true => "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
        false => "HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n".to_owned(),
    })
    .await;
    // Real connections want real time; what is due has passed already.
    let hall = Hall::new();
    let desk = hall.desk().await;
    let call = |path: &str| {
        let at = hall.now().minus(1);
        let url = server.url(path);
        let more = r#""maxRetries": 1, "backoff": {"firstMs": 1, "maxMs": 1}, "payload": {"n": 2}"#;
        format!(r#"{{"schedule": {{"at": "{at}"}}, "target": {{"http": {{"url": "{url}"}}}}, {more}}}"#)
    };
    desk.save("good", &call("/good")).await;
    desk.save("bad", &call("/bad")).await;
    until("both are over", async || {
        hall.status("good").await == TriggerStatus::Completed && hall.status("bad").await == TriggerStatus::Dead
    })
    .await;
    let good = hall.get("good").await;
    assert_eq!(good.run.made, Some(Made::Called(204)));
    let asked: Vec<_> = server.asked().into_iter().filter(|asked| asked.line().contains("/good")).collect();
    assert_eq!((asked.len(), asked[0].body.as_str()), (1, r#"{"n":2}"#));
    assert_eq!(asked[0].header("idempotency-key"), Some(good.key().as_str()));
    assert_eq!(asked[0].header("windlass-fence"), Some(good.run.fence.to_string().as_str()));
    let bad: Vec<_> = server.asked().into_iter().filter(|asked| asked.line().contains("/bad")).collect();
    assert_eq!(bad.len(), 2, "once, and once more");
    assert_eq!(bad[0].header("idempotency-key"), bad[1].header("idempotency-key"));
    assert_ne!(bad[0].header("windlass-fence"), bad[1].header("windlass-fence"));
    assert!(hall.get("bad").await.run.error.unwrap().contains("500"));
}

#[tokio::test]
async fn a_secret_header_is_looked_up_when_it_fires_and_is_nowhere_else() {
    let server = Server::start(|asked| match asked.line().contains("/good") {
        true => "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
        false => "HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n".to_owned(),
    })
    .await;
    let hall = Hall::new();
    let desk = hall.desk().await;
    let call = |path: &str, secret: &str| {
        let (at, url) = (hall.now().minus(1), server.url(path));
        let headers = format!(r#"{{"authorization": {{"secret": "{secret}"}}, "x-team": "ops"}}"#);
        let http = format!(r#"{{"http": {{"url": "{url}", "headers": {headers}}}}}"#);
        format!(r#"{{"schedule": {{"at": "{at}"}}, "target": {http}, "maxRetries": 0}}"#)
    };
    desk.save("good", &call("/good", "HOOK")).await;
    desk.save("bad", &call("/bad/tungsten-tango", "HOOK")).await;
    desk.save("unknown", &call("/good", "NO_SUCH")).await;
    until("all are over", async || {
        hall.status("good").await == TriggerStatus::Completed
            && hall.status("bad").await == TriggerStatus::Dead
            && hall.status("unknown").await == TriggerStatus::Dead
    })
    .await;
    let asked = server.asked();
    assert_eq!(asked.len(), 2, "what is not known is not sent");
    assert!(asked.iter().all(|asked| asked.header("authorization") == Some("Bearer tungsten-tango")));
    assert!(asked.iter().all(|asked| asked.header("x-team") == Some("ops")));
    for id in ["good", "unknown"] {
        let stored = serde_json::to_string(&hall.get(id).await).unwrap() + &format!("{:?}", hall.notes(id).await);
        assert!(stored.contains("secret") && !stored.contains("tungsten"), "{stored}");
    }
    let bad = hall.get("bad").await.run.error.unwrap();
    assert!(bad.contains("500") && bad.contains("***") && !bad.contains("tungsten"), "{bad}");
    assert!(hall.get("unknown").await.run.error.unwrap().contains("WL-5002"));
}
