//! Leases: workers that are not heard of any more, attempts that take too long, and the sweep.

use windlass_core::job::error::{CANCELLED, LOST, TIMEOUT};
use windlass_core::job::rules::{JobAsk, Outcome};
use windlass_core::job::{Backoff, DELIVERIES_MAX, Job, JobStatus, NewJob};
use windlass_core::port::Refusal;
use windlass_core::port::job::Turn;

use crate::job::JobHarness;
use crate::job::world::{Client, LATER_MS, LEASE_MS, delivery, done, failure, ids, job_id, new, of, turn};
use crate::world::id;

/// Under a higher fence, in the same attempt, and RUNNING all the while.
pub async fn a_job_whose_worker_is_gone_is_delivered_again(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let later = Client::ahead(h, "later", LATER_MS).await;
    one.add(&[new(1)]).await;
    let first = one.take().await;
    assert_eq!(one.claim(1).await, [], "not as long as its lease runs");
    assert_eq!(later.load(first.id).await.status, JobStatus::Running, "an end of a lease is nothing that is written");
    let again = later.take().await;
    assert!(again.fence > first.fence && again.version > first.version && again.started_at > first.started_at);
    assert_eq!((again.status, again.attempt, again.deliveries), (JobStatus::Running, 1, 2));
    assert_eq!(later.settle(&again, done()).await, Ok(JobStatus::Completed));
}

/// Three deliveries without an answer are enough; an answer counts from the beginning again.
pub async fn a_job_delivered_three_times_without_an_answer_is_lost(h: &dyn JobHarness) {
    let mut last = Client::open(h, "w0").await;
    last.add(&[NewJob { max_attempts: 2, backoff: Backoff { first_ms: 0, max_ms: 0 }, ..new(1) }]).await;
    for n in 1..=DELIVERIES_MAX {
        let job = last.take().await;
        assert_eq!((job.deliveries, job.attempt), (n, 1));
        if n == 2 {
            assert_eq!(last.settle(&job, failure(true)).await, Ok(JobStatus::Pending));
            break;
        }
        last = Client::ahead(h, "next", u64::from(n) * LATER_MS).await;
    }
    let mut fence = None;
    for n in 1..=DELIVERIES_MAX {
        let job = last.take().await;
        assert_eq!((job.deliveries, job.attempt, job.status), (n, 2, JobStatus::Running));
        assert!(Some(job.fence) > fence, "every delivery has a higher fence");
        fence = Some(job.fence);
        last = Client::ahead(h, "next", u64::from(n + 5) * LATER_MS).await;
    }
    assert_eq!(last.claim(1).await, []);
    assert_eq!(last.stands(job_id(1)).await, (JobStatus::Failed, LOST.to_owned()));
}

/// The lease ran out, and nobody else was interested.
pub async fn an_answer_after_the_lease_is_taken_until_somebody_has_the_job(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let later = Client::ahead(h, "later", LATER_MS).await;
    one.add(&[new(1), new(2)]).await;
    let jobs = one.claim(2).await;
    assert_eq!(later.settle(&jobs[0], done()).await, Ok(JobStatus::Completed));
    let beaten = later.beat(&jobs[1]).await.expect("still its own");
    assert_eq!(later.load(jobs[1].id).await.lease_until, beaten.until);
    assert_eq!(later.claim(2).await, [], "neither is delivered again");
}

/// Whoever says it is alive keeps its job, for as long as it likes.
pub async fn a_heartbeat_keeps_the_job(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    one.add(&[new(1)]).await;
    let job = one.take().await;
    for n in 0..5 {
        let beats = Client::ahead(h, "one", n * LEASE_MS / 2).await;
        let turned = beats.turn(Turn { beat: vec![delivery(&job)], ..turn(&one.me) }).await;
        assert_eq!(turned.beaten[0].as_ref().map(|beaten| beaten.until), Ok(turned.at.plus(LEASE_MS)));
        let rival = Client::ahead(h, "rival", (n + 1) * LEASE_MS / 2).await;
        assert_eq!(rival.claim(1).await, [], "its lease runs");
    }
    assert_eq!(one.load(job.id).await.deliveries, 1);
}

/// Its heartbeat is refused, its lease ends, and the attempt counts as one that failed.
pub async fn an_attempt_that_takes_too_long_is_over(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let backoff = Backoff { first_ms: LATER_MS / 2, max_ms: LATER_MS };
    let timed = |n, timeout| NewJob { timeout_ms: Some(timeout), backoff, ..new(n) };
    one.add(&[timed(1, 1), NewJob { max_attempts: 2, ..timed(2, LATER_MS / 2) }, timed(3, 2 * LATER_MS)]).await;
    let jobs = one.claim(3).await;
    assert!(one.beat(&jobs[1]).await.is_ok(), "there is time left");
    let later = Client::ahead(h, "later", LATER_MS).await;
    assert_eq!(later.beat(&jobs[0]).await, Err(Refusal::TimedOut { timeout_ms: 1 }));
    assert_eq!(later.beat(&jobs[1]).await, Err(Refusal::TimedOut { timeout_ms: LATER_MS / 2 }));
    let again = later.claim(9).await;
    assert_eq!(ids(&again), [job_id(3)], "the third has time left, and is delivered again");
    assert_eq!(one.stands(job_id(1)).await, (JobStatus::Failed, TIMEOUT.to_owned()));
    let waits = one.load(job_id(2)).await;
    assert_eq!((waits.status, waits.attempt), (JobStatus::Pending, 1));
    assert_eq!(waits.error.map(|error| error.code), Some(TIMEOUT.to_owned()), "with what went wrong");
    let last = Client::ahead(h, "last", 2 * LATER_MS).await;
    let again = last.claim(9).await;
    assert!(again.iter().any(|job| job.id == job_id(2) && job.attempt == 2), "after its pause: {again:?}");
}

/// Its worker answers although the time is over: what was done was done.
pub async fn an_answer_after_the_timeout_is_taken_until_it_was_judged(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let later = Client::ahead(h, "later", LATER_MS).await;
    one.add(&[NewJob { timeout_ms: Some(1), ..new(1) }, NewJob { timeout_ms: Some(1), ..new(2) }]).await;
    let jobs = one.claim(2).await;
    assert_eq!(later.settle(&jobs[0], done()).await, Ok(JobStatus::Completed));
    assert_eq!(later.jobs.sweep(9).await, Ok(1));
    assert_eq!(later.settle(&jobs[1], done()).await, Ok(JobStatus::Failed), "where it stands");
    assert_eq!(later.stands(jobs[1].id).await, (JobStatus::Failed, TIMEOUT.to_owned()));
}

/// What is delivered again comes before what has not begun, whatever its priority.
pub async fn what_is_delivered_again_comes_first(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let later = Client::ahead(h, "later", LATER_MS).await;
    one.add(&[new(1), of(2, "acme")]).await;
    assert_eq!(one.claim(2).await.len(), 2);
    one.add(&[NewJob { priority: 9, ..new(3) }, NewJob { priority: 9, ..of(4, "bolt") }]).await;
    let mut first = ids(&later.claim(2).await);
    first.sort();
    let mut wanted = [1, 2].map(job_id).to_vec();
    wanted.sort();
    assert_eq!(first, wanted);
    assert_eq!(later.claim(9).await.len(), 2, "then the others");
}

/// A queue that nobody asks: what will not be delivered again is judged, and nothing else.
pub async fn a_sweep_judges_what_will_not_be_delivered_again(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let later = Client::ahead(h, "later", LATER_MS).await;
    one.add(&[NewJob { timeout_ms: Some(1), ..new(1) }, new(2), new(3), new(4), new(5)]).await;
    let jobs: Vec<Job> = one.claim(4).await;
    one.cancel(jobs[1].id).await;
    one.settle(&jobs[3], Outcome::Released).await.expect("its own");
    assert_eq!(one.jobs.sweep(9).await, Ok(0), "every lease runs");
    let before = later.load(jobs[2].id).await;
    assert_eq!(later.jobs.sweep(1).await, Ok(1), "no more than it was told to");
    assert_eq!(later.jobs.sweep(9).await, Ok(1));
    assert_eq!(later.jobs.sweep(9).await, Ok(0));
    assert_eq!(one.stands(job_id(1)).await, (JobStatus::Failed, TIMEOUT.to_owned()));
    assert_eq!(one.stands(job_id(2)).await, (JobStatus::Failed, CANCELLED.to_owned()));
    assert_eq!(later.load(job_id(3)).await, before, "this one can be delivered again");
    assert_eq!(later.claim(9).await.len(), 3);
    for n in 2..=3 {
        let next = Client::ahead(h, "next", n * LATER_MS).await;
        let delivered: Vec<_> = next.claim(9).await.into_iter().filter(|job| job.id == job_id(3)).collect();
        assert_eq!(delivered.len(), usize::from(n == 2));
    }
    assert_eq!(one.stands(job_id(3)).await, (JobStatus::Failed, LOST.to_owned()));
}

/// Dead jobs wait for a person, who gives them all their attempts back.
pub async fn a_requeued_job_has_all_its_attempts_and_deliveries(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    one.add(&[new(1)]).await;
    let mut late = Vec::new();
    for n in 0..u64::from(DELIVERIES_MAX) {
        late.push(Client::ahead(h, "w", n * LATER_MS).await.take().await);
    }
    let last = Client::ahead(h, "last", 9 * LATER_MS).await;
    assert_eq!(last.jobs.sweep(9).await, Ok(1));
    last.ask(job_id(1), JobAsk::Requeue).await.expect("it is dead");
    let waits = last.load(job_id(1)).await;
    assert_eq!((waits.status, waits.attempt, waits.error, waits.completed_at), (JobStatus::Pending, 0, None, None));
    let again = last.take().await;
    assert_eq!((again.attempt, again.deliveries), (1, 1));
    for late in &late {
        let stale = Refusal::Stale { given: late.fence, stored: again.fence };
        assert_eq!(one.settle(late, done()).await, Err(stale), "nothing of its first life is taken");
    }
    let queue = Turn { want: vec![(id("q"), 1)], ..turn(&last.me) };
    assert_eq!(last.turn(queue).await.claimed, []);
}
