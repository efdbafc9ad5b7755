//! Limits and holds: on what runs and what waits, per queue and per tenant.

use windlass_core::job::limit::{Limits, Rule, Scope};
use windlass_core::job::rules::{JobAsk, Outcome};
use windlass_core::job::{Job, JobStatus, NewJob};
use windlass_core::port::Refusal;
use windlass_core::port::job::Submitted;

use crate::job::JobHarness;
use crate::job::world::{
    Client, LATER_MS, asker, done, failure, ids, job_id, new, of, queue_scope, running, tenant_scope, waiting,
};
use crate::world::id;

/// What is set is read back, in the order it was asked for; a rule that says nothing is none.
pub async fn rules_are_read_back_as_they_were_set(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let two = Client::open(h, "two").await;
    let rules = [
        Rule { scope: queue_scope(), limits: Limits { running: Some(1), waiting: Some(u32::MAX) }, held: None },
        Rule { scope: tenant_scope("acme"), limits: Limits::NONE, held: Some(asker()) },
        Rule { scope: Scope::EachTenant, limits: running(0), held: None },
    ];
    one.jobs.set_rules(&rules).await.expect("set_rules");
    let scopes = [Scope::EachTenant, tenant_scope("q"), tenant_scope("acme"), Scope::Queue(id("acme")), queue_scope()];
    let wanted = [&rules[2], &rules[1], &rules[0]].map(Clone::clone);
    assert_eq!(two.jobs.rules(&scopes).await.expect("rules"), wanted);
    one.rule(queue_scope(), waiting(7), false).await;
    one.rule(tenant_scope("acme"), Limits::NONE, false).await;
    let left = two.jobs.rules(&scopes).await.expect("rules");
    assert_eq!(left, [rules[2].clone(), Rule { scope: queue_scope(), limits: waiting(7), held: None }], "whole");
    one.jobs.set_rules(&[]).await.expect("nothing to set");
    assert_eq!(two.jobs.rules(&[]).await, Ok(vec![]));
}

/// Every way out of running makes room for the next.
pub async fn a_queue_runs_as_many_as_it_may(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    one.add(&(0..9).map(new).collect::<Vec<_>>()).await;
    one.add(&[NewJob { queue: id("r"), ..new(20) }]).await;
    one.rule(queue_scope(), running(2), false).await;
    let mut jobs = one.claim(9).await;
    assert_eq!(jobs.len(), 2);
    assert_eq!(one.claim(9).await, []);
    assert_eq!(one.claim_from("r", 9).await.len(), 1, "another queue is not bounded");
    for outcome in [done(), failure(false), Outcome::Released] {
        one.settle(&jobs.remove(0), outcome).await.expect("its own");
        let next = one.claim(9).await;
        assert_eq!(next.len(), 1, "one slot is free, and one only");
        jobs.extend(next);
    }
    one.cancel(jobs[0].id).await;
    assert_eq!(one.claim(9).await, [], "a request frees nothing");
    one.settle(&jobs[0], failure(true)).await.expect("its own");
    assert_eq!(one.claim(9).await.len(), 1);
    one.rule(queue_scope(), Limits::NONE, false).await;
    assert_eq!(one.claim(9).await.len(), 4, "all that is left");
}

/// Over all queues together; each tenant has its own count, and jobs without a tenant none.
pub async fn a_tenant_runs_as_many_as_it_may(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let in_r = |new: NewJob| NewJob { queue: id("r"), ..new };
    one.add(&[of(1, "acme"), of(2, "acme"), in_r(of(3, "acme")), in_r(of(4, "acme"))]).await;
    one.add(&[of(5, "bolt"), of(6, "bolt"), of(7, "bolt"), new(8), new(9)]).await;
    one.rule(tenant_scope("acme"), running(3), false).await;
    one.rule(Scope::EachTenant, running(1), false).await;
    let from_q = one.claim(99).await;
    let of_tenant = |jobs: &[Job], name: Option<&str>| {
        jobs.iter().filter(|job| job.tenant.as_ref().map(|tenant| tenant.as_str()) == name).count()
    };
    assert_eq!(of_tenant(&from_q, Some("acme")), 2, "its own limit, not that of each tenant");
    assert_eq!(of_tenant(&from_q, Some("bolt")), 1, "that of each tenant");
    assert_eq!(of_tenant(&from_q, None), 2, "no tenant, no limit");
    assert_eq!(one.claim_from("r", 99).await.len(), 1, "three together");
    one.rule(tenant_scope("acme"), Limits::NONE, false).await;
    assert_eq!(
        one.claim_from("r", 99).await,
        [],
        "it runs more than each tenant may: nothing more, and what runs stays"
    );
    one.rule(Scope::EachTenant, Limits::NONE, false).await;
    assert_eq!(one.claim_from("r", 99).await.len(), 1);
    assert_eq!(one.claim(99).await.len(), 2);
}

/// Whoever was passed over because of a limit is not forgotten: an end, whichever it is, makes room for the next.
pub async fn a_tenant_that_its_limit_stopped_goes_on_when_one_ends(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    one.add(&[of(1, "acme"), of(2, "acme"), of(3, "acme"), of(4, "bolt")]).await;
    one.rule(tenant_scope("acme"), running(1), false).await;
    assert_eq!(one.claim(9).await.len(), 2, "one of each");
    for (n, end) in [(1, done()), (2, failure(false))] {
        assert_eq!(one.claim(9).await, [], "it may run one");
        let runs = one.load(job_id(n)).await;
        one.settle(&runs, end).await.expect("it is its worker's");
        assert_eq!(ids(&one.claim(9).await), [job_id(n + 1)]);
    }
}

/// A lost worker's job has its slot: it is delivered again, and its end frees the slot.
pub async fn a_slot_is_kept_until_its_job_is_delivered_again_or_lost(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    one.add(&[NewJob { priority: 1, ..of(1, "acme") }, of(2, "acme"), of(3, "acme")]).await;
    assert_eq!(one.claim(2).await.len(), 2);
    one.rule(queue_scope(), running(1), false).await;
    one.rule(tenant_scope("acme"), running(1), false).await;
    for n in 1..3 {
        let next = Client::ahead(h, "next", n * LATER_MS).await;
        let mut again = ids(&next.claim(9).await);
        again.sort();
        let mut both = [1, 2].map(job_id).to_vec();
        both.sort();
        assert_eq!(again, both, "both beyond the limit, and neither needs a new slot");
    }
    let last = Client::ahead(h, "last", 3 * LATER_MS).await;
    assert_eq!(ids(&last.claim(9).await), [job_id(3)], "both are lost, and their slots free");
    assert_eq!(one.stands(job_id(2)).await.0, JobStatus::Failed);
}

/// Beyond its limit a submission is refused, whole, with what is full.
pub async fn a_full_queue_refuses(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    one.rule(queue_scope(), waiting(3), false).await;
    one.add(&[new(1), new(2)]).await;
    let full = Err(Refusal::Full { scope: queue_scope(), limit: 3 });
    assert_eq!(one.submit(&[new(3), new(4)]).await, full, "whole or not at all");
    assert_eq!(one.find(job_id(3)).await, None);
    one.add(&[NewJob { when: windlass_core::job::When::In(LATER_MS), ..new(3) }]).await;
    assert_eq!(one.submit(&[new(4)]).await, full, "what waits for its time waits");
    let there = |n| Submitted { id: job_id(n), existing: true };
    assert_eq!(one.submit(&[new(1), new(2)]).await, Ok(vec![there(1), there(2)]), "a repeat takes no room");
    one.add(&[NewJob { queue: id("r"), ..new(9) }]).await;
    let job = one.take().await;
    one.add(&[new(4)]).await;
    assert_eq!(one.submit(&[new(5)]).await, full);
    one.cancel(job_id(4)).await;
    one.add(&[new(5)]).await;
    assert_eq!(
        one.settle(&job, Outcome::Released).await,
        Ok(JobStatus::Pending),
        "what waited before is never refused"
    );
    let failed = one.take().await;
    one.settle(&failed, failure(false)).await.expect("its own");
    let other = one.take().await;
    one.settle(&other, done()).await.expect("its own");
    one.add(&[new(6)]).await;
    assert!(one.ask(failed.id, JobAsk::Requeue).await.is_ok(), "nor what a person wants");
    assert_eq!(one.submit(&[new(7)]).await, full);
    one.rule(queue_scope(), waiting(0), false).await;
    let none = Err(Refusal::Full { scope: queue_scope(), limit: 0 });
    assert_eq!(one.submit(&[new(7)]).await, none);
    assert_eq!(one.queue().await.waiting, 4, "what waits beyond a new limit stays");
}

/// Over all queues; the tenant is named, whosever the limit is, and of two full ones the queue.
pub async fn a_full_tenant_is_refused(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    one.rule(tenant_scope("acme"), waiting(2), false).await;
    one.rule(Scope::EachTenant, waiting(1), false).await;
    one.add(&[of(1, "acme"), NewJob { queue: id("r"), ..of(2, "acme") }, of(3, "bolt"), new(4), new(5)]).await;
    let full = |tenant, limit| Err(Refusal::Full { scope: tenant_scope(tenant), limit });
    assert_eq!(one.submit(&[of(6, "acme")]).await, full("acme", 2));
    assert_eq!(one.submit(&[NewJob { queue: id("s"), ..of(6, "bolt") }]).await, full("bolt", 1));
    one.rule(queue_scope(), waiting(4), false).await;
    let queue = Err(Refusal::Full { scope: queue_scope(), limit: 4 });
    assert_eq!(one.submit(&[of(6, "acme")]).await, queue);
    let groups = [vec![NewJob { queue: id("s"), ..of(7, "corp") }], vec![NewJob { queue: id("s"), ..of(8, "corp") }]];
    let answers = one.jobs.submit(&groups).await.expect("submit");
    assert_eq!(answers[1], full("corp", 1), "groups of one call are counted one after another");
    one.cancel(job_id(2)).await;
    one.add(&[NewJob { queue: id("s"), ..of(6, "acme") }]).await;
}

/// Nothing of a held queue or tenant is delivered, not again either; what runs goes on.
pub async fn nothing_held_is_delivered(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let later = Client::ahead(h, "later", LATER_MS).await;
    one.add(&[of(1, "acme"), of(2, "bolt"), NewJob { queue: id("r"), ..of(3, "acme") }]).await;
    let running = one.claim(2).await;
    one.add(&[of(4, "acme"), of(5, "bolt"), new(6)]).await;
    one.rule(tenant_scope("acme"), Limits::NONE, true).await;
    assert_eq!(one.claim_from("r", 9).await, [], "a held tenant, in every queue");
    one.rule(queue_scope(), Limits::NONE, true).await;
    assert_eq!(later.claim(9).await, []);
    let acme = running.iter().find(|job| job.tenant == Some(id("acme"))).expect("claimed before");
    assert!(one.beat(acme).await.is_ok(), "what runs goes on");
    assert_eq!(one.settle(acme, done()).await, Ok(JobStatus::Completed));
    one.add(&[of(7, "acme")]).await;
    one.rule(queue_scope(), Limits::NONE, false).await;
    let mut claimed = ids(&later.claim(9).await);
    claimed.sort();
    let mut wanted = [2, 5, 6].map(job_id).to_vec();
    wanted.sort();
    assert_eq!(claimed, wanted, "all but the held tenant's");
    one.rule(tenant_scope("acme"), Limits::NONE, false).await;
    assert_eq!(ids(&later.claim(9).await), [4, 7].map(job_id));
}
