use proptest::prelude::*;

use super::error::{CANCELLED, LOST, TIMEOUT};
use super::rules::{
    Asked, Delivered, Expired, JobAsk, Outcome, accept, ask, beat, deliver, expire, is_claimable, settle,
};
use super::*;

const NOW: Ms = Ms::new(1_000_000);

fn new() -> NewJob {
    NewJob::new(JobId::random(7), "mail".parse().unwrap(), Some(Json::parse("{}").unwrap()))
}

fn worker() -> WorkerId {
    "w1".parse().unwrap()
}

fn asker(at: Ms) -> Asker {
    Asker { by: "ann".parse().unwrap(), reason: None, at }
}

fn claimed(job: Job, fence: u64, now: Ms) -> Job {
    match deliver(job, &worker(), Fence(fence), 1_000, now) {
        Delivered::Claimed(job) => job,
        Delivered::Settled(job) => panic!("settled: {job:?}"),
    }
}

fn failure(retry: bool) -> Outcome {
    Outcome::Failed { error: Box::new(JobError::of("E1", "no")), retry, spread: 0 }
}

#[test]
fn a_job_is_tried_as_often_as_it_may_and_then_dead() {
    let job = accept(&NewJob { max_attempts: 2, ..new() }, 1, NOW);
    let job = claimed(job, 10, NOW);
    let job = settle(job, Fence(10), failure(true), NOW.plus(5)).unwrap().unwrap();
    assert_eq!((job.status, job.attempt, job.run_at), (JobStatus::Pending, 1, NOW.plus(1_005)));
    assert!(!is_claimable(&job, NOW.plus(1_004)) && is_claimable(&job, NOW.plus(1_005)));
    let job = claimed(job, 11, NOW.plus(1_005));
    assert_eq!((job.attempt, job.deliveries), (2, 1));
    let job = settle(job, Fence(11), failure(true), NOW.plus(1_006)).unwrap().unwrap();
    assert_eq!((job.status, job.error.as_ref().unwrap().code.as_str()), (JobStatus::Failed, "E1"));
    let (asked, job) = ask(job, JobAsk::Requeue, asker(NOW.plus(2_000))).unwrap();
    let job = job.unwrap();
    assert_eq!((asked, job.status, job.attempt, &job.error), (Asked::Requeued, JobStatus::Pending, 0, &None));
    job.check().unwrap();
}

#[test]
fn a_job_delivered_three_times_without_an_answer_is_lost() {
    let mut job = accept(&new(), 1, NOW);
    let mut now = NOW;
    for fence in 1..=3 {
        job = claimed(job, fence, now);
        assert_eq!((job.status, job.attempt), (JobStatus::Running, 1));
        now = now.plus(1_000);
    }
    let Delivered::Settled(job) = deliver(job, &worker(), Fence(4), 1_000, now) else { panic!("delivered again") };
    assert_eq!((job.status, job.error.as_ref().unwrap().code.as_str()), (JobStatus::Failed, LOST));
    job.check().unwrap();
}

#[test]
fn what_comes_under_an_old_fence_is_refused_and_a_repeat_is_not() {
    let job = claimed(accept(&new(), 1, NOW), 1, NOW);
    let later = NOW.plus(1_000);
    let again = claimed(job, 2, later);
    let stale = Refusal::Stale { given: Fence(1), stored: Fence(2) };
    let done = || Outcome::Completed(Json::parse("null").unwrap());
    assert_eq!(settle(again.clone(), Fence(1), done(), later), Err(stale.clone()));
    assert_eq!(beat(again.clone(), Fence(1), 1_000, later), Err(stale));
    let done_job = settle(again, Fence(2), done(), later).unwrap().unwrap();
    assert_eq!(done_job.result.as_ref().map(Json::as_str), Some("null"));
    assert_eq!(settle(done_job.clone(), Fence(2), failure(false), later), Ok(None), "the first answer stands");
    assert!(settle(accept(&new(), 1, NOW), Fence::NONE, done(), NOW).is_err(), "nobody has begun it");
}

#[test]
fn a_cancel_takes_what_waits_and_asks_what_runs() {
    let waiting = accept(&new(), 1, NOW);
    let (asked, cancelled) = ask(waiting.clone(), JobAsk::Cancel, asker(NOW)).unwrap();
    let cancelled = cancelled.unwrap();
    assert_eq!((asked, cancelled.status), (Asked::Cancelled, JobStatus::Cancelled));
    cancelled.check().unwrap();
    assert_eq!(ask(cancelled, JobAsk::Cancel, asker(NOW)).unwrap(), (Asked::Ended(JobStatus::Cancelled), None));

    let running = claimed(waiting, 1, NOW);
    let (asked, running) = ask(running, JobAsk::Cancel, asker(NOW)).unwrap();
    assert_eq!(asked, Asked::Requested);
    let running = running.unwrap();
    let honoured = settle(running.clone(), Fence(1), failure(true), NOW).unwrap().unwrap();
    assert_eq!((honoured.status, honoured.error.as_ref().unwrap().code.as_str()), (JobStatus::Failed, CANCELLED));
    let finished = settle(running.clone(), Fence(1), Outcome::Completed(Json::parse("1").unwrap()), NOW);
    assert_eq!(finished.unwrap().unwrap().status, JobStatus::Completed, "it was done all the same");
    let Expired::Settled(gone) = expire(running, NOW.plus(1_000)) else { panic!("delivered again") };
    assert_eq!(gone.error.unwrap().code, CANCELLED);
}

#[test]
fn an_attempt_that_takes_too_long_cannot_be_kept_alive() {
    let job = claimed(accept(&NewJob { timeout_ms: Some(1), max_attempts: 2, ..new() }, 1, NOW), 1, NOW);
    let late = NOW.plus(1_000);
    assert_eq!(beat(job.clone(), Fence(1), 1_000, late), Err(Refusal::TimedOut { timeout_ms: 1 }));
    let Expired::Settled(job) = expire(job, late) else { panic!("delivered again") };
    assert_eq!((job.status, job.error.unwrap().code.as_str()), (JobStatus::Pending, TIMEOUT));
}

#[test]
fn bounds_are_said_with_what_was_found() {
    let big = |bytes: usize| Some(Json::parse(&format!("\"{}\"", "x".repeat(bytes - 2))).unwrap());
    assert_eq!(NewJob { payload: big(PAYLOAD_BYTES_MAX), ..new() }.check(), Ok(()));
    let over = NewJob { payload: big(PAYLOAD_BYTES_MAX + 1), ..new() }.check().unwrap_err().to_string();
    assert!(over.contains("1048577 bytes; at most 1048576"), "{over}");
    assert!(NewJob { timeout_ms: Some(0), ..new() }.check().unwrap_err().to_string().contains("leave it out"));
    assert!(NewJob { max_attempts: 0, ..new() }.check().is_err());
    let chain = |depth| {
        (1..depth).fold(JobError::of("E", "x"), |inner, _| JobError {
            previous: Some(Box::new(inner)),
            ..JobError::of("E", "x")
        })
    };
    assert_eq!(chain(16).check(), Ok(()));
    assert!(chain(17).check().unwrap_err().to_string().contains("17 errors deep; at most 16"));
    assert_eq!(chain(40).cut().check(), Ok(()));
    let long = JobError { trace: Some("ü".repeat(70_000)), ..chain(16) };
    assert!(long.check().is_err());
    assert_eq!(long.cut().check(), Ok(()));
}

#[test]
fn an_error_is_read_as_other_languages_write_it() {
    let text = r#"{"class":"RuntimeException","message":"m","code":500,"file":"/a.php","line":42,"trace":"t","previous":null}"#;
    let error: JobError = serde_json::from_str(text).unwrap();
    assert_eq!((error.code.as_str(), error.line), ("500", Some(42)));
}

proptest! {
    /// Whatever happens in whatever order, the record's own rules hold, versions grow, fences never shrink.
    #[test]
    fn every_way_through_keeps_the_records_rules(
        steps in prop::collection::vec((0..7u8, 0..3_000u64), 1..60), attempts in 1..4u32, timeout in prop::option::of(1..2_000u64)
    ) {
        let mut job = accept(&NewJob { max_attempts: attempts, timeout_ms: timeout, ..new() }, 1, NOW);
        let (mut now, mut fence) = (NOW, 0);
        for (what, later) in steps {
            now = now.plus(later);
            let held = job.fence;
            let next = match what {
                0 | 1 if is_claimable(&job, now) => {
                    fence += 1;
                    match deliver(job.clone(), &worker(), Fence(fence), 1_000, now) {
                        Delivered::Claimed(job) | Delivered::Settled(job) => Some(job),
                    }
                }
                2 => settle(job.clone(), held, Outcome::Completed(Json::parse("1").unwrap()), now).ok().flatten(),
                3 => settle(job.clone(), held, failure(true), now).ok().flatten(),
                4 => settle(job.clone(), held, Outcome::Released, now).ok().flatten(),
                5 => ask(job.clone(), JobAsk::Cancel, asker(now)).unwrap().1,
                6 => ask(job.clone(), JobAsk::Requeue, asker(now)).ok().and_then(|(_, job)| job),
                _ => None,
            };
            if let Some(next) = next {
                next.check().unwrap();
                prop_assert!(next.version > job.version && next.fence >= job.fence);
                prop_assert!(next.attempt <= next.max_attempts && next.deliveries <= DELIVERIES_MAX);
                job = next;
            }
        }
    }
}
