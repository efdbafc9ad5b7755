//! Ends: what a worker's answer makes of a job, and answers that come late or twice.

use windlass_core::fence::Fence;
use windlass_core::job::error::{CANCELLED, ERROR_DEPTH_MAX, JobError};
use windlass_core::job::rules::{Asked, Outcome};
use windlass_core::job::{Backoff, Job, JobStatus, NewJob, PAYLOAD_BYTES_MAX};
use windlass_core::json::Json;
use windlass_core::port::Refusal;
use windlass_core::port::job::{Delivery, Turn};

use crate::job::JobHarness;
use crate::job::world::{Client, LATER_MS, code, delivery, done, failure, ids, job_id, json, new, turn};

/// A result, also one that says nothing.
pub async fn a_completed_job_has_its_result(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    one.add(&[new(1), new(2)]).await;
    for result in ["null", r#"{"sum":[1,2,18446744073709551615],"é":"\u0000"}"#] {
        let job = one.take().await;
        assert_eq!(one.settle(&job, Outcome::Completed(json(result))).await, Ok(JobStatus::Completed));
        let ended = one.load(job.id).await;
        assert_eq!(ended.result.as_ref().map(Json::as_str), Some(result));
        assert_eq!((ended.status, &ended.error, &ended.worker), (JobStatus::Completed, &None, &None));
        assert_eq!((ended.started_at, ended.version), (job.started_at, job.version + 1));
        assert!(ended.completed_at >= ended.started_at, "times are in order");
        assert_eq!((ended.lease_until.get(), ended.deliveries, ended.attempt), (0, 0, 1));
    }
    assert_eq!(one.claim(9).await, []);
}

/// An error with all its causes, and no further attempt.
pub async fn a_failed_job_has_its_error(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    one.add(&[NewJob { max_attempts: 5, ..new(1) }]).await;
    let job = one.take().await;
    let error = JobError {
        class: "SmtpError".to_owned(),
        message: "451 – später".to_owned(),
        code: "451".to_owned(),
        file: Some("mail.py".to_owned()),
        line: Some(u32::MAX),
        trace: Some("a\nb\t\"c\"".to_owned()),
        previous: Some(Box::new(JobError::of("ETIMEDOUT", "no answer"))),
    };
    let outcome = Outcome::Failed { error: Box::new(error.clone()), retry: false, spread: 0 };
    assert_eq!(one.settle(&job, outcome).await, Ok(JobStatus::Failed));
    let ended = one.load(job.id).await;
    assert_eq!(ended.error.as_deref(), Some(&error));
    assert_eq!((ended.status, &ended.result), (JobStatus::Failed, &None));
    assert_eq!(one.claim(9).await, [], "dead until a person requeues it");
}

/// What went wrong before is told to whoever tries again, and is nothing that a job has that was completed.
pub async fn a_job_completed_after_all_has_no_error(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    one.add(&[NewJob { max_attempts: 2, ..new(1) }]).await;
    let job = one.take().await;
    assert_eq!(one.settle(&job, failure(true)).await, Ok(JobStatus::Pending));
    let later = Client::ahead(h, "later", LATER_MS).await;
    let again = later.take().await;
    assert_eq!((again.attempt, code(&again)), (2, "E-1"));
    assert_eq!(later.settle(&again, done()).await, Ok(JobStatus::Completed));
    assert_eq!(one.load(job.id).await.error, None);
}

/// Attempts that are left come after their pause, which grows.
pub async fn a_failed_attempt_is_followed_by_the_next_after_its_pause(h: &dyn JobHarness) {
    let backoff = Backoff { first_ms: LATER_MS / 2, max_ms: LATER_MS * 10 };
    let one = Client::open(h, "one").await;
    one.add(&[NewJob { max_attempts: 3, backoff, ..new(1) }]).await;
    let mut client = one.clone();
    for (attempt, pause) in [(1, LATER_MS / 2), (2, LATER_MS)] {
        let job = client.take().await;
        assert_eq!((job.attempt, job.deliveries), (attempt, 1));
        let turned = client.turn(Turn { settle: vec![(delivery(&job), failure(true))], ..turn(&client.me) }).await;
        assert_eq!(turned.settled, [Ok(JobStatus::Pending)]);
        let waits = client.load(job.id).await;
        assert_eq!((waits.run_at, code(&waits)), (turned.at.plus(pause), "E-1"), "with what went wrong");
        assert_eq!((waits.completed_at, waits.fence), (None, job.fence));
        assert_eq!(client.claim(1).await, [], "its time has not come");
        client = Client::ahead(h, "later", u64::from(attempt) * 2 * LATER_MS).await;
    }
    let job = client.take().await;
    assert_eq!(code(&job), "E-1", "what went wrong before is kept while it is tried again");
    assert_eq!(client.settle(&job, failure(true)).await, Ok(JobStatus::Failed), "the last attempt");
    assert_eq!(client.load(job.id).await.attempt, 3);
}

/// A worker that stops gives back what it has not begun: at once, and the attempt does not count.
pub async fn a_released_job_waits_again_at_once(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let two = Client::open(h, "two").await;
    one.add(&[new(1), new(2)]).await;
    let jobs = one.claim(2).await;
    let settle = jobs.iter().map(|job| (delivery(job), Outcome::Released)).collect();
    let turned = one.turn(Turn { settle, ..turn(&one.me) }).await;
    assert_eq!(turned.settled, [Ok(JobStatus::Pending), Ok(JobStatus::Pending)]);
    let waits = one.load(job_id(1)).await;
    assert_eq!((waits.attempt, waits.deliveries, &waits.worker), (0, 0, &None));
    assert!(waits.started_at.is_some(), "when its newest delivery began is kept");
    let again = two.claim(9).await;
    assert_eq!(ids(&again), [1, 2].map(job_id));
    assert!(again.iter().zip(&jobs).all(|(again, before)| again.fence > before.fence && again.attempt == 1));
}

/// The answer was lost, so it is settled again: the first answer stands, whatever the second says.
pub async fn a_repeated_settle_answers_where_it_stands(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    one.add(&[new(1), new(2), new(3), NewJob { max_attempts: 2, ..new(4) }]).await;
    let jobs = one.claim(4).await;
    let outcomes = [done(), failure(true), Outcome::Released, failure(true)];
    let all_stand = [JobStatus::Completed, JobStatus::Failed, JobStatus::Pending, JobStatus::Pending];
    for ((job, outcome), stands) in jobs.iter().zip(outcomes).zip(all_stand) {
        let twice = vec![(delivery(job), outcome.clone()), (delivery(job), outcome)];
        let settled = one.turn(Turn { settle: twice, ..turn(&one.me) }).await.settled;
        assert_eq!(settled, [Ok(stands), Ok(stands)], "also within one turn");
        let after = one.load(job.id).await;
        for other in [done(), failure(false), Outcome::Released] {
            assert_eq!(one.settle(job, other).await, Ok(stands));
        }
        assert_eq!(one.load(job.id).await, after, "a repeat changes nothing");
    }
    one.cancel(jobs[2].id).await;
    assert_eq!(one.settle(&jobs[2], done()).await, Ok(JobStatus::Cancelled), "where it stands now");
}

/// Somebody else has the job: completion, failure, release and heartbeat of the one before are refused.
pub async fn what_comes_late_is_refused(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let later = Client::ahead(h, "later", LATER_MS).await;
    one.add(&[new(1)]).await;
    let late = one.take().await;
    let job = later.take().await;
    let stale = Refusal::Stale { given: late.fence, stored: job.fence };
    let refused = || async {
        for outcome in [done(), failure(false), failure(true), Outcome::Released] {
            assert_eq!(one.settle(&late, outcome).await, Err(stale.clone()));
        }
        assert_eq!(one.beat(&late).await, Err(stale.clone()));
    };
    refused().await;
    assert_eq!(one.load(job.id).await, job, "nothing changed");
    later.settle(&job, Outcome::Completed(Json::null())).await.expect("its own");
    refused().await;
    let ended = one.load(job.id).await;
    assert_eq!((ended.status, ended.result), (JobStatus::Completed, Some(Json::null())), "the result of its owner");
}

/// Nobody has it, or it is not there at all.
pub async fn what_was_never_delivered_is_not_settled(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    one.add(&[new(1)]).await;
    let before = one.load(job_id(1)).await;
    let of = |job, fence| Delivery { job, fence };
    let (unknown, never, wrong) =
        (of(job_id(9), Fence(5)), of(job_id(1), Fence::NONE), of(job_id(1), Fence(u64::MAX >> 2)));
    let settle = [unknown, never, wrong].map(|of| (of, done())).to_vec();
    let turned = one.turn(Turn { settle, beat: vec![unknown, never, wrong], ..turn(&one.me) }).await;
    let kinds: Vec<u8> = turned.settled.iter().map(|answer| kind(answer.as_ref().err())).collect();
    assert_eq!(kinds, [1, 2, 3], "{:?}", turned.settled);
    let kinds: Vec<u8> = turned.beaten.iter().map(|answer| kind(answer.as_ref().err())).collect();
    assert_eq!(kinds, [1, 2, 3], "{:?}", turned.beaten);
    assert_eq!(one.load(job_id(1)).await, before);
}

fn kind(why: Option<&Refusal>) -> u8 {
    match why {
        Some(Refusal::NotFound(_)) => 1,
        Some(Refusal::State { status: "PENDING", .. }) => 2,
        Some(Refusal::Stale { .. }) => 3,
        _ => 0,
    }
}

/// A result beyond its bound, an error too deep: refused, and the job stays with its worker.
pub async fn an_answer_beyond_its_bounds_is_refused(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    one.add(&[new(1), new(2)]).await;
    let text = |bytes: usize| json(&format!("\"{}\"", "x".repeat(bytes - 2)));
    let job = one.take().await;
    let answer = one.settle(&job, Outcome::Completed(text(PAYLOAD_BYTES_MAX + 1))).await;
    assert!(matches!(answer, Err(Refusal::Invalid(_))), "{answer:?}");
    let deep = |depth| Outcome::Failed { error: Box::new(chain(depth)), retry: false, spread: 0 };
    let answer = one.settle(&job, deep(ERROR_DEPTH_MAX + 1)).await;
    assert!(matches!(answer, Err(Refusal::Invalid(_))), "{answer:?}");
    assert_eq!(one.load(job.id).await, job, "nothing changed");
    one.settle(&job, deep(ERROR_DEPTH_MAX)).await.expect("as deep as it may");
    assert_eq!(one.load(job.id).await.error, Some(Box::new(chain(ERROR_DEPTH_MAX))));
    let job = one.take().await;
    one.settle(&job, Outcome::Completed(text(PAYLOAD_BYTES_MAX))).await.expect("as long as it may");
    assert_eq!(one.load(job.id).await.result, Some(text(PAYLOAD_BYTES_MAX)));
}

fn chain(depth: usize) -> JobError {
    let mut error = JobError::of("E", "the cause of it all");
    for level in 1..depth {
        error = JobError { previous: Some(Box::new(error)), ..JobError::of("E", format!("level {level}")) };
    }
    error
}

/// A request to end is told with the heartbeat; whatever the worker says then, there is no further attempt.
pub async fn a_job_that_is_to_end_has_no_further_attempt(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    one.add(&(1..=4).map(|n| NewJob { max_attempts: 9, ..new(n) }).collect::<Vec<_>>()).await;
    let jobs: Vec<Job> = one.claim(4).await;
    for job in &jobs {
        assert!(!one.beat(job).await.expect("its own").cancel);
        assert_eq!(one.cancel(job.id).await, Asked::Requested);
        assert!(one.beat(job).await.expect("its own").cancel, "its worker is told");
    }
    one.settle(&jobs[0], failure(true)).await.expect("its own");
    let failed = one.load(jobs[0].id).await;
    assert_eq!((failed.status, code(&failed)), (JobStatus::Failed, CANCELLED));
    let cause = failed.error.as_ref().and_then(|error| error.previous.as_ref());
    assert_eq!(cause.map(|cause| cause.code.as_str()), Some("E-1"), "what the worker said is kept");
    assert_eq!(failed.cancel, None);
    one.settle(&jobs[1], Outcome::Released).await.expect("its own");
    assert_eq!(one.stands(jobs[1].id).await, (JobStatus::Failed, CANCELLED.to_owned()));
    one.settle(&jobs[2], done()).await.expect("its own");
    assert_eq!(one.stands(jobs[2].id).await, (JobStatus::Completed, String::new()), "it was done all the same");
    let later = Client::ahead(h, "later", LATER_MS).await;
    assert_eq!(later.claim(9).await, [], "not delivered again when its worker is gone");
    assert_eq!(one.stands(jobs[3].id).await, (JobStatus::Failed, CANCELLED.to_owned()));
}
