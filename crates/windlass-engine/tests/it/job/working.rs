//! Workers: what runs where, what goes back, and what a handler's end comes to.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use windlass_core::job::error::{CANCELLED, LOST, TIMEOUT};
use windlass_core::job::rules::{Asked, Outcome};
use windlass_core::job::{Backoff, JobError, JobStatus, NewJob, PAYLOAD_BYTES_MAX};
use windlass_core::json::Json;
use windlass_core::port::Refusal;
use windlass_core::port::job::Jobs as _;
use windlass_engine::Error;
use windlass_engine::job::worker::{Failed, Told};
use windlass_engine::job::{JobOptions, Waited};

use super::yard::{Yard, json, lane, options, pass};
use crate::world::by;

/// How many are inside, the most there ever were, how many came, and how many left without an end.
#[derive(Default)]
pub(super) struct Door {
    inside: AtomicU32,
    most: AtomicU32,
    came: AtomicU32,
    dropped: AtomicU32,
    pub(super) open: Notify,
}

struct Visit(Arc<Door>, bool);

impl Visit {
    /// It came to its end.
    fn done(mut self) {
        self.1 = true;
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::SeqCst);
        if !self.1 {
            self.0.dropped.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Door {
    fn enter(self: &Arc<Self>) -> Visit {
        self.came.fetch_add(1, Ordering::SeqCst);
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(inside, Ordering::SeqCst);
        Visit(Arc::clone(self), false)
    }

    /// A handler that stays as long as it is told to.
    pub(super) fn stays(self: &Arc<Self>, ms: u64) -> impl Fn(Told) -> Stay + Send + Sync + 'static {
        let door = Arc::clone(self);
        move |told: Told| {
            let visit = door.enter();
            Box::pin(async move {
                pass(ms).await;
                visit.done();
                Ok(told.payload.unwrap())
            })
        }
    }

    /// A handler that stays until the door is opened, once for each.
    pub(super) fn shut(self: &Arc<Self>) -> impl Fn(Told) -> Stay + Send + Sync + 'static {
        let door = Arc::clone(self);
        move |told: Told| {
            let (visit, door) = (door.enter(), Arc::clone(&door));
            Box::pin(async move {
                door.open.notified().await;
                visit.done();
                Ok(told.payload.unwrap())
            })
        }
    }

    pub(super) fn came(&self) -> u32 {
        self.came.load(Ordering::SeqCst)
    }

    fn dropped(&self) -> u32 {
        self.dropped.load(Ordering::SeqCst)
    }
}

pub(super) type Stay = std::pin::Pin<Box<dyn Future<Output = Result<Json, Failed>> + Send>>;

/// A worker that always fails so.
fn fails(yard: &Yard, error: JobError, again: bool) {
    let handler = move |_| {
        let failed = Failed { error: error.clone(), again };
        async move { Err(failed) }
    };
    yard.queues.work(vec![lane("q", 1, 0, handler)]).unwrap();
}

#[tokio::test(start_paused = true)]
async fn no_more_run_and_no_more_are_claimed_than_fit() {
    let (yard, door) = (Yard::new(options()), Arc::new(Door::default()));
    let handles = yard.queues.submit_all((0..20).map(|_| yard.job()).collect()).await.unwrap();
    yard.queues.work(vec![lane("q", 3, 2, door.shut())]).unwrap();
    for left in (0..=20u32).rev() {
        pass(1).await;
        assert_eq!(door.inside.load(Ordering::SeqCst), left.min(3));
        let claimed = yard.list(&[JobStatus::Running]).await.len();
        assert!((left.min(3)..=left.min(5)).contains(&u32::try_from(claimed).unwrap()), "{claimed} of {left}");
        door.open.notify_one();
    }
    for handle in handles {
        handle.await.unwrap();
    }
    assert_eq!((door.most.load(Ordering::SeqCst), door.came()), (3, 20));
}

#[tokio::test(start_paused = true)]
async fn a_queue_with_much_to_do_goes_on_beside_an_empty_one() {
    let yard = Yard::new(options());
    let handles = yard.queues.submit_all((0..50).map(|_| yard.job()).collect()).await.unwrap();
    let door = Arc::new(Door::default());
    yard.queues.work(vec![lane("q", 1, 0, door.stays(1)), lane("empty", 5, 5, door.stays(1))]).unwrap();
    for handle in handles {
        let waited = handle.wait(Some(Duration::from_secs(5))).await.unwrap();
        assert!(matches!(waited, Waited::Ended(_)), "its work waited for a scan");
    }
}

#[tokio::test(start_paused = true)]
async fn a_queue_with_much_room_leaves_some_to_the_others() {
    let (yard, door) = (Yard::new(options()), Arc::new(Door::default()));
    yard.queues.work(vec![lane("wide", 3_000, 0, door.stays(1)), lane("q", 1, 0, door.stays(1))]).unwrap();
    for _ in 0..3 {
        let handle = yard.queues.submit(yard.job()).await.unwrap();
        let waited = handle.wait(Some(Duration::from_secs(5))).await.unwrap();
        assert!(matches!(waited, Waited::Ended(_)), "nobody asked for it");
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_cannot_be_is_refused() {
    let (yard, door) = (Yard::new(options()), Arc::new(Door::default()));
    let twice = vec![lane("q", 1, 0, door.stays(1)), lane("q", 2, 0, door.stays(1))];
    let huge = vec![lane("q", u32::MAX, u32::MAX, door.stays(1))];
    let many = (0..65).map(|n| lane(&format!("q{n}"), 1, 0, door.stays(1))).collect();
    for lanes in [twice, huge, many, Vec::new()] {
        assert!(matches!(yard.queues.work(lanes).err(), Some(Error::Invalid(_))));
    }
}

#[tokio::test(start_paused = true)]
async fn delayed_and_failed_jobs_come_when_their_time_does() {
    let yard = Yard::new(options());
    let tries = Arc::new(Mutex::new(Vec::new()));
    let (seen, began) = (Arc::clone(&tries), yard.began);
    let handler = move |told: Told| {
        seen.lock().unwrap().push((told.attempt, began.elapsed().as_millis()));
        async move { Err::<Json, _>(Failed { error: JobError::of("E", "no"), again: true }) }
    };
    yard.queues.work(vec![lane("q", 1, 0, handler)]).unwrap();
    let backoff = Backoff { first_ms: 1_000, max_ms: 8_000 };
    let when = windlass_core::job::When::In(500);
    let job = NewJob { max_attempts: 3, backoff, when, ..yard.job() };
    let handle = yard.queues.submit(job).await.unwrap();
    let Waited::Ended(job) = handle.wait(Some(Duration::from_secs(30))).await.unwrap() else { panic!("it waits") };
    assert_eq!((job.status, job.attempt), (JobStatus::Failed, 3));
    let tries = tries.lock().unwrap().clone();
    let (numbers, at): (Vec<_>, Vec<_>) = tries.into_iter().unzip();
    assert_eq!(numbers, [1, 2, 3]);
    assert!(at[0] >= 500 && at[0] < 600, "{at:?}");
    assert!(at[1] - at[0] >= 500 && at[1] - at[0] <= 1_100, "{at:?}");
    assert!(at[2] - at[1] >= 1_000 && at[2] - at[1] <= 2_100, "{at:?}");
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_stops_hands_back_what_it_has_not_begun() {
    let (yard, door) = (Yard::new(options()), Arc::new(Door::default()));
    let handles = yard.queues.submit_all((0..4).map(|_| yard.job()).collect()).await.unwrap();
    let worker = yard.queues.work(vec![lane("q", 2, 2, door.shut())]).unwrap();
    pass(1).await;
    assert_eq!(yard.list(&[JobStatus::Running]).await.len(), 4);
    let watch = async {
        pass(1).await;
        let back = yard.list(&[JobStatus::Pending]).await;
        assert_eq!(back.len(), 2, "what was not begun waits again at once");
        assert!(back.iter().all(|job| job.attempt == 0 && job.deliveries == 0));
        // One ends in its time, the other does not.
        door.open.notify_one();
    };
    let began = yard.began.elapsed();
    tokio::join!(worker.stop(), watch);
    assert_eq!((yard.began.elapsed() - began).as_millis() / 100, 20, "what runs has its time, and no more");
    assert_eq!(yard.list(&[JobStatus::Completed]).await.len(), 1);
    let back = yard.list(&[JobStatus::Pending]).await;
    assert_eq!((back.len(), door.came(), door.dropped()), (3, 2, 1));
    assert!(back.iter().all(|job| job.attempt == 0));
    // Others do them at once.
    yard.elsewhere(options()).work(vec![lane("q", 4, 0, door.stays(1))]).unwrap();
    for handle in handles {
        assert!(matches!(handle.wait(Some(Duration::from_secs(1))).await.unwrap(), Waited::Ended(_)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_without_time_hands_back_too() {
    let yard = Yard::new(JobOptions { drain_ms: 0, ..options() });
    let door = Arc::new(Door::default());
    yard.queues.submit_all((0..2).map(|_| yard.job()).collect()).await.unwrap();
    yard.queues.work(vec![lane("q", 1, 1, door.shut())]).unwrap();
    pass(1).await;
    yard.queues.stop().await;
    let back = yard.list(&[JobStatus::Pending]).await;
    assert_eq!((back.len(), door.dropped()), (2, 1));
    assert!(back.iter().all(|job| job.attempt == 0));
}

#[tokio::test(start_paused = true)]
async fn what_a_stopping_worker_could_not_say_is_said_when_the_store_is_back() {
    let (yard, door) = (Yard::new(options()), Arc::new(Door::default()));
    yard.queues.submit_all((0..2).map(|_| yard.job()).collect()).await.unwrap();
    let worker = yard.queues.work(vec![lane("q", 1, 1, door.shut())]).unwrap();
    pass(1).await;
    yard.port.set_down(true);
    let watch = async {
        pass(300).await;
        yard.port.set_down(false);
        pass(150).await;
        assert_eq!(yard.list(&[JobStatus::Pending]).await.len(), 1);
        door.open.notify_one();
    };
    tokio::join!(worker.stop(), watch);
    assert_eq!(yard.list(&[JobStatus::Completed]).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_crashed_workers_job_is_delivered_again_and_its_late_answer_refused() {
    let (yard, door) = (Yard::new(options()), Arc::new(Door::default()));
    let crashed = yard.elsewhere(options());
    let worker = crashed.work(vec![lane("q", 1, 0, door.shut())]).unwrap();
    let handle = yard.queues.submit(yard.job()).await.unwrap();
    pass(1).await;
    let first = yard.stored(handle.id()).await;
    crashed.kill();
    worker.stop().await;
    let begun = yard.began.elapsed();
    yard.queues.work(vec![lane("q", 1, 0, door.stays(1_000))]).unwrap();
    pass(3_500).await;
    assert_eq!((door.came(), door.dropped()), (2, 1));
    let second = yard.stored(handle.id()).await;
    assert!(second.fence > first.fence && second.deliveries == 2 && second.status == JobStatus::Running);
    let late = yard.settle(&first, Outcome::Completed(json("\"late\""))).await;
    assert!(matches!(late.settled[0], Err(Refusal::Stale { .. })), "{late:?}");
    assert_eq!(handle.await.unwrap(), json("1"));
    assert!((yard.began.elapsed() - begun).as_millis() < 5_000, "it did not wait for a scan");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_kills_its_workers_is_lost() {
    let (yard, door) = (Yard::new(options()), Arc::new(Door::default()));
    let handle = yard.queues.submit(yard.job()).await.unwrap();
    for _ in 0..3 {
        let crashes = yard.elsewhere(options());
        crashes.work(vec![lane("q", 1, 0, door.shut())]).unwrap();
        pass(3_500).await;
        crashes.kill();
    }
    pass(3_500).await;
    yard.queues.tidy(super::yard::now(yard.began)).await.unwrap();
    let Waited::Ended(job) = handle.wait(Some(Duration::from_secs(1))).await.unwrap() else { panic!("it runs") };
    assert_eq!((job.status, job.error.as_ref().unwrap().code.as_str()), (JobStatus::Failed, LOST));
    assert_eq!(door.came(), 3);
}

#[tokio::test(start_paused = true)]
async fn long_work_runs_once() {
    let yard = Yard::new(JobOptions { scan_ms: 500, ..options() });
    let door = Arc::new(Door::default());
    yard.queues.work(vec![lane("q", 1, 0, door.stays(60_000))]).unwrap();
    yard.elsewhere(options()).work(vec![lane("q", 1, 0, door.stays(60_000))]).unwrap();
    let handle = yard.queues.submit(yard.job()).await.unwrap();
    let Waited::Ended(job) = handle.wait(None).await.unwrap() else { panic!() };
    assert_eq!((job.status, job.attempt, door.came(), door.dropped()), (JobStatus::Completed, 1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_busy_worker_is_known_to_be_there() {
    let (yard, door) = (Yard::new(options()), Arc::new(Door::default()));
    yard.queues.work(vec![lane("q", 1, 0, door.shut())]).unwrap();
    yard.queues.submit_all(vec![yard.job(), yard.job()]).await.unwrap();
    pass(20_000).await;
    let queues = yard.store.queues(None, 10).await.unwrap().items;
    assert!(queues[0].worker_until.is_some() && queues[0].waiting == 1, "{queues:?}");
}

#[tokio::test(start_paused = true)]
async fn the_handler_of_a_job_that_went_elsewhere_is_stopped() {
    let (yard, door) = (Yard::new(options()), Arc::new(Door::default()));
    yard.queues.work(vec![lane("q", 1, 0, door.stays(20_000))]).unwrap();
    let handle = yard.queues.submit(yard.job()).await.unwrap();
    pass(1).await;
    yard.port.set_down(true);
    pass(10_000).await;
    let second = yard.claim().await.unwrap();
    assert_eq!(second.id, handle.id());
    yard.port.set_down(false);
    pass(1_500).await;
    assert_eq!((door.came(), door.dropped()), (1, 1));
    yard.settle(&second, Outcome::Completed(json("2"))).await;
    assert_eq!(handle.await.unwrap(), json("2"));
    // Its slot is free again.
    assert_eq!(yard.queues.submit(yard.job()).await.unwrap().await.unwrap(), json("1"));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_job_stops_whether_it_runs_or_waits_at_its_worker() {
    let (yard, door) = (Yard::new(options()), Arc::new(Door::default()));
    for elsewhere in [false, true] {
        let queues = if elsewhere { yard.elsewhere(options()) } else { yard.queues.clone() };
        let worker = queues.work(vec![lane("q", 1, 1, door.stays(600_000))]).unwrap();
        let before = (door.came(), door.dropped());
        let handles = yard.queues.submit_all(vec![yard.job(), yard.job()]).await.unwrap();
        pass(1).await;
        for handle in handles.iter().rev() {
            assert_eq!(handle.cancel(&by("ann")).await.unwrap(), Asked::Requested);
            // Elsewhere, the next heartbeat tells.
            let patience = Duration::from_millis(if elsewhere { 1_500 } else { 10 });
            let Waited::Ended(job) = handle.wait(Some(patience)).await.unwrap() else { panic!("it goes on") };
            assert_eq!((job.status, job.error.as_ref().unwrap().code.as_str()), (JobStatus::Failed, CANCELLED));
        }
        assert_eq!((door.came() - before.0, door.dropped() - before.1), (1, 1), "the one that waited never began");
        worker.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn panics_time_outs_and_results_beyond_the_bound_are_failures() {
    let yard = Yard::new(options());
    let handler = async |told: Told| match told.payload.unwrap().as_str() {
        "\"panic\"" => panic!("it fell over"),
        "\"slow\"" => {
            pass(60_000).await;
            Ok(json("1"))
        }
        "\"fits\"" => Ok(json(&format!("\"{}\"", "x".repeat(PAYLOAD_BYTES_MAX - 2)))),
        _ => Ok(json(&format!("\"{}\"", "x".repeat(PAYLOAD_BYTES_MAX - 1)))),
    };
    yard.queues.work(vec![lane("q", 4, 0, handler)]).unwrap();
    for (what, code) in [("panic", "PANIC"), ("slow", TIMEOUT), ("large", "RESULT")] {
        let payload = Some(json(&format!("\"{what}\"")));
        let job = NewJob { payload, timeout_ms: Some(5_000), ..yard.job() };
        let handle = yard.queues.submit(job).await.unwrap();
        let Waited::Ended(job) = handle.wait(Some(Duration::from_secs(10))).await.unwrap() else { panic!("{what}") };
        assert_eq!((job.status, job.error.as_ref().unwrap().code.as_str()), (JobStatus::Failed, code), "{job:?}");
    }
    let fits = NewJob { payload: Some(json("\"fits\"")), ..yard.job() };
    assert_eq!(yard.queues.submit(fits).await.unwrap().await.unwrap().as_str().len(), PAYLOAD_BYTES_MAX);
}

#[tokio::test(start_paused = true)]
async fn waiting_at_a_worker_does_not_use_up_a_jobs_time() {
    let (yard, door) = (Yard::new(options()), Arc::new(Door::default()));
    yard.queues.work(vec![lane("q", 1, 3, door.stays(4_000))]).unwrap();
    let job = || NewJob { timeout_ms: Some(5_000), ..yard.job() };
    let handles = yard.queues.submit_all((0..4).map(|_| job()).collect()).await.unwrap();
    for handle in handles {
        let Waited::Ended(job) = handle.wait(Some(Duration::from_secs(60))).await.unwrap() else { panic!("it waits") };
        assert_eq!((job.status, job.attempt), (JobStatus::Completed, 1), "{:?}", job.error);
    }
    assert_eq!(door.came(), 4);
}

#[derive(Debug)]
struct Nested(u32);

impl std::fmt::Display for Nested {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "level {}", self.0)
    }
}

impl std::error::Error for Nested {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        static INNER: [Nested; 17] = {
            let mut all = [const { Nested(0) }; 17];
            let mut n = 0;
            while n < 17 {
                all[n] = Nested(n as u32);
                n += 1;
            }
            all
        };
        let inner = self.0.checked_sub(1)?;
        INNER.get(inner as usize).map(|inner| inner as _)
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_keeps_its_causes_down_to_sixteen() {
    for (levels, kept) in [(1, 1), (16, 16), (17, 16)] {
        let yard = Yard::new(options());
        let handler = move |_| async move { Err::<Json, _>(Failed::from(Nested(levels - 1))) };
        yard.queues.work(vec![lane("q", 1, 0, handler)]).unwrap();
        let handle = yard.queues.submit(yard.job()).await.unwrap();
        let Waited::Ended(job) = handle.wait(None).await.unwrap() else { panic!() };
        let chain: Vec<_> = std::iter::successors(job.error.as_deref(), |error| error.previous.as_deref()).collect();
        assert_eq!(chain.len(), kept);
        assert_eq!(chain[0].message, format!("level {}", levels - 1));
        assert_eq!(chain[kept - 1].message, format!("level {}", levels as usize - kept));
    }
}

#[tokio::test(start_paused = true)]
async fn a_hopeless_failure_is_not_tried_again() {
    let yard = Yard::new(options());
    fails(&yard, JobError::of("E", "never"), false);
    let handle = yard.queues.submit(NewJob { max_attempts: 5, ..yard.job() }).await.unwrap();
    let Waited::Ended(job) = handle.wait(Some(Duration::from_secs(1))).await.unwrap() else { panic!("it waits") };
    assert_eq!((job.status, job.attempt), (JobStatus::Failed, 1));
}

#[tokio::test(start_paused = true)]
async fn what_ended_while_the_store_was_away_is_settled_later_and_once() {
    let (yard, door) = (Yard::new(options()), Arc::new(Door::default()));
    yard.queues.work(vec![lane("q", 1, 0, door.stays(500))]).unwrap();
    let handle = yard.queues.submit(yard.job()).await.unwrap();
    pass(1).await;
    yard.port.set_down(true);
    pass(2_000).await;
    assert_eq!(yard.stored(handle.id()).await.status, JobStatus::Running);
    yard.port.set_down(false);
    assert_eq!(handle.await.unwrap(), json("1"));
    assert_eq!(door.came(), 1);

    // Written, and the answer lost, three times: the same is said again and changes nothing.
    yard.port.lose(3);
    let handle = yard.queues.submit(NewJob { max_attempts: 3, ..yard.job() }).await.unwrap();
    let Waited::Ended(job) = handle.wait(None).await.unwrap() else { panic!() };
    pass(5_000).await;
    assert_eq!(yard.stored(handle.id()).await, *job);
    assert_eq!((job.attempt, door.came()), (1, 2));
}
