//! What is kept and what is forgotten: restarts and retention.

use windlass_core::job::limit::Scope;
use windlass_core::job::rules::JobAsk;
use windlass_core::job::{JobStatus, NewJob, When};
use windlass_core::port::Refusal;
use windlass_core::port::job::Submitted;
use windlass_core::time::Ms;

use crate::job::JobHarness;
use crate::job::world::{
    Client, LATER_MS, asker, done, failure, ids, job_id, new, of, queue_scope, running, tenant_scope, waiting,
};
use crate::world::id;

const NEVER: Ms = Ms::new(u64::MAX >> 2);

/// Jobs of every kind and rules of every kind are there again, as they were.
pub async fn everything_is_there_after_a_restart(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    one.add(&(1..=6).map(|n| NewJob { key: Some(format!("k-{n}")), ..of(n, "acme") }).collect::<Vec<_>>()).await;
    one.add(&[NewJob { when: When::In(LATER_MS / 2), ..of(7, "bolt") }]).await;
    let jobs = one.claim(4).await;
    one.settle(&jobs[0], done()).await.expect("its own");
    one.settle(&jobs[1], failure(false)).await.expect("its own");
    one.cancel(jobs[2].id).await;
    one.cancel(job_id(6)).await;
    one.rule(queue_scope(), waiting(2), false).await;
    one.rule(tenant_scope("bolt"), running(7), true).await;
    one.rule(Scope::EachTenant, running(9), false).await;
    let scopes = [queue_scope(), tenant_scope("bolt"), Scope::EachTenant];
    let before = (one.everything().await, one.jobs.rules(&scopes).await.expect("rules"));
    let view = one.queue().await;
    h.restart().await;
    let one = Client::open(h, "one").await;
    assert_eq!((one.everything().await, one.jobs.rules(&scopes).await.expect("rules")), before);
    let after = one.queue().await;
    assert_eq!((after.waiting, after.running, after.oldest), (view.waiting, view.running, view.oldest));
    let full = Err(Refusal::Full { scope: queue_scope(), limit: 2 });
    assert_eq!(one.submit(&[new(8)]).await, full, "counts and limits too");
    let there = Ok(vec![Submitted { id: job_id(1), existing: true }]);
    let repeat = NewJob { key: Some("k-1".to_owned()), ..of(1, "acme") };
    assert_eq!(one.submit(std::slice::from_ref(&repeat)).await, there);
    assert_eq!(
        one.submit(&[NewJob { id: job_id(9), key: Some("k-5".to_owned()), ..of(5, "acme") }]).await,
        Ok(vec![Submitted { id: job_id(5), existing: true }]),
        "keys too"
    );
}

/// A worker goes on over a restart of the store; so do leases, fences and the order.
pub async fn work_goes_on_after_a_restart(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    one.add(&(1..=5).map(new).collect::<Vec<_>>()).await;
    let jobs = one.claim(3).await;
    one.cancel(jobs[1].id).await;
    h.restart().await;
    let one = Client::open(h, "one").await;
    assert_eq!(one.settle(&jobs[0], done()).await, Ok(JobStatus::Completed));
    assert_eq!(one.settle(&jobs[0], failure(true)).await, Ok(JobStatus::Completed), "a repeat over a restart");
    assert!(one.beat(&jobs[1]).await.expect("its own").cancel);
    one.add(&[new(6)]).await;
    assert_eq!(ids(&one.claim(2).await), [4, 5].map(job_id), "the order goes on");
    h.restart().await;
    let later = Client::ahead(h, "later", LATER_MS).await;
    let again = later.claim(9).await;
    let mut claimed = ids(&again);
    claimed.sort();
    let mut wanted = [3, 4, 5, 6].map(job_id).to_vec();
    wanted.sort();
    assert_eq!(claimed, wanted, "leases end after a restart as before, and what was to end has");
    let third = again.iter().find(|job| job.id == job_id(3)).expect("delivered again");
    assert!(third.fence > jobs[2].fence && third.deliveries == 2, "fences grow over restarts");
    assert_eq!(later.stands(job_id(2)).await.0, JobStatus::Failed);
}

/// Only what has ended, and before that moment; as many as were asked for.
pub async fn a_purge_forgets_what_ended_before(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let later = Client::ahead(h, "later", LATER_MS).await;
    one.add(&(0..20).map(new).collect::<Vec<_>>()).await;
    for (i, job) in one.claim(10).await.iter().enumerate() {
        match i % 3 {
            0 => one.settle(job, done()).await.map(|_| ()).expect("its own"),
            1 => one.settle(job, failure(false)).await.map(|_| ()).expect("its own"),
            _ => {}
        }
    }
    one.cancel(job_id(15)).await;
    later.cancel(job_id(16)).await;
    let ends: Vec<Ms> = one.everything().await.iter().filter_map(|job| job.completed_at).collect();
    let (first, last) = (ends.iter().min().copied().expect("ends"), ends.iter().max().copied().expect("ends"));
    assert_eq!(one.jobs.purge(first, 1_000).await, Ok(0), "before, not at");
    assert_eq!(one.jobs.purge(last, 3).await, Ok(3), "no more than it was told to");
    assert_eq!(one.jobs.purge(last, 0).await, Ok(0));
    assert_eq!(one.jobs.purge(last, 1_000).await, Ok(5));
    assert_eq!(one.stands(job_id(16)).await.0, JobStatus::Cancelled, "it ended at that moment");
    assert_eq!(one.jobs.purge(NEVER, 1_000).await, Ok(1));
    let left = one.everything().await;
    assert_eq!(left.len(), 11);
    assert!(left.iter().all(|job| !job.status.is_ended()), "nothing live is ever forgotten");
    let view = one.queue().await;
    assert_eq!((view.waiting, view.running), (8, 3));
    for gone in [0, 1, 15, 16] {
        assert_eq!(one.find(job_id(gone)).await, None);
        assert!(matches!(one.ask(job_id(gone), JobAsk::Requeue).await, Err(Refusal::NotFound(_))));
    }
    one.add(&[new(0)]).await;
    h.restart().await;
    let one = Client::open(h, "one").await;
    assert_eq!(one.everything().await.len(), 12, "what was forgotten stays so");
}

/// A requeued job is live again: its old end counts for nothing.
pub async fn a_requeued_job_is_not_purged(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    one.add(&[new(1), NewJob { key: Some("k".to_owned()), ..new(2) }]).await;
    for job in one.claim(2).await {
        one.settle(&job, failure(false)).await.expect("its own");
    }
    one.ask(job_id(1), JobAsk::Requeue).await.expect("it is dead");
    assert_eq!(one.jobs.purge(NEVER, 1_000).await, Ok(1));
    assert_eq!(ids(&one.everything().await), [job_id(1)]);
    let job = one.take().await;
    assert_eq!(one.jobs.purge(NEVER, 1_000).await, Ok(0));
    one.settle(&job, done()).await.expect("its own");
    assert_eq!(one.jobs.purge(NEVER, 1_000).await, Ok(1));
    assert_eq!(one.everything().await, []);
}

/// Thousands go in bounded calls, and all of them in the end.
pub async fn many_are_forgotten_in_batches(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let many: Vec<NewJob> = (0..2_500).map(new).collect();
    one.add(&many).await;
    let gone: Vec<_> = many[..2_300].iter().map(|new| new.id).collect();
    one.jobs.ask(&gone, JobAsk::Cancel, &asker()).await.expect("ask");
    for wanted in [1_000, 1_000, 300, 0] {
        assert_eq!(one.jobs.purge(NEVER, 1_000).await, Ok(wanted));
    }
    assert_eq!(one.queue().await.waiting, 200);
    let r: NewJob = NewJob { queue: id("r"), ..new(9_999) };
    one.add(&[r]).await;
}
