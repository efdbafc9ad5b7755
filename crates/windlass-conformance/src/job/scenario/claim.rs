//! Claims: what they give, in which order, and the turn that says everything at once.

use windlass_core::fence::Fence;
use windlass_core::id::QueueName;
use windlass_core::job::rules::Outcome;
use windlass_core::job::{JobStatus, NewJob, When};
use windlass_core::port::job::{Beaten, CLAIM_MAX, QUEUES_MAX, Turn};
use windlass_core::port::{BATCH_MAX, PortError, Refusal};

use crate::job::JobHarness;
use crate::job::world::{Client, LATER_MS, LEASE_MS, delivery, done, ids, job_id, new, turn};
use crate::world::id;

/// What a claim answers is what is stored, and nobody gets it again.
pub async fn a_claim_returns_what_it_claimed(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let two = Client::open(h, "two").await;
    one.add(&[new(1), new(2), new(3)]).await;
    assert_eq!(one.claim(0).await, [], "room for nothing");
    assert_eq!(one.claim_from("r", 9).await, [], "an unknown queue has nothing");
    let claimed = one.claim(2).await;
    assert_eq!(ids(&claimed), [1, 2].map(job_id));
    for job in &claimed {
        assert_eq!(two.load(job.id).await, *job);
        assert_eq!((job.attempt, job.deliveries, job.version), (1, 1, 2));
        assert!(job.fence > Fence::NONE && job.started_at.is_some());
    }
    assert_eq!(ids(&two.claim(2).await), [job_id(3)]);
    assert_eq!(one.claim(2).await, []);
}

/// Priority, then time, then the order of submission.
pub async fn a_tenants_jobs_go_by_priority_time_and_submission(h: &dyn JobHarness) {
    let later = Client::ahead(h, "later", LATER_MS).await;
    let one = Client::open(h, "one").await;
    let with = |n, priority, ms| NewJob { priority, when: When::In(ms), ..new(n) };
    one.add(&[with(1, 0, 2_000), with(2, 0, 1_000), with(3, 9, 5_000), with(4, i8::MIN, 0), with(5, 0, 1_000)]).await;
    one.add(&[with(6, i8::MAX, 9_000), with(7, -1, 0), with(8, 9, 5_000), with(9, 127, LATER_MS * 2)]).await;
    let order = [6, 3, 8, 2, 5, 1, 7, 4].map(job_id);
    let mut claimed = ids(&later.claim(3).await);
    claimed.extend(ids(&later.claim(1).await));
    claimed.extend(ids(&later.claim(9).await));
    assert_eq!(claimed, order, "however many are claimed at once");
}

/// A worker completes, says that it goes on, and claims, in one call.
pub async fn a_turn_says_everything_at_once(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    one.add(&[new(1), new(2), new(3), NewJob { queue: id("r"), ..new(4) }]).await;
    let first = one.claim(2).await;
    let turned = one
        .turn(Turn {
            settle: vec![(delivery(&first[0]), done())],
            beat: vec![delivery(&first[1])],
            want: vec![(id("r"), 5), (id("q"), 5)],
            lease_ms: 2 * LEASE_MS,
            ..turn(&one.me)
        })
        .await;
    assert_eq!(turned.settled, [Ok(JobStatus::Completed)]);
    assert_eq!(turned.beaten, [Ok(Beaten { until: turned.at.plus(2 * LEASE_MS), cancel: false })]);
    assert_eq!(ids(&turned.claimed), [4, 3].map(job_id), "queues in the order in which they are asked");
    assert_eq!(one.load(job_id(2)).await.lease_until, turned.at.plus(2 * LEASE_MS));
    assert_eq!(one.load(job_id(1)).await.completed_at, Some(turned.at));
}

/// What a turn gives back it can get again.
pub async fn what_a_turn_settles_comes_before_what_it_claims(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    one.add(&[new(1)]).await;
    let job = one.take().await;
    let want = vec![(id("q"), 1)];
    let turned = one.turn(Turn { settle: vec![(delivery(&job), Outcome::Released)], want, ..turn(&one.me) }).await;
    assert_eq!(turned.settled, [Ok(JobStatus::Pending)]);
    assert_eq!(ids(&turned.claimed), [job.id]);
    assert!(turned.claimed[0].fence > job.fence);
    assert_eq!(turned.claimed[0].attempt, 1, "an attempt that was released did not count");
}

/// Many workers in one call: each gets its own answer, and no job goes to two.
pub async fn many_turns_are_answered_one_by_one(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    one.add(&(0..10).map(new).collect::<Vec<_>>()).await;
    let held = one.claim(2).await;
    let of = |worker: &str, n| Turn { want: vec![(id("q"), n)], ..turn(&id(worker)) };
    let settles = Turn { settle: vec![(delivery(&held[0]), done())], ..of("a", 3) };
    let beats = Turn { beat: vec![delivery(&held[1]), delivery(&held[0])], ..of("b", 0) };
    let turned = one.jobs.turn(&[settles, beats, of("c", 4), of("d", 4)]).await.expect("turn");
    assert_eq!(turned[0].settled, [Ok(JobStatus::Completed)]);
    assert!(turned[1].beaten[0].is_ok());
    assert!(matches!(turned[1].beaten[1], Err(Refusal::State { .. })), "it has ended: {:?}", turned[1].beaten);
    assert_eq!(turned.iter().map(|turned| turned.claimed.len()).collect::<Vec<_>>(), [3, 0, 4, 1]);
    let mut all: Vec<_> = turned.iter().flat_map(|turned| ids(&turned.claimed)).collect();
    assert_eq!(all, (2..10).map(job_id).collect::<Vec<_>>(), "in order");
    all.dedup();
    assert_eq!(all.len(), 8);
    for (turned, worker) in turned.iter().zip(["a", "b", "c", "d"]) {
        assert!(turned.claimed.iter().all(|job| job.worker == Some(id(worker))), "each its own");
    }
    assert_eq!(one.jobs.turn(&[]).await, Ok(vec![]));
}

/// A worker that got less than it has room for is told when to ask again.
pub async fn a_turn_says_when_something_comes(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let ask = |n| Turn { want: vec![(id("q"), n), (id("r"), 1)], ..turn(&one.me) };
    assert_eq!(one.turn(ask(1)).await.next, None, "nothing will come by itself");
    one.add(&[new(1), NewJob { when: When::In(LEASE_MS / 2), ..new(2) }]).await;
    let other = NewJob { queue: id("s"), when: When::In(1_000), ..new(3) };
    one.add(&[other, NewJob { queue: id("r"), when: When::In(2 * LEASE_MS), ..new(4) }]).await;
    let turned = one.turn(Turn { want: vec![(id("q"), 1)], ..turn(&one.me) }).await;
    assert_eq!((turned.claimed.len(), turned.next), (1, None), "it got what it wanted");
    let due = one.load(job_id(2)).await.run_at;
    assert_eq!(one.turn(ask(1)).await.next, Some(due), "the time of a job that waits");
    one.cancel(job_id(2)).await;
    let lease = one.load(job_id(1)).await.lease_until;
    assert_eq!(one.turn(ask(1)).await.next, Some(lease), "the end of a lease");
    one.settle(&turned.claimed[0], done()).await.expect("its own");
    let due = one.load(job_id(4)).await.run_at;
    assert_eq!(one.turn(ask(1)).await.next, Some(due), "of every wanted queue");
}

/// A turn has bounds, and one that breaks them does nothing.
pub async fn a_turn_has_bounds(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    one.add(&[new(1), new(2)]).await;
    let job = one.take().await;
    let queues = |n: usize| -> Vec<(QueueName, u32)> { (0..n).map(|i| (id(&format!("q-{i}")), 1)).collect() };
    let settle = |n: usize| vec![(delivery(&job), done()); n];
    let fine = Turn { settle: settle(1), want: vec![(id("q"), 1)], ..turn(&one.me) };
    for wrong in [
        Turn { want: vec![(id("q"), CLAIM_MAX + 1)], ..fine.clone() },
        Turn { want: vec![(id("q"), CLAIM_MAX), (id("r"), 1)], ..fine.clone() },
        Turn { want: queues(QUEUES_MAX + 1), ..fine.clone() },
        Turn { settle: settle(BATCH_MAX), beat: vec![delivery(&job)], ..fine.clone() },
        Turn { lease_ms: 0, ..fine.clone() },
        Turn { lease_ms: u64::MAX, ..fine.clone() },
    ] {
        let answer = one.jobs.turn(&[fine.clone(), wrong]).await;
        assert!(matches!(answer, Err(PortError::Invalid(_))), "{answer:?}");
        assert_eq!(one.load(job.id).await, job, "nothing of the call was done");
        assert_eq!(one.load(job_id(2)).await.status, JobStatus::Pending);
    }
    let most =
        Turn { want: vec![(id("q"), CLAIM_MAX - 63)].into_iter().chain(queues(QUEUES_MAX - 1)).collect(), ..fine };
    assert_eq!(ids(&one.turn(most).await.claimed), [job_id(2)]);
}
