//! How much a worker claims ahead, and who is told without the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use windlass_core::job::{JobStatus, NewJob};
use windlass_engine::job::worker::Told;
use windlass_engine::job::{JobOptions, Waited};

use super::working::Door;
use super::yard::{Yard, lane, options, pass, queue};

/// Quick handlers over a slow way: each turn brings as much as they get through meanwhile, and while the store is at one, they
/// get through what it brought before, and that goes too.
#[tokio::test(start_paused = true)]
async fn neither_handlers_nor_the_store_wait_for_the_other() {
    let (yard, door) = (Yard::new(options()), Arc::new(Door::default()));
    let handles = yard.queues.submit_all((0..2_000).map(|_| yard.job()).collect()).await.unwrap();
    yard.port.turns_take(10);
    yard.queues.work(vec![lane("q", 2, 200, door.stays(0))]).unwrap();
    for handle in handles {
        handle.await.unwrap();
    }
    assert_eq!(door.came(), 2_000);
    let turns = yard.port.turns();
    assert!(turns < 60, "{turns} turns: two jobs a turn would be a thousand, a hundred of them twenty");
    let ways = yard.port.ways();
    assert_eq!((ways.most, ways.asked), (2, 101), "each has half of what fits");
}

/// A store that is quicker with a few at a time is asked for a few at a time, in each queue, and for all of them in the end.
#[tokio::test(start_paused = true)]
async fn a_store_is_asked_for_as_many_as_it_likes() {
    let (yard, door) = (Yard::new(options()), Arc::new(Door::default()));
    let mut jobs: Vec<NewJob> = (0..200).map(|_| yard.job()).collect();
    jobs.extend((0..200).map(|_| NewJob { queue: queue("other"), ..yard.job() }));
    let handles = yard.queues.submit_all(jobs).await.unwrap();
    yard.port.set_claims_best(7);
    yard.queues.work(vec![lane("q", 100, 100, door.stays(0)), lane("other", 100, 100, door.stays(0))]).unwrap();
    for handle in handles {
        handle.await.unwrap();
    }
    assert_eq!((door.came(), yard.port.ways().asked), (400, 7));
}

/// A heartbeat speaks of jobs that another turn may end.
#[tokio::test(start_paused = true)]
async fn heartbeats_go_alone() {
    let (yard, door) = (Yard::new(JobOptions { lease_ms: 150, ..options() }), Arc::new(Door::default()));
    let handles = yard.queues.submit_all((0..3_000).map(|_| yard.job()).collect()).await.unwrap();
    yard.port.turns_take(10);
    let long = yard.queues.submit(NewJob { queue: queue("long"), ..yard.job() }).await.unwrap();
    let lanes = vec![lane("q", 2, 200, door.stays(0)), lane("long", 1, 0, door.shut())];
    yard.queues.work(lanes).unwrap();
    for handle in handles {
        handle.await.unwrap();
    }
    door.open.notify_one();
    long.await.unwrap();
    let ways = yard.port.ways();
    assert!(ways.most == 2 && ways.beats > 3, "{ways:?}");
    assert_eq!(ways.beats_met, 0, "{ways:?}");
}

/// A turn has found nothing, and before its answer is here something is submitted.
#[tokio::test(start_paused = true)]
async fn what_is_heard_while_a_turn_is_on_its_way_is_looked_for() {
    let (yard, door) = (Yard::new(options()), Arc::new(Door::default()));
    yard.queues.submit(yard.job()).await.unwrap();
    yard.queues.work(vec![lane("q", 2, 0, door.shut())]).unwrap();
    pass(100).await;
    yard.port.answers_take(100);
    let elsewhere = yard.elsewhere(options());
    elsewhere.submit(NewJob { queue: queue("another"), ..yard.job() }).await.unwrap();
    pass(50).await;
    elsewhere.submit(yard.job()).await.unwrap();
    pass(200).await;
    assert_eq!(door.came(), 2);
}

/// What it claims, nobody here will begin.
#[tokio::test(start_paused = true)]
async fn what_a_turn_on_its_way_brings_to_a_worker_that_stops_goes_back() {
    let (yard, door) = (Yard::new(JobOptions { drain_ms: 200, ..options() }), Arc::new(Door::default()));
    yard.queues.submit(yard.job()).await.unwrap();
    let worker = yard.queues.work(vec![lane("q", 2, 0, door.shut())]).unwrap();
    pass(100).await;
    yard.port.answers_take(100);
    yard.elsewhere(options()).submit(yard.job()).await.unwrap();
    pass(50).await;
    assert_eq!(yard.list(&[JobStatus::Running]).await.len(), 2);
    worker.stop().await;
    assert_eq!((yard.list(&[JobStatus::Pending]).await.len(), door.came()), (2, 1));
}

/// Long work is left to whoever is free: it does not wait where others run.
#[tokio::test(start_paused = true)]
async fn of_long_work_none_is_claimed_ahead() {
    let (yard, door) = (Yard::new(options()), Arc::new(Door::default()));
    yard.queues.submit_all((0..40).map(|_| yard.job()).collect()).await.unwrap();
    yard.queues.work(vec![lane("q", 4, 200, door.shut())]).unwrap();
    for _ in 0..20 {
        pass(100).await;
        door.open.notify_one();
    }
    pass(100).await;
    assert_eq!(yard.list(&[JobStatus::Running]).await.len(), 4);
}

/// Handlers become slow all at once, with much claimed ahead: what has not begun by the next heartbeat goes back.
#[tokio::test(start_paused = true)]
async fn what_waits_too_long_at_a_worker_goes_back() {
    let (yard, door) = (Yard::new(options()), Arc::new(Door::default()));
    let slow = Arc::new(AtomicBool::new(false));
    let (handler, quick) = ((door.shut(), door.stays(0)), Arc::clone(&slow));
    let handler = move |told: Told| match quick.load(Ordering::SeqCst) {
        true => handler.0(told),
        false => handler.1(told),
    };
    yard.port.turns_take(5);
    yard.queues.submit_all((0..3_000).map(|_| yard.job()).collect()).await.unwrap();
    yard.queues.work(vec![lane("q", 2, 200, handler)]).unwrap();
    while door.came() < 500 {
        pass(1).await;
    }
    slow.store(true, Ordering::SeqCst);
    pass(20).await;
    let held = yard.list(&[JobStatus::Running]).await.len();
    assert!(held > 50, "{held} are claimed ahead");
    pass(options().lease_ms).await;
    assert_eq!(yard.list(&[JobStatus::Running]).await.len(), 4, "two run, two are next");
}

/// What a worker of the same process completes is not read again for who waits.
#[tokio::test(start_paused = true)]
async fn who_waits_beside_the_worker_is_told_without_a_look() {
    let (yard, door) = (Yard::new(options()), Arc::new(Door::default()));
    yard.queues.work(vec![lane("q", 2, 0, door.stays(5))]).unwrap();
    pass(1).await;
    for _ in 0..5 {
        let handle = yard.queues.submit(yard.job()).await.unwrap();
        let Waited::Ended(told) = handle.wait(None).await.unwrap() else { panic!("it ends") };
        assert_eq!(*told, yard.stored(handle.id()).await);
    }
    assert_eq!(yard.port.loads(), 0);
}

/// Where a store takes calls in order, workers do not wait for its answer to a submission; if it did not for once, they
/// hear of it all the same.
#[tokio::test(start_paused = true)]
async fn what_is_on_its_way_to_a_store_that_keeps_the_order_is_asked_for() {
    for in_order in [false, true] {
        let (yard, door) = (Yard::new(options()), Arc::new(Door::default()));
        yard.queues.work(vec![lane("q", 2, 0, door.stays(5))]).unwrap();
        pass(100).await;
        yard.port.set_in_order(in_order);
        yard.port.submits_take(500);
        let before = yard.port.turns();
        let submit = yard.queues.submit(yard.job());
        let meanwhile = async {
            pass(100).await;
            yard.port.turns() - before
        };
        let (handle, asked) = tokio::join!(submit, meanwhile);
        assert_eq!(asked, u32::from(in_order));
        let waited = handle.unwrap().wait(Some(Duration::from_millis(500))).await.unwrap();
        assert!(matches!(&waited, Waited::Ended(_)), "{waited:?}");
    }
}
