//! Wake-ups: workers are told that something may be claimable, waiters that jobs have ended. Somebody waits for a minute
//! at most; the watchdog barks long before, so that a lost wake-up is seen.

use std::collections::BTreeSet;
use std::time::Duration;

use windlass_core::id::JobId;
use windlass_core::job::limit::Limits;
use windlass_core::job::rules::{JobAsk, Outcome};
use windlass_core::job::{JobStatus, NewJob, When};
use windlass_core::port::job::{Ended, FEED_MAX};
use windlass_core::port::{Mark, WAIT_MS_MAX};

use crate::job::JobHarness;
use crate::job::world::{Client, LATER_MS, asker, done, failure, job_id, new, of, queue_scope, running, tenant_scope};
use crate::world::RIVALS;

const WATCHDOG: Duration = Duration::from_secs(20);

/// Waits for something claimable after `since`, which must come.
async fn woken(client: &Client, since: Mark, by: &str) -> Mark {
    let changed = tokio::time::timeout(WATCHDOG, client.jobs.changed(since, WAIT_MS_MAX)).await;
    let mark = changed.unwrap_or_else(|_| panic!("nobody was woken by {by}")).expect("changed");
    assert!(mark > since, "{by} moves the mark: {mark:?} after {since:?}");
    mark
}

/// Waits until these have ended, from `since` on; a gap is an answer too, if they have.
async fn told(client: &Client, mut since: Mark, jobs: &[JobId]) -> Mark {
    let mut missing: BTreeSet<JobId> = jobs.iter().copied().collect();
    while !missing.is_empty() {
        let ended = tokio::time::timeout(WATCHDOG, client.jobs.ended(since, WAIT_MS_MAX)).await;
        let Ended { mark, jobs, gap } =
            ended.unwrap_or_else(|_| panic!("nobody was told of {missing:?}")).expect("ended");
        assert!(mark > since || gap, "an answer before its time is over brings something");
        for job in jobs {
            assert!(client.load(job).await.status.is_ended(), "what is told has happened");
            missing.remove(&job);
        }
        if gap {
            for job in missing.clone() {
                if client.load(job).await.status.is_ended() {
                    missing.remove(&job);
                }
            }
        }
        since = mark;
    }
    since
}

/// Somebody waits, then another acts: `$act` runs beside the wait, whichever comes first.
macro_rules! wakes {
    ($waiter:expr, $by:literal, $act:expr) => {{
        let since = $waiter.mark().await;
        let waiter = $waiter.clone();
        let waits = tokio::spawn(async move { woken(&waiter, since, $by).await });
        // Gives the waiter a chance to be there first; either order must do.
        tokio::task::yield_now().await;
        let done = $act;
        waits.await.expect("the waiter was woken");
        done
    }};
}

/// New jobs, of another rival; also those whose time comes later, so that whoever waits knows when.
pub async fn a_worker_is_woken_by_new_jobs(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let two = Client::open(h, "two").await;
    for n in 0..20 {
        wakes!(two, "a new job", one.add(&[new(n)]).await);
        let delayed = NewJob { when: When::In(LATER_MS), ..new(100 + n) };
        wakes!(two, "a delayed job", one.add(&[delayed]).await);
    }
    let since = two.mark().await;
    one.add(&[new(1_000)]).await;
    woken(&two, since, "a job that was there before the call").await;
}

/// Everything else that makes something claimable.
pub async fn a_worker_is_woken_by_what_is_free_again(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let two = Client::open(h, "two").await;
    one.add(&(0..20).map(|n| NewJob { max_attempts: 2, ..of(n, "acme") }).collect::<Vec<_>>()).await;
    let jobs = one.claim(9).await;
    wakes!(two, "a release", one.settle(&jobs[0], Outcome::Released).await).expect("its own");
    wakes!(two, "a retry", one.settle(&jobs[1], failure(true)).await).expect("its own");
    one.settle(&jobs[2], failure(false)).await.expect("its own");
    wakes!(two, "a requeue", one.ask(jobs[2].id, JobAsk::Requeue).await).expect("it is dead");
    one.rule(queue_scope(), running(3), false).await;
    wakes!(two, "a free slot of a queue", one.settle(&jobs[3], done()).await).expect("its own");
    one.rule(queue_scope(), Limits::NONE, true).await;
    wakes!(two, "the end of a hold", one.rule(queue_scope(), Limits::NONE, false).await);
    one.rule(tenant_scope("acme"), running(1), false).await;
    wakes!(two, "a free slot of a tenant", one.settle(&jobs[4], failure(false)).await).expect("its own");
    wakes!(two, "a higher limit", one.rule(tenant_scope("acme"), running(9), false).await);
    one.rule(tenant_scope("acme"), running(1), false).await;
    let later = Client::ahead(h, "later", LATER_MS).await;
    one.cancel(jobs[5].id).await;
    let swept = wakes!(two, "a slot that a sweep freed", later.jobs.sweep(9).await);
    assert_eq!(swept, Ok(1));
}

/// All who wait, not just one; of workers and of waiters.
pub async fn everybody_who_waits_is_woken(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    one.add(&[new(1)]).await;
    let job = one.take().await;
    let (mut workers, mut waiters) = (Vec::new(), Vec::new());
    for i in 0..RIVALS {
        let client = Client::open(h, &format!("rival-{i}")).await;
        let (since, ended) = (client.mark().await, client.ended_mark().await);
        let waiter = client.clone();
        workers.push(tokio::spawn(async move { woken(&client, since, "a new job").await }));
        waiters.push(tokio::spawn(async move { told(&waiter, ended, &[job_id(1)]).await }));
    }
    one.settle(&job, done()).await.expect("its own");
    one.add(&[new(2)]).await;
    for wait in workers.into_iter().chain(waiters) {
        wait.await.expect("everybody is woken");
    }
}

/// Every way to an end is told, of whichever rival.
pub async fn every_end_is_told(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let two = Client::open(h, "two").await;
    let later = Client::ahead(h, "later", LATER_MS).await;
    one.add(&(0..6).map(|n| NewJob { timeout_ms: Some(LATER_MS / 2), ..new(n) }).collect::<Vec<_>>()).await;
    let jobs = one.claim(5).await;
    let mut since = two.ended_mark().await;
    one.settle(&jobs[0], done()).await.expect("its own");
    since = told(&two, since, &[jobs[0].id]).await;
    one.settle(&jobs[1], failure(false)).await.expect("its own");
    since = told(&two, since, &[jobs[1].id]).await;
    one.cancel(job_id(5)).await;
    since = told(&two, since, &[job_id(5)]).await;
    one.cancel(jobs[2].id).await;
    one.settle(&jobs[2], Outcome::Released).await.expect("its own");
    since = told(&two, since, &[jobs[2].id]).await;
    assert_eq!(later.jobs.sweep(1).await, Ok(1));
    assert_eq!(later.claim(9).await, [], "a claim judges the other");
    told(&two, since, &[jobs[3].id, jobs[4].id]).await;
}

/// Many ends, many waiters: nobody misses one, from before the call or after it.
pub async fn every_waiter_is_told_of_every_end(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let jobs: Vec<NewJob> = (0..200).map(new).collect();
    one.add(&jobs).await;
    let ids: Vec<JobId> = jobs.iter().map(|new| new.id).collect();
    let mut waiters = Vec::new();
    for i in 0..8 {
        let client = Client::open(h, &format!("waiter-{i}")).await;
        let (since, ids) = (client.ended_mark().await, ids.clone());
        waiters.push(tokio::spawn(async move { told(&client, since, &ids).await }));
    }
    loop {
        let claimed = one.claim(7).await;
        if claimed.is_empty() {
            break;
        }
        for job in &claimed {
            one.settle(job, done()).await.expect("its own");
        }
    }
    for waiter in waiters {
        waiter.await.expect("told of all");
    }
}

/// Who did not look for long is told that some may be missing, never nothing.
pub async fn a_feed_says_what_it_has_forgotten(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let two = Client::open(h, "two").await;
    one.add(&[new(0)]).await;
    one.cancel(job_id(0)).await;
    let since = two.ended_mark().await;
    assert_eq!(two.ended(since).await.jobs, [], "nothing since");
    let many: Vec<NewJob> = (1..FEED_MAX as u64 + 100).map(|n| NewJob { payload: None, ..new(n) }).collect();
    for part in many.chunks(9_000) {
        one.add(part).await;
        let ids: Vec<JobId> = part.iter().map(|new| new.id).collect();
        one.jobs.ask(&ids, JobAsk::Cancel, &asker()).await.expect("ask");
    }
    let last = job_id(FEED_MAX as u64 + 99);
    told(&one, one.ended_mark().await, &[]).await;
    assert_eq!(one.stands(last).await.0, JobStatus::Cancelled);
    // What is on its way is told by the next call.
    let (mut since, mut told_of) = (since, BTreeSet::new());
    while many.iter().any(|new| !told_of.contains(&new.id)) {
        let ended = two.jobs.ended(since, WAIT_MS_MAX).await.expect("ended");
        if ended.gap {
            break;
        }
        assert!(!ended.jobs.is_empty(), "{} without a gap", told_of.len());
        told_of.extend(ended.jobs);
        since = ended.mark;
    }
}

/// A new way to the store, a mark from before it: all that ended, or a gap.
pub async fn a_feed_begins_with_a_gap_or_with_everything(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    one.add(&[new(1)]).await;
    one.cancel(job_id(1)).await;
    h.restart().await;
    let one = Client::open(h, "one").await;
    let ended = one.jobs.ended(Mark::default(), WAIT_MS_MAX).await.expect("ended");
    assert!(ended.gap || ended.jobs.contains(&job_id(1)), "{ended:?}");
    let nothing = one.jobs.ended(ended.mark, 1).await.expect("a wait ends after its limit");
    assert_eq!((nothing.jobs, nothing.gap), (vec![], false));
}

/// A mark that was not given here, or never: an answer at once, with a gap, and from there on as ever.
pub async fn an_unknown_mark_is_answered_at_once(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    one.add(&[new(1), new(2)]).await;
    for (n, unknown) in [(1, Mark::default()), (2, Mark(u64::MAX >> 2))] {
        let ended = tokio::time::timeout(WATCHDOG, one.jobs.ended(unknown, WAIT_MS_MAX)).await;
        let ended = ended.unwrap_or_else(|_| panic!("{unknown:?} waits for ever")).expect("ended");
        assert!(ended.gap && ended.mark != unknown, "{ended:?}");
        let changed = tokio::time::timeout(WATCHDOG, one.jobs.changed(unknown, WAIT_MS_MAX)).await;
        let changed = changed.unwrap_or_else(|_| panic!("{unknown:?} waits for ever")).expect("changed");
        one.cancel(job_id(n)).await;
        told(&one, ended.mark, &[job_id(n)]).await;
        one.add(&[new(100 + n)]).await;
        woken(&one, changed, "a new job").await;
    }
}

/// No wait is an answer at once, and the mark never goes back.
pub async fn a_call_that_does_not_wait_answers_at_once(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let mut last = one.mark().await;
    for n in 0..5 {
        assert_eq!(one.jobs.changed(last, 0).await, Ok(last), "nothing happened");
        one.add(&[new(n)]).await;
        let seen = one.jobs.changed(last, 0).await.expect("changed");
        assert!(seen > last, "a rival sees its own change at once");
        last = seen;
    }
    let end = tokio::time::timeout(WATCHDOG, one.jobs.changed(last, 1)).await;
    assert_eq!(end.expect("a wait ends after its limit"), Ok(last));
    let since = one.ended_mark().await;
    one.cancel(job_id(0)).await;
    assert_eq!(one.ended(since).await.jobs, [job_id(0)], "its own end at once");
}
