//! Jobs as stages, and what people see of jobs through the engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use windlass_core::id::JobId;
use windlass_core::job::rules::Outcome;
use windlass_core::job::{JobError, JobStatus, NewJob};
use windlass_core::json::Json;
use windlass_core::port::lock::Force;
use windlass_core::task::Cause;
use windlass_core::task::command::{Command, RetryFrom};
use windlass_core::task::status::TaskStatus;
use windlass_engine::job::worker::{Failed, Told};
use windlass_engine::job::{Queues, Waited};
use windlass_engine::query::inbox::Kind;
use windlass_engine::query::view::TaskView;
use windlass_engine::stage::actions::{Actions, Setup};
use windlass_engine::{Engine, Parts};

use super::yard::{Yard, json, lane, now, options, pass};
use crate::world::{brief, by, file, of, order, plan_of, retry};

const STAGE: &str = "{ name: a, job: { queue: q, payload: { for: '{{ tenant }}' } } }";

async fn engine(yard: &Yard, queues: &Queues) -> Engine {
    let began = yard.began;
    let setup = Setup { queues: Some(queues.clone()), ..Setup::default() };
    let parts = Parts {
        instance: Engine::new_instance(),
        state: Arc::new(yard.store.clone()),
        locks: Arc::new(yard.store.clone()),
        queues: Some(queues.clone()),
        triggers: None,
        actions: Actions::new(setup).unwrap(),
        clock: Arc::new(move || now(began)),
        options: brief(),
        seed: 1,
    };
    Engine::start(parts).await.unwrap()
}

async fn start(engine: &Engine, stages: &[&str], tenants: &[&str]) {
    engine.create(&file(&plan_of("", stages, tenants)), true, &by("ann")).await.unwrap();
}

async fn until(engine: &Engine, status: TaskStatus) -> TaskView {
    let reached = async {
        loop {
            let view = engine.view_task(&of("acme")).await.unwrap();
            if view.task.status == status && view.control.start.is_none() {
                return view;
            }
            pass(10).await;
        }
    };
    let reached = tokio::time::timeout(Duration::from_secs(300), reached).await;
    match reached {
        Ok(view) => view,
        Err(_) => panic!("it is {:?}", engine.view_task(&of("acme")).await.unwrap().task),
    }
}

/// A worker of another process that fails so often, then does it.
fn worker(yard: &Yard, failures: u32) -> (Queues, Arc<AtomicU32>) {
    let (queues, runs) = (yard.elsewhere(options()), Arc::new(AtomicU32::new(0)));
    let counter = Arc::clone(&runs);
    let handler = move |told: Told| {
        let run = counter.fetch_add(1, Ordering::SeqCst);
        async move {
            match run < failures {
                true => Err(Failed { error: JobError::of("E", "it broke"), again: true }),
                false => Ok(json(&format!("{{\"got\":{}}}", told.payload.unwrap()))),
            }
        }
    };
    queues.work(vec![lane("q", 1, 0, handler)]).unwrap();
    (queues, runs)
}

fn context(view: &TaskView) -> String {
    view.task.context.as_ref().map_or_else(String::new, Json::to_string)
}

#[tokio::test(start_paused = true)]
async fn the_result_of_a_job_enters_the_context() {
    let yard = Yard::new(options());
    let engine = engine(&yard, &yard.queues).await;
    let (_there, runs) = worker(&yard, 0);
    start(&engine, &[STAGE], &["acme"]).await;
    let view = until(&engine, TaskStatus::Completed).await;
    assert!(context(&view).contains("{\"got\":{\"for\":\"acme\"}}"), "{}", context(&view));
    let job = yard.list(&[]).await.remove(0);
    assert_eq!(job.tenant.unwrap().as_str(), "acme");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    engine.kill();
}

#[tokio::test(start_paused = true)]
async fn a_failed_job_fails_its_stage_and_a_retry_requeues_it() {
    let yard = Yard::new(options());
    let engine = engine(&yard, &yard.queues).await;
    let (_there, runs) = worker(&yard, 3);
    let patient = STAGE.replace(" } } }", " } }, retry: { max: 1, backoff: 1s } }");
    start(&engine, &[&patient], &["acme"]).await;
    let view = until(&engine, TaskStatus::Failed).await;
    assert!(view.task.failure.unwrap().message.contains("it broke"));
    assert_eq!(runs.load(Ordering::SeqCst), 2, "the stage's own retry requeued it");
    let inbox = engine.inbox().await.unwrap().0;
    assert_eq!(inbox.iter().filter(|item| item.kind == Kind::DeadJob).count(), 1, "{inbox:?}");
    engine.task(&order(of("acme"), retry(RetryFrom::Checkpoint)), &by("bob")).await.unwrap();
    until(&engine, TaskStatus::Completed).await;
    assert_eq!((runs.load(Ordering::SeqCst), yard.list(&[]).await.len()), (4, 1), "it was one job all along");
    assert!(engine.inbox().await.unwrap().0.is_empty());
    engine.kill();
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_the_stage_takes_the_same_jobs_result() {
    let yard = Yard::new(options());
    let crashes = yard.elsewhere(options());
    let first = engine(&yard, &crashes).await;
    start(&first, &[STAGE], &["acme"]).await;
    while yard.list(&[JobStatus::Pending]).await.is_empty() {
        pass(10).await;
    }
    first.kill();
    let job = yard.claim().await.unwrap();
    yard.settle(&job, Outcome::Completed(json("42"))).await;
    let second = engine(&yard, &yard.queues).await;
    while !second.view_task(&of("acme")).await.unwrap().interrupted {
        pass(10).await;
    }
    second.task(&order(of("acme"), retry(RetryFrom::Checkpoint)), &by("bob")).await.unwrap();
    let view = until(&second, TaskStatus::Completed).await;
    assert!(context(&view).contains("42"), "{}", context(&view));
    assert_eq!(yard.list(&[]).await.len(), 1, "it was submitted once");
    second.kill();
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_job_fails_its_stage_and_a_retry_takes_another() {
    let yard = Yard::new(options());
    let engine = engine(&yard, &yard.queues).await;
    start(&engine, &[&STAGE.replace(" } } }", " } }, retry: { max: 3, backoff: 1s } }")], &["acme"]).await;
    while yard.list(&[JobStatus::Pending]).await.is_empty() {
        pass(10).await;
    }
    let job = yard.list(&[JobStatus::Pending]).await.remove(0);
    yard.queues.cancel(job.id, &by("eve")).await.unwrap();
    let view = until(&engine, TaskStatus::Failed).await;
    assert!(view.task.failure.unwrap().message.contains("cancelled"));
    let (_there, runs) = worker(&yard, 0);
    engine.task(&order(of("acme"), retry(RetryFrom::Checkpoint)), &by("bob")).await.unwrap();
    until(&engine, TaskStatus::Completed).await;
    assert_eq!((runs.load(Ordering::SeqCst), yard.list(&[]).await.len()), (1, 2));
    engine.kill();
}

/// The one job of a stage that nobody works on yet.
async fn submitted(yard: &Yard) -> JobId {
    loop {
        match yard.list(&[JobStatus::Pending]).await.first() {
            Some(job) => return job.id,
            None => pass(10).await,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_cancelled_takes_its_job_along() {
    let yard = Yard::new(options());
    let engine = engine(&yard, &yard.queues).await;
    start(&engine, &[STAGE], &["acme"]).await;
    let job = submitted(&yard).await;
    engine.task(&order(of("acme"), Command::Pause(Cause::Person)), &by("bob")).await.unwrap();
    pass(1_000).await;
    assert_eq!(yard.stored(job).await.status, JobStatus::Pending, "a pause waits for it");
    engine.task(&order(of("acme"), Command::Cancel(Cause::Person)), &by("bob")).await.unwrap();
    until(&engine, TaskStatus::Cancelled).await;
    assert_eq!(yard.stored(job).await.status, JobStatus::Cancelled);
    engine.kill();
}

#[tokio::test(start_paused = true)]
async fn a_stage_whose_time_is_over_takes_its_job_along() {
    let yard = Yard::new(options());
    let engine = engine(&yard, &yard.queues).await;
    start(&engine, &[&STAGE.replace(" } } }", " } }, timeout: 2s }")], &["acme"]).await;
    let job = submitted(&yard).await;
    until(&engine, TaskStatus::Failed).await;
    assert_eq!(yard.stored(job).await.status, JobStatus::Cancelled);
    engine.kill();
}

#[tokio::test(start_paused = true)]
async fn a_stop_leaves_the_job_to_whoever_goes_on() {
    let yard = Yard::new(options());
    let queues = yard.elsewhere(options());
    let engine = engine(&yard, &queues).await;
    start(&engine, &[STAGE], &["acme"]).await;
    let job = submitted(&yard).await;
    engine.stop().await;
    assert_eq!(yard.stored(job).await.status, JobStatus::Pending);
}

#[tokio::test(start_paused = true)]
async fn why_says_that_no_worker_is_there() {
    let yard = Yard::new(options());
    let engine = engine(&yard, &yard.queues).await;
    start(&engine, &[STAGE], &["acme"]).await;
    while yard.list(&[JobStatus::Pending]).await.is_empty() {
        pass(10).await;
    }
    let why = engine.why_task(&of("acme")).await.unwrap();
    assert_eq!(why.cause, "noWorker");
    assert!(why.text.contains("no worker for queue q"), "{}", why.text);
    let stays = yard.elsewhere(options());
    stays.work(vec![lane("q", 1, 0, async |_| std::future::pending().await)]).unwrap();
    pass(20_000).await;
    assert_eq!(engine.why_task(&of("acme")).await.unwrap().cause, "running");
    // Without an answer of the jobs' store, what is known is said.
    yard.port.set_down(true);
    assert_eq!(engine.why_task(&of("acme")).await.unwrap().cause, "running");
    engine.kill();
}

#[tokio::test(start_paused = true)]
async fn a_frozen_tenants_jobs_wait_until_it_is_not() {
    let yard = Yard::new(options());
    let engine = engine(&yard, &yard.queues).await;
    let eve = by("eve").because("because".parse().unwrap());
    let tenant = |name: &str| Some(name.parse().unwrap());
    engine.tenant(&"acme".parse().unwrap(), Force::Freeze, &eve).await.unwrap();
    let frozen = yard.queues.submit(NewJob { tenant: tenant("acme"), ..yard.job() }).await.unwrap();
    let free = yard.queues.submit(NewJob { tenant: tenant("other"), ..yard.job() }).await.unwrap();
    let (_there, _runs) = worker(&yard, 0);
    assert!(matches!(free.wait(Some(Duration::from_secs(1))).await.unwrap(), Waited::Ended(_)));
    assert_eq!(frozen.wait(Some(Duration::from_secs(600))).await.unwrap(), Waited::TimedOut);
    engine.tenant(&"acme".parse().unwrap(), Force::Unfreeze, &eve).await.unwrap();
    assert!(matches!(frozen.wait(Some(Duration::from_secs(1))).await.unwrap(), Waited::Ended(_)));
    engine.kill();
}

#[tokio::test(start_paused = true)]
async fn a_dead_job_is_in_the_inbox_until_a_person_requeues_it() {
    let yard = Yard::new(options());
    let engine = engine(&yard, &yard.queues).await;
    let (_there, _runs) = worker(&yard, 1);
    let handle = yard.queues.submit(yard.job()).await.unwrap();
    assert!(matches!(handle.wait(None).await.unwrap(), Waited::Ended(job) if job.status == JobStatus::Failed));
    let inbox = engine.inbox().await.unwrap().0;
    assert_eq!((inbox.len(), inbox[0].kind, inbox[0].job), (1, Kind::DeadJob, Some(handle.id())));
    assert!(inbox[0].text.contains("it broke"), "{}", inbox[0].text);
    yard.queues.requeue(handle.id(), &by("ann")).await.unwrap();
    assert!(matches!(handle.wait(None).await.unwrap(), Waited::Ended(job) if job.status == JobStatus::Completed));
    assert!(engine.inbox().await.unwrap().0.is_empty());
    // The engine's own janitor forgets it when its time is over.
    pass(200_000).await;
    assert!(yard.list(&[]).await.is_empty());
    engine.kill();
}

#[tokio::test(start_paused = true)]
async fn a_stage_outlasts_an_outage_of_the_jobs_store_while_it_waits() {
    let yard = Yard::new(options());
    let engine = engine(&yard, &yard.queues).await;
    start(&engine, &[STAGE], &["acme"]).await;
    while yard.list(&[JobStatus::Pending]).await.is_empty() {
        pass(10).await;
    }
    yard.port.set_down(true);
    let job = yard.claim().await.unwrap();
    yard.settle(&job, Outcome::Completed(json("42"))).await;
    pass(60_000).await;
    yard.port.set_down(false);
    let view = until(&engine, TaskStatus::Completed).await;
    assert!(context(&view).contains("42"), "{}", context(&view));
    assert_eq!(yard.port.submits(), 1);
    engine.kill();
}
