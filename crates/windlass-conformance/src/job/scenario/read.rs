//! Lists and the view of queues.

use windlass_core::job::limit::Limits;
use windlass_core::job::{Job, JobStatus, NewJob, When};
use windlass_core::port::job::JobFilter;
use windlass_core::port::{BATCH_MAX, Cursor, PAGE_MAX, PortError};

use crate::job::JobHarness;
use crate::job::world::{Client, LATER_MS, LEASE_MS, done, failure, ids, job_id, new, of, queue_scope, running};
use crate::world::id;

/// Jobs of every kind, and where each stands in the list.
async fn every_kind(h: &dyn JobHarness) -> (Client, Vec<Job>) {
    let one = Client::open(h, "one").await;
    let in_queue = |queue: &str, new: NewJob| NewJob { queue: id(queue), ..new };
    let mut n = 0;
    // Ended ones, the newest end first.
    for (i, end) in ["fail", "cancel", "done", "fail", "cancel", "done"].into_iter().enumerate() {
        let then = Client::ahead(h, "then", i as u64 * LATER_MS).await;
        for tenant in ["acme", "bolt"] {
            then.add(&[in_queue("e", of(n, tenant))]).await;
            match end {
                "cancel" => _ = then.cancel(job_id(n)).await,
                end => {
                    let job = then.claim_from("e", 1).await.remove(0);
                    let outcome = if end == "done" { done() } else { failure(false) };
                    then.settle(&job, outcome).await.expect("its own");
                }
            }
            n += 1;
        }
    }
    // Live ones.
    for queue in ["b", "B", "a-1", "a"] {
        for tenant in [Some("acme"), None, Some("Zoo"), Some("acme-2")] {
            for (priority, ms) in [(0, 500_000), (-128, 0), (127, 900_000), (0, 100_000), (0, 500_000)] {
                let tenant = tenant.map(id);
                one.add(&[NewJob { tenant, priority, when: When::In(ms), ..in_queue(queue, new(n)) }]).await;
                n += 1;
            }
        }
        one.claim_from(queue, 1).await;
    }
    let mut all = Vec::new();
    for n in 0..n {
        all.push(one.load(job_id(n)).await);
    }
    let rank = |job: &Job| match job.status {
        JobStatus::Pending | JobStatus::Running => 0,
        JobStatus::Failed => 1,
        JobStatus::Cancelled => 2,
        JobStatus::Completed => 3,
    };
    all.sort_by(|a, b| {
        let live = |job: &Job| (job.queue.clone(), job.tenant.clone(), -i16::from(job.priority), job.run_at, job.seq);
        rank(a).cmp(&rank(b)).then_with(|| match rank(a) {
            0 => live(a).cmp(&live(b)),
            _ => b.completed_at.cmp(&a.completed_at),
        })
    });
    (one, all)
}

/// Ends within one millisecond may come in any order: those are put into one.
fn settled(mut jobs: Vec<Job>) -> Vec<Job> {
    for chunk in
        jobs.chunk_by_mut(|a, b| a.completed_at.is_some() && a.completed_at == b.completed_at && a.status == b.status)
    {
        chunk.sort_by_key(|job| job.id);
    }
    jobs
}

/// An order, whatever the size of a page.
pub async fn lists_have_an_order_that_pages_do_not_change(h: &dyn JobHarness) {
    let (one, all) = every_kind(h).await;
    let all = settled(all);
    for limit in [1, 2, 7, 91, PAGE_MAX] {
        let listed = one.list(&JobFilter::default(), limit).await;
        assert_eq!(ids(&settled(listed)), ids(&all), "in pages of {limit}");
    }
    assert_eq!(settled(one.everything().await), all, "whole records");
}

/// A filter lets through what it says, and changes no order.
pub async fn every_filter_lets_through_what_it_says(h: &dyn JobHarness) {
    let (one, all) = every_kind(h).await;
    let all = settled(all);
    let sets: Vec<Vec<JobStatus>> = [vec![], JobStatus::ALL.to_vec(), vec![JobStatus::Completed, JobStatus::Running]]
        .into_iter()
        .chain(JobStatus::ALL.map(|status| vec![status]))
        .collect();
    for queue in [None, Some(id("e")), Some(id("a")), Some(id("nowhere"))] {
        for tenant in [None, Some(id("acme")), Some(id("nobody"))] {
            for statuses in &sets {
                let fits = |job: &&Job| {
                    queue.as_ref().is_none_or(|queue| *queue == job.queue)
                        && (tenant.is_none() || tenant == job.tenant)
                        && (statuses.is_empty() || statuses.contains(&job.status))
                };
                let wanted: Vec<Job> = all.iter().filter(fits).cloned().collect();
                let filter = JobFilter { queue: queue.clone(), tenant: tenant.clone(), statuses: statuses.clone() };
                for limit in [2, PAGE_MAX] {
                    let listed = settled(one.list(&filter, limit).await);
                    assert_eq!(ids(&listed), ids(&wanted), "{filter:?} in pages of {limit}");
                }
            }
        }
    }
}

/// Others submit, claim and end jobs between two pages: what stays where it is comes exactly once.
pub async fn a_job_that_stays_is_listed_once(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let two = Client::open(h, "two").await;
    let stays: Vec<NewJob> =
        (0..30).map(|n| NewJob { when: When::In(LATER_MS), ..of(n, ["a", "b", "c"][n as usize % 3]) }).collect();
    one.add(&stays).await;
    one.add(&(30..50).map(|n| NewJob { queue: id("e"), ..new(n) }).collect::<Vec<_>>()).await;
    let ended = one.claim_from("e", 10).await;
    for job in &ended {
        one.settle(job, done()).await.expect("its own");
    }
    let (mut seen, mut after, mut n) = (Vec::new(), None, 100);
    loop {
        let page = one.jobs.list(&JobFilter::default(), after.as_ref(), 3).await.expect("list");
        seen.extend(ids(&page.items));
        after = page.next;
        if after.is_none() {
            break;
        }
        for (queue, tenant) in [("q", "b"), ("a", "a"), ("z", "z")] {
            two.add(&[NewJob { queue: id(queue), ..of(n, tenant) }]).await;
            n += 1;
        }
        for job in two.claim_from("e", 1).await {
            two.settle(&job, failure(false)).await.expect("its own");
        }
        two.cancel(job_id(n - 1)).await;
        assert!(n < 1_000, "a list that is written to must come to its end");
    }
    let stays = stays.iter().map(|new| new.id).chain(ids(&ended));
    for there in stays {
        assert_eq!(seen.iter().filter(|seen| **seen == there).count(), 1, "{there} was there all along");
    }
}

/// A page has between one item and a thousand, and a cursor comes from the store.
pub async fn bad_limits_cursors_and_batches_are_refused(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    one.add(&[new(1), new(2)]).await;
    let all = JobFilter::default();
    for limit in [0, PAGE_MAX + 1, u32::MAX] {
        let answer = one.jobs.list(&all, None, limit).await;
        assert!(matches!(answer, Err(PortError::Invalid(_))), "a page of {limit}: {answer:?}");
        let answer = one.jobs.queues(None, limit).await;
        assert!(matches!(answer, Err(PortError::Invalid(_))), "a page of {limit}: {answer:?}");
    }
    for cursor in ["", "x", "not a cursor", "q", "🪝", "%00"] {
        let cursor = Cursor(cursor.to_owned());
        let answer = one.jobs.list(&all, Some(&cursor), 1).await;
        assert!(matches!(answer, Err(PortError::Invalid(_))), "{cursor:?}: {answer:?}");
        let answer = one.jobs.queues(Some(&cursor), 1).await;
        assert!(matches!(answer, Err(PortError::Invalid(_))), "{cursor:?}: {answer:?}");
    }
    let many = vec![job_id(1); BATCH_MAX + 1];
    assert!(matches!(one.jobs.load(&many).await, Err(PortError::Invalid(_))));
    let loaded = one.jobs.load(&many[1..]).await.expect("as many as it may");
    assert!(loaded.len() == BATCH_MAX && loaded.iter().all(Option::is_some));
    let groups = vec![vec![new(3)]; BATCH_MAX + 1];
    assert!(matches!(one.jobs.submit(&groups).await, Err(PortError::Invalid(_))), "also by groups");
    let group: Vec<NewJob> = groups.into_iter().flatten().collect();
    assert!(matches!(one.jobs.submit(&[group]).await, Err(PortError::Invalid(_))));
    assert_eq!(one.find(job_id(3)).await, None);
}

/// What waits, what runs, since when, and whether anybody works.
pub async fn a_queue_is_seen_as_it_is(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    assert_eq!(one.queues(PAGE_MAX).await, [], "nothing, no queue");
    one.add(&[new(1), new(2), NewJob { priority: 5, ..new(3) }, NewJob { when: When::In(LATER_MS / 2), ..new(4) }])
        .await;
    let view = one.queue().await;
    assert_eq!((view.waiting, view.running, view.worker_until), (4, 0, None), "what waits for its time waits");
    assert_eq!(view.oldest, Some(one.load(job_id(1)).await.run_at));
    let job = one.take().await;
    let view = one.queue().await;
    assert_eq!((view.waiting, view.running), (3, 1));
    let until = view.worker_until.expect("somebody asks");
    assert!(until > job.started_at.expect("running") && until <= job.lease_until, "{until:?}");
    let later = Client::ahead(h, "later", LATER_MS).await;
    assert_eq!(later.queue().await.worker_until, None, "nobody was heard of since");
    for job in one.claim(2).await {
        one.settle(&job, done()).await.expect("its own");
    }
    let view = one.queue().await;
    assert_eq!((view.waiting, view.running, view.oldest), (1, 1, None), "nothing could begin");
    assert_eq!(later.queue().await.oldest, Some(one.load(job_id(4)).await.run_at), "it could since then");
    one.settle(&job, done()).await.expect("its own");
    one.cancel(job_id(4)).await;
    assert_eq!(later.queues(PAGE_MAX).await, [], "what has ended makes no queue");
}

/// By name, with what makes it one: live jobs, a rule or a worker.
pub async fn queues_are_listed_by_name(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    for (n, queue) in ["b", "B", "a-1", "a", "c"].into_iter().enumerate() {
        one.add(&[NewJob { queue: id(queue), ..new(n as u64) }]).await;
    }
    one.rule(queue_scope(), running(1), false).await;
    one.claim_from("asked", 1).await;
    let names = |views: Vec<windlass_core::port::job::QueueView>| -> Vec<String> {
        views.iter().map(|view| view.queue.to_string()).collect()
    };
    for limit in [1, 2, 3, PAGE_MAX] {
        assert_eq!(names(one.queues(limit).await), ["B", "a", "a-1", "asked", "b", "c", "q"], "in pages of {limit}");
    }
    one.rule(queue_scope(), Limits::NONE, false).await;
    let later = Client::ahead(h, "later", LATER_MS.max(2 * LEASE_MS)).await;
    assert_eq!(names(later.queues(2).await), ["B", "a", "a-1", "b", "c"]);
}
