//! A server that is killed in the middle of calls and comes back: what was acknowledged is there, what had no answer is
//! done once by a repeat, and the store goes on by itself. A store brings a server of its own that can die ([`Mortal`]).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use windlass_core::event::Fact;
use windlass_core::id::{JobId, QueueName};
use windlass_core::job::rules::Outcome;
use windlass_core::job::{Job, JobStatus, NewJob};
use windlass_core::json::Json;
use windlass_core::port::PortError;
use windlass_core::port::job::{Delivery, Jobs, Turn};
use windlass_core::port::lock::Locks;
use windlass_core::port::state::{Key, Row, Step};
use windlass_core::task::status::TaskStatus;

use crate::harness::Ports;
use crate::world::step::{self, Draft};
use crate::world::{Attempt, Rival, id};

/// Writers, each on a task of its own, that commit until the server is gone.
const WRITERS: usize = 8;
/// Acknowledged boundaries before it goes, each time.
const ENOUGH: u64 = 100;
/// How often it is killed.
const CRASHES: u64 = 10;
/// Jobs that are submitted and done meanwhile, in groups.
const JOBS: u128 = 3_000;
const GROUP: u128 = 10;

/// A server that can be killed.
pub trait Mortal {
    /// It ends at once, without a word.
    fn kill(&mut self);

    /// It is started on what is there; answers when it takes calls.
    fn up(&mut self);
}

/// Repeats a call while the store is away; anything else than its absence is an error. A macro, because the compiler does not
/// see that a function of this kind can be sent to another thread.
macro_rules! until_back {
    ($call:expr) => {
        loop {
            match $call.await {
                Ok(done) => break done,
                Err(PortError::Unavailable(_)) => tokio::task::yield_now().await,
                Err(error) => panic!("{error}"),
            }
        }
    };
}

/// Commits on one task until the server is gone: the last event that was acknowledged, and what had no answer.
async fn writes(one: Rival, attempt: Attempt, name: String, done: Arc<AtomicU64>) -> (u64, Option<Step>) {
    let (mut last, mut turn) = (0, 0);
    loop {
        let Ok(rows) = one.ports.state.load(&[Key::Task(attempt.task.clone())]).await else { return (last, None) };
        let Some(Row::Task(row)) = rows.into_iter().next().flatten() else { panic!("the task is there") };
        last = last.max(row.seq);
        let step = step::owner(&format!("{name}-{turn}"), &row, &attempt, vec![Fact::TaskPauseRequested]);
        turn += 1;
        match one.ports.state.commit(std::slice::from_ref(&step)).await {
            Ok(answers) => match answers.into_iter().next() {
                Some(Ok(stepped)) => last = stepped.seq,
                other => panic!("{other:?}"),
            },
            Err(PortError::Unavailable(_)) => return (last, Some(step)),
            Err(error) => panic!("{error}"),
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
}

/// What was acknowledged is there after every crash, and repeats are done once.
pub async fn acknowledged_is_there(server: &mut impl Mortal, ports: Ports) {
    let one = Rival { ports, me: id("one") };
    one.beat(3_600_000).await;
    let draft = Draft::wide("p", WRITERS).stages(100).at_once(WRITERS as u32);
    one.run(&draft).await;
    let mut attempts = Vec::new();
    for n in 0..WRITERS {
        attempts.push(one.begin(&draft.task(n)).await);
    }
    for crash in 0..CRASHES {
        let done = Arc::new(AtomicU64::new(0));
        let writers: Vec<_> = (attempts.iter().enumerate())
            .map(|(n, attempt)| {
                let name = format!("write-{crash}-{n}");
                tokio::spawn(writes(one.clone(), attempt.clone(), name, Arc::clone(&done)))
            })
            .collect();
        while done.load(Ordering::Relaxed) < ENOUGH {
            tokio::task::yield_now().await;
        }
        server.kill();
        let mut left = Vec::new();
        for writer in writers {
            left.push(writer.await.expect("no writer panics"));
        }
        let away = one.ports.state.load(&[Key::Task(draft.task(0))]).await;
        assert!(matches!(away, Err(PortError::Unavailable(_))), "{away:?}");
        server.up();
        for (n, (last, unanswered)) in left.into_iter().enumerate() {
            repeated(&one, &draft, n, last, unanswered).await;
        }
    }
}

/// The server is back: the task is where it was said to be, and what had no answer is done once.
async fn repeated(one: &Rival, draft: &Draft, n: usize, last: u64, unanswered: Option<Step>) {
    let task = draft.task(n);
    let rows = until_back!(one.ports.state.load(&[Key::Task(task.clone())]));
    let Some(Row::Task(row)) = &rows[0] else { panic!("the task is there") };
    assert!(row.seq >= last, "event {last} of task {n} was acknowledged, {} is there", row.seq);
    let Some(step) = unanswered else { return };
    // Its effect is unknown; the same again is done once, whichever it was.
    let first = until_back!(one.ports.state.commit(std::slice::from_ref(&step)));
    let again = until_back!(one.ports.state.commit(std::slice::from_ref(&step)));
    assert_eq!(first, again);
    assert_eq!(one.task(&task).await.seq, last + 1);
    let history = one.history(Key::TaskHistory(task)).await;
    assert_eq!(history.last().map(|event| event.seq), Some(last + 1));
}

/// Submits and works, and repeats whatever had no answer, until all is done: each job once, however often the server is killed.
pub async fn jobs_are_done_once(server: &mut impl Mortal, jobs: Arc<dyn Jobs>) {
    let queue: QueueName = id("work");
    let done = Arc::new(AtomicU64::new(0));
    let submitter = tokio::spawn(submits(Arc::clone(&jobs), queue.clone()));
    let worker = tokio::spawn(works(Arc::clone(&jobs), queue, Arc::clone(&done)));
    for crash in 1..=CRASHES {
        while done.load(Ordering::Relaxed) < crash * 200 {
            tokio::task::yield_now().await;
        }
        server.kill();
        server.up();
    }
    submitter.await.expect("whoever submits does not panic");
    worker.await.expect("whoever works does not panic");
    let ids: Vec<JobId> = (1..=JOBS).map(JobId::random).collect();
    let found = until_back!(jobs.load(&ids));
    assert!(found.iter().flatten().all(|job| job.status == JobStatus::Completed));
    assert_eq!(found.iter().flatten().count() as u128, JOBS);
    let views = until_back!(jobs.queues(None, 10)).items;
    assert!(views.iter().all(|view| view.waiting + view.running == 0), "what is counted is what is there: {views:?}");
}

async fn submits(jobs: Arc<dyn Jobs>, queue: QueueName) {
    for n in 0..JOBS / GROUP {
        let group = (1..=GROUP).map(|i| NewJob::new(JobId::random(n * GROUP + i), queue.clone(), None)).collect();
        let groups = [group];
        let taken = until_back!(jobs.submit(&groups));
        assert!(matches!(&taken[..], [Ok(taken)] if taken.len() as u128 == GROUP), "{taken:?}");
    }
}

async fn works(jobs: Arc<dyn Jobs>, queue: QueueName, done: Arc<AtomicU64>) {
    let ends = |job: &Job| (Delivery { job: job.id, fence: job.fence }, Outcome::Completed(Json::null()));
    let (mut settle, mut seen) = (Vec::new(), BTreeSet::new());
    while (seen.len() as u128) < JOBS {
        let want = vec![(queue.clone(), 20)];
        // Short, so that what was claimed when the answer was lost comes back soon.
        let turn = Turn { worker: id("w"), lease_ms: 200, settle, beat: Vec::new(), want };
        let turned = until_back!(jobs.turn(std::slice::from_ref(&turn))).remove(0);
        for ((of, _), answer) in turn.settle.iter().zip(&turned.settled) {
            // Refused only where its lease ran out and it was delivered again.
            if answer.is_ok() {
                seen.insert(of.job);
                done.fetch_add(1, Ordering::Relaxed);
            }
        }
        settle = turned.claimed.iter().map(ends).collect();
    }
}

/// Whoever waits outlives a crash and is woken afterwards, and locks outlive it too. Two instances, each with its connections.
pub async fn a_waiter_is_woken(server: &mut impl Mortal, [one, two]: [Ports; 2]) {
    let (one, two) = (Rival { ports: one, me: id("one") }, Rival { ports: two, me: id("one") });
    one.beat(3_600_000).await;
    let draft = Draft::new("p", &["acme"]);
    one.run(&draft).await;
    let attempt = one.begin(&draft.task(0)).await;
    let since = two.mark().await;
    assert_eq!(two.ports.state.changed(since, 1).await, Ok(since), "it listens, and hears nothing");
    server.kill();
    let heard = two.ports.state.changed(since, 100).await;
    assert!(matches!(heard, Err(PortError::Unavailable(_))) || heard == Ok(since), "{heard:?}");
    server.up();
    // Who waits learns by itself that it is back.
    assert_eq!(until_back!(two.ports.state.changed(since, 1)), since);
    let waiter = two.clone();
    let waits = tokio::spawn(async move { waiter.ports.state.changed(since, 60_000).await });
    let ask = step::asks("ask", &attempt.task, &[TaskStatus::Running], step::pause());
    until_back!(one.ports.state.commit(std::slice::from_ref(&ask)));
    let woken = waits.await.expect("the waiter does not panic");
    assert!(woken.as_ref().is_ok_and(|mark| *mark > since), "{woken:?}");
    let locks = until_back!(Locks::load(&*one.ports.locks, &[id("acme")]));
    assert!(locks[0].holder.is_some(), "locks outlive it too");
}
