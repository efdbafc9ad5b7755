//! Submissions: what is stored, what a repeat is, and what a key means.

use windlass_core::fence::Fence;
use windlass_core::job::{Backoff, JobStatus, NewJob, When};
use windlass_core::port::Refusal;
use windlass_core::port::job::Submitted;
use windlass_core::time::Ms;

use crate::job::JobHarness;
use crate::job::world::{Client, LATER_MS, done, ids, job_id, json, new, of};
use crate::world::id;

/// Everything that was given comes back, and the rest is as nothing has happened yet.
pub async fn a_submitted_job_is_read_back_as_it_was_given(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let given = NewJob {
        queue: id("mail"),
        payload: Some(json(r#"{"to":"Zoë","n":18446744073709551615}"#)),
        tenant: Some(id("acme")),
        priority: -7,
        when: When::In(90_000),
        max_attempts: 4,
        backoff: Backoff { first_ms: 250, max_ms: 4_000 },
        timeout_ms: Some(1),
        key: Some("invoice 12/2026 – é".to_owned()),
        ..new(1)
    };
    one.add(std::slice::from_ref(&given)).await;
    let job = one.load(given.id).await;
    let kept = NewJob {
        id: job.id,
        queue: job.queue.clone(),
        payload: job.payload.clone(),
        tenant: job.tenant.clone(),
        priority: job.priority,
        when: When::In(job.run_at.since(job.submitted_at)),
        max_attempts: job.max_attempts,
        backoff: job.backoff,
        timeout_ms: job.timeout_ms,
        key: job.key.clone(),
    };
    assert_eq!(kept, given);
    assert_eq!((job.status, job.version, job.digest), (JobStatus::Pending, 1, given.digest()));
    assert_eq!((job.attempt, job.deliveries, job.fence, job.lease_until), (0, 0, Fence::NONE, Ms::ZERO));
    assert_eq!((&job.result, &job.error, &job.worker, &job.cancel, &job.asked), (&None, &None, &None, &None, &None));
    assert_eq!((job.started_at, job.completed_at), (None, None));
    let two = Client::open(h, "two").await;
    assert_eq!(two.load(given.id).await, job, "everybody reads the same");
    assert_eq!(two.find(job_id(2)).await, None, "an unknown id is nothing");
}

/// Now, a delay and a moment; a moment that is over is now.
pub async fn a_job_may_begin_at_its_time(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let past = NewJob { when: When::At(Ms::new(1)), ..new(1) };
    let delayed = NewJob { when: When::In(LATER_MS / 2), ..new(2) };
    one.add(&[past, delayed]).await;
    let first = one.load(job_id(1)).await;
    assert_eq!(first.run_at, first.submitted_at, "not before it was submitted");
    let at = first.submitted_at.plus(LATER_MS * 2);
    one.add(&[NewJob { when: When::At(at), ..new(3) }]).await;
    assert_eq!(one.load(job_id(3)).await.run_at, at);
    let claimed = one.claim(9).await;
    assert_eq!(ids(&claimed), [job_id(1)]);
    one.settle(&claimed[0], done()).await.expect("its own");
    let later = Client::ahead(h, "later", LATER_MS).await;
    assert_eq!(ids(&later.claim(9).await), [job_id(2)]);
    let last = Client::ahead(h, "last", 3 * LATER_MS).await;
    assert!(ids(&last.claim(9).await).contains(&job_id(3)));
}

/// A group is whole or not at all, and says nothing about its neighbours.
pub async fn a_group_is_whole_or_not_at_all(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    one.add(&[new(1)]).await;
    let other = NewJob { priority: 5, ..new(1) };
    let groups = [
        vec![new(2), new(3)],
        vec![new(4), other.clone(), new(5)],
        vec![],
        vec![new(6), NewJob { max_attempts: 0, ..new(7) }],
        vec![NewJob { timeout_ms: Some(0), ..new(8) }, other],
        vec![new(9)],
    ];
    let answers = one.jobs.submit(&groups).await.expect("submit");
    let made = |n| Submitted { id: job_id(n), existing: false };
    assert_eq!(answers.len(), groups.len(), "an answer per group");
    assert_eq!(answers[0], Ok(vec![made(2), made(3)]));
    assert_eq!(answers[1], Err(Refusal::OpReused));
    assert_eq!(answers[2], Ok(vec![]), "nothing is a group too");
    assert!(matches!(answers[3], Err(Refusal::Invalid(_))), "{:?}", answers[3]);
    assert!(matches!(answers[4], Err(Refusal::Invalid(_))), "{:?}", answers[4]);
    assert_eq!(answers[5], Ok(vec![made(9)]));
    let stored = ids(&one.everything().await);
    assert_eq!(stored, [1, 2, 3, 9].map(job_id), "in the order of submission");
}

/// The answer was lost, so it is submitted again: nothing happens twice, also after the job has moved on.
pub async fn a_repeated_submission_is_the_same_job(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let two = Client::ahead(h, "two", LATER_MS).await;
    one.add(&[new(1), new(2)]).await;
    let there = |n| Submitted { id: job_id(n), existing: true };
    let before = one.load(job_id(1)).await;
    assert_eq!(two.submit(&[new(1), new(2)]).await, Ok(vec![there(1), there(2)]));
    assert_eq!(one.load(job_id(1)).await, before, "a repeat changes nothing");
    let mixed = two.submit(&[new(2), new(3), new(3)]).await;
    assert_eq!(
        mixed,
        Ok(vec![there(2), Submitted { id: job_id(3), existing: false }, there(3)]),
        "also within a group"
    );
    let job = one.take().await;
    one.settle(&job, done()).await.expect("its own");
    assert_eq!(one.submit(&[new(1)]).await, Ok(vec![there(1)]));
    assert_eq!(one.stands(job_id(1)).await.0, JobStatus::Completed);
    for other in [
        NewJob { payload: Some(json("{}")), ..new(1) },
        NewJob { payload: None, ..new(1) },
        NewJob { queue: id("r"), ..new(1) },
        NewJob { when: When::In(1), ..new(1) },
        NewJob { key: Some("k".to_owned()), ..new(1) },
        of(1, "acme"),
    ] {
        assert_eq!(one.submit(&[other]).await, Err(Refusal::OpReused), "another body under the same id");
    }
}

/// A key is a job's second name, within its tenant and queue, as long as the job is stored.
pub async fn a_key_is_one_job_as_long_as_it_is_stored(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let keyed = |n: u64, body: &str| NewJob { payload: Some(json(body)), key: Some("k".to_owned()), ..of(n, "acme") };
    one.add(&[keyed(1, "{}")]).await;
    let there = Ok(vec![Submitted { id: job_id(1), existing: true }]);
    assert_eq!(one.submit(&[keyed(2, "{}")]).await, there, "the id of the job that has the key");
    assert_eq!(one.find(job_id(2)).await, None);
    assert_eq!(one.submit(&[keyed(2, "[]")]).await, Err(Refusal::OpReused), "another body");
    one.add(&[
        NewJob { tenant: None, ..keyed(3, "{}") },
        NewJob { tenant: Some(id("bolt")), ..keyed(4, "[]") },
        NewJob { queue: id("r"), ..keyed(5, "[]") },
        NewJob { key: Some("K".to_owned()), ..keyed(6, "[]") },
    ])
    .await;
    let without = one.submit(&[NewJob { tenant: None, ..keyed(7, "[]") }]).await;
    assert_eq!(without, Err(Refusal::OpReused), "no tenant is one of its own");
    let also = |n| NewJob { key: Some("l".to_owned()), ..new(n) };
    assert_eq!(one.submit(&[also(8), also(9)]).await, Err(Refusal::OpReused), "one key, two bodies, in one group");
    assert_eq!(one.find(job_id(8)).await, None, "whole or not at all");
    let later = Client::ahead(h, "later", LATER_MS).await;
    let job = later.claim(9).await.into_iter().find(|job| job.id == job_id(1)).expect("waiting");
    later.settle(&job, done()).await.expect("its own");
    assert_eq!(one.submit(&[keyed(2, "{}")]).await, there, "also when it has ended");
    let end = one.load(job_id(1)).await.completed_at.expect("ended");
    assert_eq!(one.jobs.purge(end.plus(1), 1_000).await, Ok(1));
    one.add(&[keyed(2, "[]")]).await;
    assert_eq!(one.load(job_id(2)).await.key.as_deref(), Some("k"), "free again");
}

/// Places in the order of submission grow, whoever submits.
pub async fn jobs_have_an_order_of_submission(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let two = Client::ahead(h, "two", LATER_MS).await;
    let mut last = None;
    for n in 0..20 {
        let client = if n % 3 == 0 { &two } else { &one };
        client.add(&[new(10 * n), new(10 * n + 1)]).await;
        for n in [10 * n, 10 * n + 1] {
            let seq = Some(one.load(job_id(n)).await.seq);
            assert!(seq > last, "{seq:?} after {last:?}");
            last = seq;
        }
    }
}
