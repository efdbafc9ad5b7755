//! What a person does to jobs.

use windlass_core::job::rules::{Asked, JobAsk, Outcome};
use windlass_core::job::{Asker, JobStatus, NewJob};
use windlass_core::port::{BATCH_MAX, PortError, Refusal};
use windlass_core::time::Ms;

use crate::job::JobHarness;
use crate::job::world::{Client, LATER_MS, asker, done, failure, ids, job_id, new};
use crate::world::BORN;

/// What has not begun is taken back: neither a result nor an error, and nobody gets it.
pub async fn a_waiting_job_is_cancelled(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let later = Client::ahead(h, "later", LATER_MS).await;
    one.add(&[new(1), NewJob { max_attempts: 2, ..new(2) }]).await;
    let failed = one.claim(2).await.remove(1);
    one.settle(&failed, failure(true)).await.expect("its own");
    one.add(&[new(3)]).await;
    for n in [2, 3] {
        assert_eq!(one.cancel(job_id(n)).await, Asked::Cancelled);
        let job = one.load(job_id(n)).await;
        assert_eq!((job.status, &job.result, &job.error), (JobStatus::Cancelled, &None, &None), "neither of them");
        assert!(job.completed_at >= Some(job.submitted_at));
        let by = job.asked.expect("who did it is on record");
        assert_eq!((by.by, by.reason), (asker().by, asker().reason));
        assert!(by.at > BORN && Some(by.at) == job.completed_at, "by the store's clock");
        assert_eq!(one.cancel(job_id(n)).await, Asked::Ended(JobStatus::Cancelled), "a repeat is safe");
    }
    assert_eq!(ids(&later.claim(9).await), [job_id(1)]);
}

/// What runs is asked to end; who asked first stays on record.
pub async fn a_running_job_is_asked_to_end(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    one.add(&[new(1)]).await;
    let job = one.take().await;
    assert_eq!(one.cancel(job.id).await, Asked::Requested);
    let asked = one.load(job.id).await;
    assert_eq!((asked.status, asked.version), (JobStatus::Running, job.version + 1));
    assert_eq!(asked.cancel.as_ref().map(|by| &by.by), Some(&asker().by));
    let another = Asker { by: crate::world::id("Ann"), ..asker() };
    let answers = one.jobs.ask(&[job.id], JobAsk::Cancel, &another).await.expect("ask");
    assert_eq!(answers, [Ok(Asked::Requested)]);
    assert_eq!(one.load(job.id).await, asked, "a repeat changes nothing");
    assert_eq!(one.settle(&job, done()).await, Ok(JobStatus::Completed), "a request takes nothing from its worker");
    assert_eq!(one.cancel(job.id).await, Asked::Ended(JobStatus::Completed));
}

/// Only FAILED is requeued, and what waits again is a job like any other.
pub async fn a_failed_job_is_requeued(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    one.add(&(1..=4).map(new).collect::<Vec<_>>()).await;
    let jobs = one.claim(3).await;
    one.settle(&jobs[0], failure(false)).await.expect("its own");
    one.settle(&jobs[1], done()).await.expect("its own");
    let all: Vec<_> = (1..=5).map(job_id).collect();
    let answers = one.jobs.ask(&all, JobAsk::Requeue, &asker()).await.expect("ask");
    assert_eq!(answers[0], Ok(Asked::Requeued));
    for (answer, stands) in answers[1..4].iter().zip(["COMPLETED", "RUNNING", "PENDING"]) {
        assert!(matches!(answer, Err(Refusal::State { status, .. }) if *status == stands), "{answer:?}");
    }
    assert!(matches!(answers[4], Err(Refusal::NotFound(_))), "{:?}", answers[4]);
    let waits = one.load(job_id(1)).await;
    assert_eq!((waits.status, waits.attempt, &waits.error), (JobStatus::Pending, 0, &None));
    assert_eq!((waits.started_at, waits.completed_at), (None, None));
    assert!(waits.run_at >= waits.submitted_at && waits.asked.is_some());
    let again = one.ask(job_id(1), JobAsk::Requeue).await;
    assert!(matches!(again, Err(Refusal::State { status: "PENDING", .. })), "{again:?}");
    let mut claimed = ids(&one.claim(9).await);
    claimed.sort();
    let mut wanted = [1, 4].map(job_id).to_vec();
    wanted.sort();
    assert_eq!(claimed, wanted);
}

/// Many at once, each with its own answer; unknown ones harm nobody.
pub async fn many_are_asked_in_one_call(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    one.add(&(0..10).map(new).collect::<Vec<_>>()).await;
    let job = one.take().await;
    let asked = [job_id(3), job_id(99), job.id, job_id(3), job_id(4)];
    let answers = one.jobs.ask(&asked, JobAsk::Cancel, &asker()).await.expect("ask");
    assert_eq!(answers[0], Ok(Asked::Cancelled));
    assert!(matches!(answers[1], Err(Refusal::NotFound(_))), "{:?}", answers[1]);
    assert_eq!(answers[2], Ok(Asked::Requested));
    assert_eq!(answers[3], Ok(Asked::Ended(JobStatus::Cancelled)), "one after another");
    assert_eq!(answers[4], Ok(Asked::Cancelled));
    assert_eq!(one.jobs.ask(&[], JobAsk::Cancel, &asker()).await, Ok(vec![]));
    let many = vec![job_id(1); BATCH_MAX + 1];
    let answer = one.jobs.ask(&many, JobAsk::Cancel, &asker()).await;
    assert!(matches!(answer, Err(PortError::Invalid(_))), "{answer:?}");
}

/// The record's own rules hold whatever was done to it, by whoever's clock.
pub async fn times_are_in_order_on_clocks_that_are_not(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let later = Client::ahead(h, "later", LATER_MS).await;
    later.add(&(1..=3).map(new).collect::<Vec<_>>()).await;
    assert_eq!(one.claim(9).await, [], "by this clock their time has not come");
    assert_eq!(one.cancel(job_id(1)).await, Asked::Cancelled);
    let jobs = later.claim(9).await;
    assert_eq!(one.settle(&jobs[0], done()).await, Ok(JobStatus::Completed));
    assert_eq!(one.settle(&jobs[1], Outcome::Released).await, Ok(JobStatus::Pending));
    for n in 1..=3 {
        let job = one.load(job_id(n)).await;
        let times = [Some(job.submitted_at), job.started_at, job.completed_at];
        let times: Vec<Ms> = times.into_iter().flatten().collect();
        assert!(times.is_sorted(), "{job:?}");
    }
}
