//! Submitting and waiting: each end has its own answer, and many who wait cost the store one look.

use std::time::Duration;

use windlass_core::job::rules::{Asked, JobAsk, Outcome};
use windlass_core::job::{JobError, JobStatus, NewJob};
use windlass_core::port::Refusal;
use windlass_core::port::job::{JobFilter, Jobs as _};
use windlass_core::time::Ms;
use windlass_engine::Error;
use windlass_engine::job::handle::JobFailed;
use windlass_engine::job::{Bulk, Waited};

use super::yard::{Yard, json, lane, options, pass};
use crate::world::by;

fn ended(waited: Result<Waited, Error>) -> JobStatus {
    match waited {
        Ok(Waited::Ended(job)) => {
            job.check().unwrap();
            job.status
        }
        other => panic!("{other:?}"),
    }
}

fn failed() -> Outcome {
    Outcome::Failed { error: Box::new(JobError::of("E", "it broke")), retry: false, spread: 0 }
}

#[tokio::test(start_paused = true)]
async fn many_are_submitted_all_or_none() {
    let yard = Yard::new(options());
    let wrong = NewJob { max_attempts: 0, ..yard.job() };
    let refused = yard.queues.submit_all(vec![yard.job(), wrong]).await.err().unwrap();
    assert!(matches!(refused, Error::Store(Refusal::Invalid(_))), "{refused}");
    assert!(yard.list(&[]).await.is_empty());
    let handles = yard.queues.submit_all(vec![yard.job(), yard.job(), yard.job()]).await.unwrap();
    assert_eq!(yard.list(&[JobStatus::Pending]).await.len(), 3);
    let ids: std::collections::HashSet<_> = handles.iter().map(windlass_engine::job::Handle::id).collect();
    assert_eq!(ids.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn each_end_has_its_own_answer() {
    let yard = Yard::new(options());
    let unknown = yard.queues.handle(yard.queues.new_id()).wait(None).await.unwrap_err();
    assert!(matches!(unknown, Error::Store(Refusal::NotFound(_))), "{unknown}");
    assert!(!unknown.to_string().contains("retention"), "{unknown}");

    let done = yard.queues.submit(yard.job()).await.unwrap();
    let claimed = yard.claim().await.unwrap();
    yard.settle(&claimed, Outcome::Completed(json("null"))).await;
    assert_eq!(ended(done.wait(None).await), JobStatus::Completed);
    assert_eq!(done.await.unwrap(), json("null"));
    assert_eq!(ended(yard.queues.handle(claimed.id).wait(Some(Duration::ZERO)).await), JobStatus::Completed);

    let cancelled = yard.queues.submit(yard.job()).await.unwrap();
    assert_eq!(cancelled.cancel(&by("ann")).await.unwrap(), Asked::Cancelled);
    assert_eq!(ended(cancelled.wait(None).await), JobStatus::Cancelled);
    assert_eq!(cancelled.await.unwrap_err(), JobFailed::Cancelled);

    let dead = yard.queues.submit(yard.job()).await.unwrap();
    let claimed_dead = yard.claim().await.unwrap();
    yard.settle(&claimed_dead, failed()).await;
    assert!(matches!(dead.await.unwrap_err(), JobFailed::Failed(error) if error.message == "it broke"));

    pass(120_000).await;
    assert_eq!(yard.queues.tidy(super::yard::now(yard.began)).await.unwrap(), 3);
    let expired = yard.queues.handle(claimed.id).wait(None).await.unwrap_err();
    assert!(matches!(expired, Error::Store(Refusal::NotFound(_))), "{expired}");
}

#[tokio::test(start_paused = true)]
async fn who_missed_the_end_and_its_retention_is_told_so() {
    let yard = Yard::new(options());
    let handle = yard.queues.submit(yard.job()).await.unwrap();
    yard.port.set_down(true);
    yard.port.set_feed_down(true);
    let claimed = yard.claim().await.unwrap();
    yard.settle(&claimed, Outcome::Completed(json("1"))).await;
    // Somebody who listens has heard of it before, and keeps it.
    pass(40_000).await;
    yard.store.purge(Ms::new(u64::MAX / 2), 1_000).await.unwrap();
    yard.port.set_down(false);
    let gone = handle.wait(None).await.unwrap_err();
    assert!(gone.to_string().contains("retention is over"), "{gone}");
}

#[tokio::test(start_paused = true)]
async fn a_time_out_never_cancels() {
    let yard = Yard::new(options());
    let handle = yard.queues.submit(yard.job()).await.unwrap();
    for timeout in [Duration::ZERO, Duration::from_millis(1), Duration::from_secs(3_600)] {
        assert_eq!(handle.wait(Some(timeout)).await.unwrap(), Waited::TimedOut);
        let other = yard.queues.handle(handle.id());
        assert_eq!(other.wait(Some(timeout)).await.unwrap(), Waited::TimedOut);
    }
    let job = yard.claim().await.unwrap();
    assert_eq!((job.id, job.cancel.is_none()), (handle.id(), true));
    yard.settle(&job, Outcome::Completed(json("null"))).await;
    assert_eq!(handle.await.unwrap(), json("null"));
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_who_wait_for_one_job_cost_two_looks() {
    let yard = Yard::new(options());
    let job = yard.job();
    let id = job.id;
    // Submitted elsewhere: nobody here listened then.
    yard.store.submit(&[vec![job]]).await.unwrap()[0].as_ref().unwrap();
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..10_000 {
        let handle = yard.queues.handle(id);
        waiting.spawn(async move { handle.wait(None).await });
    }
    pass(1).await;
    let before = yard.port.loads();
    assert!(before <= 2, "{before} reads before it ended");
    let claimed = yard.claim().await.unwrap();
    yard.settle(&claimed, Outcome::Completed(json("7"))).await;
    while let Some(waited) = waiting.join_next().await {
        assert_eq!(ended(waited.unwrap()), JobStatus::Completed);
    }
    assert_eq!(yard.port.loads() - before, 1);
}

#[tokio::test(start_paused = true)]
async fn finished_jobs_are_read_once_at_most() {
    let yard = Yard::new(options());
    let first = yard.queues.submit(yard.job()).await.unwrap();
    pass(1).await;
    let before = yard.port.loads();
    let handles = yard.queues.submit_all((0..2_000).map(|_| yard.job()).collect()).await.unwrap();
    yard.queues.work(vec![lane("q", 100, 100, async |told| Ok(told.payload.unwrap()))]).unwrap();
    for handle in handles {
        assert_eq!(handle.await.unwrap(), json("1"));
    }
    assert_eq!(first.await.unwrap(), json("1"));
    let reads = yard.port.loads() - before;
    assert!(reads <= 1, "{reads} reads for 2,001 jobs that were done here");
}

#[tokio::test(start_paused = true)]
async fn who_waits_outlasts_an_outage() {
    let yard = Yard::new(options());
    let handle = yard.queues.submit(yard.job()).await.unwrap();
    pass(1).await;
    // The feed is away for good: looking is all there is.
    yard.port.set_feed_down(true);
    let other = yard.queues.submit(yard.job()).await.unwrap();
    let ended_elsewhere = async {
        yard.port.set_down(true);
        let (a, b) = (yard.claim().await.unwrap(), yard.claim().await.unwrap());
        yard.settle(&a, Outcome::Completed(json("1"))).await;
        yard.settle(&b, Outcome::Completed(json("2"))).await;
        pass(5_000).await;
        yard.port.set_down(false);
    };
    let (first, second, ()) = tokio::join!(handle.wait(None), other.wait(None), ended_elsewhere);
    assert_eq!((ended(first), ended(second)), (JobStatus::Completed, JobStatus::Completed));
    let again = yard.queues.submit(yard.job()).await.unwrap();
    let claimed = yard.claim().await.unwrap();
    yard.settle(&claimed, Outcome::Completed(json("3"))).await;
    assert_eq!(ended(again.wait(Some(Duration::from_secs(60))).await), JobStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_requeued_job_is_waited_for_again() {
    let yard = Yard::new(options());
    let handle = yard.queues.submit(yard.job()).await.unwrap();
    let claimed = yard.claim().await.unwrap();
    yard.settle(&claimed, failed()).await;
    assert_eq!(ended(handle.wait(None).await), JobStatus::Failed);
    assert_eq!(yard.queues.requeue(handle.id(), &by("ann")).await.unwrap(), Asked::Requeued);
    assert_eq!(handle.wait(Some(Duration::from_secs(1))).await.unwrap(), Waited::TimedOut);
    let claimed = yard.claim().await.unwrap();
    yard.settle(&claimed, Outcome::Completed(json("2"))).await;
    assert_eq!(ended(handle.wait(None).await), JobStatus::Completed);
    let refused = yard.queues.requeue(handle.id(), &by("ann")).await.unwrap_err();
    assert!(matches!(refused, Error::Store(Refusal::State { .. })), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_requeued_job_that_ends_before_the_answer_comes_is_heard_of() {
    let yard = Yard::new(options());
    let handle = yard.queues.submit(yard.job()).await.unwrap();
    let claimed = yard.claim().await.unwrap();
    yard.settle(&claimed, failed()).await;
    assert_eq!(ended(handle.wait(None).await), JobStatus::Failed);
    yard.port.asks_take(1_000);
    let (ann, work) = (by("ann"), async {
        pass(100).await;
        let claimed = yard.claim().await.unwrap();
        yard.settle(&claimed, Outcome::Completed(json("2"))).await;
    });
    let (asked, ()) = tokio::join!(yard.queues.requeue(handle.id(), &ann), work);
    assert_eq!(asked.unwrap(), Asked::Requeued);
    assert_eq!(ended(handle.wait(Some(Duration::from_secs(1))).await), JobStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_job_on_its_way_to_the_store_is_not_gone() {
    let yard = Yard::new(options());
    yard.port.set_feed_down(true);
    yard.port.submits_take(2_000);
    let handle = yard.queues.submit(yard.job()).await.unwrap();
    assert!(yard.port.loads() > 0, "nobody looked meanwhile");
    assert_eq!(handle.wait(Some(Duration::from_millis(500))).await.unwrap(), Waited::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn who_waits_hears_that_the_instance_stops() {
    let yard = Yard::new(options());
    let handle = yard.queues.submit(yard.job()).await.unwrap();
    let stop = async {
        pass(10).await;
        yard.queues.stop().await;
    };
    let (waited, ()) = tokio::join!(handle.wait(None), stop);
    assert!(matches!(waited, Err(Error::Stopping)), "{waited:?}");
    assert!(matches!(yard.queues.submit(yard.job()).await.err(), Some(Error::Stopping)));
}

#[tokio::test(start_paused = true)]
async fn what_fits_is_cancelled_or_requeued_and_a_dry_run_only_counts() {
    let yard = Yard::new(options());
    yard.queues.submit_all((0..6).map(|_| yard.job()).collect()).await.unwrap();
    for outcome in [failed(), failed(), Outcome::Completed(json("1"))] {
        let claimed = yard.claim().await.unwrap();
        yard.settle(&claimed, outcome).await;
    }
    let (filter, ann) = (JobFilter::default(), by("ann"));
    let dry = windlass_engine::command::Caller { dry_run: true, ..ann.clone() };
    let of = |changed| Bulk { changed, left: 0, next: None };
    assert_eq!(yard.queues.ask_all(&filter, JobAsk::Requeue, None, &dry).await.unwrap(), of(2));
    assert_eq!(yard.queues.ask_all(&filter, JobAsk::Cancel, None, &dry).await.unwrap(), of(3));
    assert_eq!(yard.list(&[JobStatus::Pending]).await.len(), 3);
    let only_done = JobFilter { statuses: vec![JobStatus::Completed], ..JobFilter::default() };
    assert_eq!(yard.queues.ask_all(&only_done, JobAsk::Cancel, None, &ann).await.unwrap(), of(0));
    assert_eq!(yard.queues.ask_all(&filter, JobAsk::Requeue, None, &ann).await.unwrap(), of(2));
    assert_eq!(yard.queues.ask_all(&filter, JobAsk::Cancel, None, &ann).await.unwrap(), of(5));
    assert_eq!(yard.list(&[JobStatus::Cancelled]).await.len(), 5);
    assert_eq!(yard.list(&[JobStatus::Completed]).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_janitor_forgets_ended_jobs_only() {
    let yard = Yard::new(options());
    yard.queues.submit_all((0..3).map(|_| yard.job()).collect()).await.unwrap();
    let (done, _runs) = (yard.claim().await.unwrap(), yard.claim().await.unwrap());
    yard.settle(&done, Outcome::Completed(json("1"))).await;
    assert_eq!(yard.queues.tidy(super::yard::now(yard.began)).await.unwrap(), 0, "its retention is not over");
    pass(61_000).await;
    assert_eq!(yard.queues.tidy(super::yard::now(yard.began)).await.unwrap(), 1);
    assert!(yard.list(&[JobStatus::Completed]).await.is_empty());
    assert_eq!(yard.list(&[JobStatus::Pending, JobStatus::Running]).await.len(), 2);
}
