//! Retries: from where, in which pass, with which config, how often.

use std::sync::{Arc, Mutex};

use windlass_core::plan::PlanStatus;
use windlass_core::port::state::{CheckpointPut, Key, Op, Row, Step, TaskPut, Writer};
use windlass_core::refused::RefusedCode;
use windlass_core::task::command::{Command, Retry, RetryFrom};
use windlass_core::task::status::{Statuses, TaskStatus};
use windlass_engine::bus::News;
use windlass_engine::{Error, Options};

use crate::world::{PATIENCE, World, calm, from_stage, of, plan, plan_of, refused, retry, short};

/// A plan of stages a, b, c, of which `at` fails.
async fn failed_at(at: &str) -> (World, windlass_core::id::PlanId) {
    let world = World::new().await;
    world.script.fail(&format!("acme/{at}"));
    let id = world.start(&plan(3, &["acme"])).await;
    world.until_plan(&id, PlanStatus::Failed).await;
    world.script.heal(&format!("acme/{at}"));
    world.script.take();
    (world, id)
}

#[tokio::test]
async fn a_checkpoint_names_the_instance_the_fence_and_the_pass_it_was_written_under() {
    let (world, id) = failed_at("b").await;
    let view = world.view("acme").await;
    let checkpoint = view.checkpoint.unwrap();
    assert_eq!(checkpoint.executor_instance.as_ref(), Some(world.engine.instance()));
    assert_eq!((checkpoint.fence, checkpoint.pass), (view.task.fence, 1));
    // Another instance goes on, and fails again.
    world.script.fail("acme/c");
    let other = World { engine: world.another().await, ..world };
    other.task("acme", retry(RetryFrom::Checkpoint)).await.unwrap();
    let task = other.until_task("acme", TaskStatus::Failed).await;
    let runs = other.engine.task_history(&of("acme")).await.unwrap();
    let last = runs.iter().rev().find_map(|event| match &event.fact {
        windlass_core::event::Fact::TaskRetryStarted(begun) => Some(begun.clone()),
        _ => None,
    });
    let (last, checkpoint) = (last.unwrap(), task.checkpoint.unwrap());
    assert_eq!((checkpoint.executor_instance, checkpoint.fence), (Some(last.instance), last.fence), "{id}");
}

#[tokio::test]
async fn a_retry_from_the_checkpoint_stays_in_its_pass_and_runs_what_is_left() {
    let (world, id) = failed_at("b").await;
    let done = world.task("acme", retry(RetryFrom::Checkpoint)).await.unwrap();
    assert_eq!((done.range.unwrap().from, done.range.unwrap().to), (1, 3));
    world.until_plan(&id, PlanStatus::Completed).await;
    assert_eq!(world.script.take(), ["acme/b/1 \"new\"", "acme/c/1 \"new\""]);
    let events = world.events("acme").await;
    assert_eq!(
        events[3..],
        [
            "StageCompleted a",
            "StageStarted b",
            "StageFailed b",
            "TaskFailed",
            "TaskRetryStarted",
            "StageStarted b",
            "StageCompleted b",
            "StageStarted c",
            "StageCompleted c",
            "TaskCompleted"
        ]
        .map(str::to_owned)[..]
    );
    let expected = ["PlanCreated", "PlanStarted", "PlanFailed", "PlanResumed", "PlanCompleted"];
    assert_eq!(world.plan_events(&id).await, expected);
    let view = world.view("acme").await;
    assert_eq!((view.task.retries, view.task.pass, view.checkpoint), (1, 1, None));
    let context = view.task.context.unwrap();
    assert!(["acme/a", "acme/b", "acme/c"].iter().all(|by| context.as_str().contains(by)), "{context}");
}

#[tokio::test]
async fn progress_is_told_once_when_a_retry_starts() {
    // No beat comes while this runs: what is told of progress is told of the retry.
    let world = World::with(Options { lease_ms: 3_600_000, beat_ms: 1_200_000, ..calm() }).await;
    world.script.fail("acme/b");
    let mut news = world.engine.subscribe();
    let mut told = async |last: &str| {
        let mut told = Vec::new();
        while told.last().is_none_or(|told| told != last) {
            match tokio::time::timeout(PATIENCE, news.recv()).await.expect(last).unwrap() {
                News::Event { event, .. } if event.task.is_some() => told.push(short(&event.fact)),
                News::TaskProgress { completed, stages, .. } => told.push(format!("TaskProgress {completed}/{stages}")),
                _ => {}
            }
        }
        told
    };
    let id = world.start(&plan(3, &["acme"])).await;
    let first = told("TaskFailed").await;
    assert!(first.iter().all(|told| !told.starts_with("TaskProgress")), "a first run is no retry: {first:?}");
    world.until_plan(&id, PlanStatus::Failed).await;
    world.script.heal("acme/b");
    world.task("acme", retry(RetryFrom::Checkpoint)).await.unwrap();
    let expected = [
        "TaskRetryStarted",
        "StageStarted b",
        "TaskProgress 1/3",
        "StageCompleted b",
        "StageStarted c",
        "StageCompleted c",
        "TaskCompleted",
    ];
    assert_eq!(told("TaskCompleted").await, expected);
}

#[tokio::test]
async fn a_retry_from_the_start_is_a_new_pass_over_all_stages() {
    let (world, id) = failed_at("c").await;
    world.task("acme", retry(RetryFrom::Start)).await.unwrap();
    world.until_plan(&id, PlanStatus::Completed).await;
    assert_eq!(world.script.take(), ["acme/a/2 \"new\"", "acme/b/2 \"new\"", "acme/c/2 \"new\""]);
}

#[tokio::test]
async fn a_retry_from_a_named_stage_is_a_new_pass_from_there() {
    let (world, id) = failed_at("c").await;
    world.task("acme", retry(from_stage("b"))).await.unwrap();
    world.until_plan(&id, PlanStatus::Completed).await;
    assert_eq!(world.script.take(), ["acme/b/2 \"new\"", "acme/c/2 \"new\""]);
}

#[tokio::test]
async fn a_stage_that_is_not_reached_cannot_be_the_first() {
    let (world, _) = failed_at("b").await;
    let no = refused(world.task("acme", retry(from_stage("c"))).await);
    assert_eq!((no.code, no.state.as_str()), (RefusedCode::Stage, "FAILED"));
    let no = refused(world.task("acme", retry(from_stage("z"))).await);
    assert_eq!(no.code, RefusedCode::Stage);
    assert_eq!(world.script.take(), Vec::<String>::new());
}

#[tokio::test]
async fn a_failure_in_the_first_stage_leaves_a_checkpoint_that_has_nothing() {
    let (world, id) = failed_at("a").await;
    let checkpoint = world.view("acme").await.checkpoint.unwrap();
    assert_eq!((checkpoint.last_completed_stage_index, checkpoint.failure_history.len()), (-1, 1));
    world.task("acme", retry(RetryFrom::Checkpoint)).await.unwrap();
    world.until_plan(&id, PlanStatus::Completed).await;
    assert_eq!(world.script.take(), ["acme/a/1 \"new\"", "acme/b/1 \"new\"", "acme/c/1 \"new\""]);
}

#[tokio::test]
async fn two_failures_in_a_row_keep_the_place_and_both_are_remembered() {
    let (world, id) = failed_at("b").await;
    world.script.fail("acme/b");
    world.task("acme", retry(RetryFrom::Checkpoint)).await.unwrap();
    world.until_task("acme", TaskStatus::Failed).await;
    world.until_plan(&id, PlanStatus::Failed).await;
    let checkpoint = world.view("acme").await.checkpoint.unwrap();
    assert_eq!((checkpoint.last_completed_stage_index, checkpoint.failure_history.len()), (0, 2));
    world.script.heal("acme/b");
    world.task("acme", retry(RetryFrom::Start)).await.unwrap();
    world.until_plan(&id, PlanStatus::Completed).await;
    assert_eq!(world.script.take(), ["acme/b/1 \"new\"", "acme/a/2 \"new\"", "acme/b/2 \"new\"", "acme/c/2 \"new\""]);
    assert_eq!(world.view("acme").await.task.retries, 2);
}

#[tokio::test]
async fn a_completed_task_is_not_retried() {
    let world = World::new().await;
    let id = world.start(&plan(1, &["acme"])).await;
    world.until_plan(&id, PlanStatus::Completed).await;
    let no = refused(world.task("acme", retry(RetryFrom::Start)).await);
    assert_eq!((no.code, no.state.as_str(), no.instead), (RefusedCode::State, "COMPLETED", vec!["rollback"]));
}

#[tokio::test]
async fn a_retry_may_bring_a_new_config() {
    let (world, id) = failed_at("b").await;
    world.retry_with("acme", RetryFrom::Checkpoint, "\"newer\"").await.unwrap();
    world.until_plan(&id, PlanStatus::Completed).await;
    assert_eq!(world.script.take(), ["acme/b/1 \"newer\"", "acme/c/1 \"newer\""]);
    let wrong = windlass_engine::command::task::Order { config: Some(windlass_core::json::Json::null()), ..rollback() };
    let no = world.engine.task(&wrong, &crate::world::by("bob")).await;
    assert!(matches!(no, Err(Error::Invalid(_))), "{no:?}");
}

fn rollback() -> windlass_engine::command::task::Order {
    crate::world::order(of("acme"), Command::Rollback { force: false })
}

#[tokio::test]
async fn a_task_that_was_rolled_back_is_retried_with_a_new_config() {
    let (world, id) = failed_at("b").await;
    world.task("acme", Command::Rollback { force: false }).await.unwrap();
    world.until_task("acme", TaskStatus::RolledBack).await;
    world.until_plan(&id, PlanStatus::Failed).await;
    world.script.take();
    world.retry_with("acme", RetryFrom::Start, "\"newer\"").await.unwrap();
    world.until_plan(&id, PlanStatus::Completed).await;
    assert_eq!(world.script.take(), ["acme/a/3 \"newer\"", "acme/b/3 \"newer\"", "acme/c/3 \"newer\""]);
}

#[tokio::test]
async fn a_task_that_a_conflict_skipped_is_retried_with_a_new_config() {
    let world = World::new().await;
    world.script.shut("acme/a");
    let first = world.start(&plan(1, &["acme"])).await;
    world.script.entered("acme/a").await;
    let second = world.start(&plan(1, &["acme"])).await;
    world.until_plan(&second, PlanStatus::Failed).await;
    world.script.let_go("acme/a");
    world.until_plan(&first, PlanStatus::Completed).await;
    world.script.take();
    let which = crate::world::nth(&second, 0);
    let config = Some(windlass_core::json::Json::parse("\"newer\"").unwrap());
    let order =
        windlass_engine::command::task::Order { config, ..crate::world::order(which, retry(RetryFrom::Checkpoint)) };
    world.engine.task(&order, &crate::world::by("bob")).await.unwrap();
    world.until_plan(&second, PlanStatus::Completed).await;
    assert_eq!(world.script.take(), ["acme/a/1 \"newer\""]);
}

#[tokio::test]
async fn retries_are_limited_by_the_task_then_the_plan_then_the_server() {
    let world = World::new().await;
    world.script.fail("acme/a");
    world.script.fail("blue/a");
    let yaml = "plan: p\nretry_limit: 1\nstages: [{ name: a, handler: { name: do } }]\ntasks:\n  \
                - { tenant: acme }\n  - { tenant: blue, retry_limit: 2 }\n";
    let id = world.start(yaml).await;
    world.until_plan(&id, PlanStatus::Failed).await;
    for (tenant, limit) in [("acme", 1), ("blue", 2)] {
        for _ in 0..limit {
            world.task(tenant, retry(RetryFrom::Checkpoint)).await.unwrap();
            world.until_task(tenant, TaskStatus::Failed).await;
            world.until_plan(&id, PlanStatus::Failed).await;
        }
        let no = refused(world.task(tenant, retry(RetryFrom::Checkpoint)).await);
        assert_eq!(no.code, RefusedCode::RetryLimit);
        assert!(no.why.contains(&format!("the limit is {limit}")), "{}", no.why);
    }
    let server = World::with(windlass_engine::Options { retry_limit: 1, ..crate::world::calm() }).await;
    server.script.fail("acme/a");
    let id = server.start(&plan_of("", &["a"], &["acme"])).await;
    server.until_plan(&id, PlanStatus::Failed).await;
    server.task("acme", retry(RetryFrom::Checkpoint)).await.unwrap();
    server.until_task("acme", TaskStatus::Failed).await;
    let no = refused(server.task("acme", retry(RetryFrom::Checkpoint)).await);
    assert_eq!(no.code, RefusedCode::RetryLimit);
}

/// Puts a checkpoint in the store that names a stage the task does not have.
async fn break_checkpoint(world: &World) {
    let view = world.view("acme").await;
    let row = world.state.load(&[Key::Task(view.task.id.clone())]).await.unwrap().remove(0);
    let Some(Row::Task(row)) = row else { panic!("the task is there") };
    let mut checkpoint = view.checkpoint.unwrap();
    checkpoint.completed_stages[0] = "other".parse().unwrap();
    checkpoint.version += 1;
    let from = Statuses::of(&[row.task.status]);
    let step = Step {
        op: Op { id: "broken".parse().unwrap(), digest: 0 },
        by: Writer::Person("eve".parse().unwrap()),
        plan: None,
        tasks: vec![TaskPut { task: row.task, from, version: row.version, spec: None }],
        checkpoint: CheckpointPut::Put(checkpoint),
        ask: None,
        events: Vec::new(),
        answer: None,
    };
    world.state.commit(&[step]).await.unwrap().remove(0).unwrap();
}

#[tokio::test]
async fn an_invalid_checkpoint_is_refused_by_its_broken_rule_unless_the_retry_says_restart() {
    let (world, id) = failed_at("b").await;
    break_checkpoint(&world).await;
    let no = refused(world.task("acme", retry(RetryFrom::Checkpoint)).await);
    assert_eq!(no.code, RefusedCode::Checkpoint);
    assert!(no.why.contains("its completed stage 0 is other"), "{}", no.why);
    let again = Command::Retry(Retry { from: RetryFrom::Checkpoint, restart_if_invalid: true, force: false });
    let warned = Warnings::default();
    let said = tracing::subscriber::set_default(warned.clone());
    let look = windlass_engine::command::Caller { dry_run: true, ..crate::world::by("bob") };
    let order = crate::world::order(crate::world::of("acme"), again.clone());
    assert!(world.engine.task(&order, &look).await.unwrap().discarded.is_some());
    assert_eq!(warned.of("an invalid checkpoint is discarded"), 0, "a dry run discards nothing");
    let done = world.task("acme", again).await.unwrap();
    assert!(done.discarded.unwrap().contains("other"));
    drop(said);
    assert_eq!(warned.of("an invalid checkpoint is discarded"), 1, "{:?}", warned.0.lock().unwrap());
    world.until_plan(&id, PlanStatus::Completed).await;
    assert_eq!(world.script.take(), ["acme/a/2 \"new\"", "acme/b/2 \"new\"", "acme/c/2 \"new\""]);
}

#[tokio::test]
async fn only_the_tenants_latest_started_task_is_retried_unless_forced_with_a_reason() {
    let (world, first) = failed_at("b").await;
    let second = world.start(&plan(1, &["acme"])).await;
    world.until_plan(&second, PlanStatus::Completed).await;
    world.script.take();
    let old = |force| {
        let retry = Command::Retry(Retry { from: RetryFrom::Checkpoint, restart_if_invalid: false, force });
        crate::world::order(crate::world::nth(&first, 0), retry)
    };
    let bob = crate::world::by("bob");
    assert_eq!(refused(world.engine.task(&old(false), &bob).await).code, RefusedCode::NotLatest);
    assert_eq!(refused(world.engine.task(&old(true), &bob).await).code, RefusedCode::ReasonWanted);
    world.engine.task(&old(true), &bob.because("it must be".parse().unwrap())).await.unwrap();
    world.until_plan(&first, PlanStatus::Completed).await;
    assert_eq!(world.script.take(), ["acme/b/1 \"new\"", "acme/c/1 \"new\""]);
}

/// What is warned of on this thread.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    fn of(&self, text: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|said| said.contains(text)).count()
    }
}

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        struct Said<'a>(&'a mut String);
        impl tracing::field::Visit for Said<'_> {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                *self.0 += &format!("{}={value:?} ", field.name());
            }
        }
        let mut said = String::new();
        event.record(&mut Said(&mut said));
        self.0.lock().unwrap().push(said);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}
