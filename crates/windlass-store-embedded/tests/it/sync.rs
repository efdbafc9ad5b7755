//! An answer means: it is on disk. Shown through a [`Probe`] under the store, in memory and on fjall.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use windlass_core::fence::Fence;
use windlass_core::id::InstanceId;
use windlass_core::lock::{Acquire, Held};
use windlass_core::port::PortError;
use windlass_core::port::lock::{Force, Locks};
use windlass_core::port::state::{Key, Row, State, Take, Which};
use windlass_core::time::Ms;
use windlass_store_embedded::kv::Kv;
use windlass_store_embedded::kv::disk::Disk;
use windlass_store_embedded::kv::memory::Memory;
use windlass_store_embedded::{Clock, Embedded, Options};

use crate::probe::{Fail, Probe, WHY, dump};
use crate::work::{self, id};

type Make = fn(Embedded) -> Call;
type Call = Pin<Box<dyn Future<Output = Result<(), PortError>> + Send>>;

const NOW_MS: u64 = 1_800_000_000_000;

fn clock() -> Clock {
    Clock::new(|| NOW_MS * 1000)
}

fn store(kv: &Arc<Probe>) -> Embedded {
    Embedded::over(Arc::<Probe>::clone(kv), clock()).unwrap()
}

/// Both engines, each in a fresh place.
fn engines() -> Vec<(&'static str, Arc<dyn Kv>, Option<tempfile::TempDir>)> {
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::open(folder.path(), &Options::default()).unwrap();
    vec![("memory", Arc::new(Memory::default()), None), ("disk", Arc::new(disk), Some(folder))]
}

/// One look at the call; without a budget, so that many looks in a row all reach the store.
fn poll(call: &mut Call) -> Poll<Result<(), PortError>> {
    std::pin::pin!(tokio::task::unconstrained(call)).poll(&mut Context::from_waker(Waker::noop()))
}

fn beat(store: &Embedded, instance: &str) -> Call {
    let (store, instance) = (store.clone(), id::<InstanceId>(instance));
    Box::pin(async move { store.beat(&instance, 60_000).await.map(drop) })
}

async fn instance(store: &Embedded, name: &str) -> Result<bool, PortError> {
    Ok(State::load(store, &[Key::Instance(id(name))]).await?[0].is_some())
}

#[tokio::test]
async fn nothing_is_answered_or_read_before_its_commit_has_returned() {
    for (engine, inner, _folder) in engines() {
        let kv = Probe::over(inner);
        let store = store(&kv);
        let gate = kv.hold();
        let mut call = beat(&store, "i-1");
        assert!(poll(&mut call).is_pending(), "{engine}");
        kv.wait_for_commits(1);
        assert!(poll(&mut call).is_pending(), "{engine}: answered while the commit was held back");
        assert_eq!(instance(&store, "i-1").await, Ok(false), "{engine}: read while the commit was held back");
        assert_eq!(kv.returned(), 0);
        gate.let_go();
        assert_eq!(call.await, Ok(()), "{engine}");
        assert_eq!(kv.returned(), 1, "{engine}: answered without a commit");
        assert_eq!(instance(&store, "i-1").await, Ok(true), "{engine}");
    }
}

#[tokio::test]
async fn writes_that_come_while_a_commit_is_held_back_are_one_batch() {
    for (engine, inner, _folder) in engines() {
        let kv = Probe::over(inner);
        let store = store(&kv);
        let gate = kv.hold();
        let mut first = beat(&store, "first");
        assert!(poll(&mut first).is_pending());
        kv.wait_for_commits(1);
        let mut rest: Vec<Call> = (0..64).map(|n| beat(&store, &format!("i-{n}"))).collect();
        for call in &mut rest {
            assert!(poll(call).is_pending(), "{engine}");
        }
        gate.let_go();
        assert_eq!(first.await, Ok(()));
        for call in rest {
            assert_eq!(call.await, Ok(()), "{engine}");
        }
        let instances = |batch: &windlass_store_embedded::kv::Batch| batch.keys().filter(|key| key[0] == b'j').count();
        let sizes: Vec<usize> = kv.commits().iter().map(instances).collect();
        assert_eq!(sizes, [1, 64], "{engine}: instances written in each batch");
        assert_eq!(kv.marks(), [1, 2], "{engine}: every batch is marked after it");
    }
}

/// A commit that fails stops the store: whatever failed, and whether or not the batch was written.
async fn stops(engine: &str, inner: Arc<dyn Kv>, fail: Fail) {
    let told = format!("{engine}, {fail:?}");
    let kv = Probe::over(Arc::clone(&inner));
    let store = store(&kv);
    let gate = kv.hold();
    let mut before = beat(&store, "before");
    assert!(poll(&mut before).is_pending());
    kv.wait_for_commits(1);
    let mut batch: Vec<Call> = (0..8).map(|n| beat(&store, &format!("i-{n}"))).collect();
    for call in &mut batch {
        assert!(poll(call).is_pending());
    }
    let mark = Locks::changed(&store, Default::default(), 0).await.unwrap();
    gate.let_go();
    assert_eq!(before.await, Ok(()), "{told}");
    // The batch of eight was committed, and marked, or is about to be; what follows is not.
    for call in batch {
        assert_eq!(call.await, Ok(()), "{told}");
    }
    let gate = kv.hold();
    let mut failing: Vec<Call> = vec![beat(&store, "f-0")];
    assert!(poll(&mut failing[0]).is_pending());
    kv.wait_for_commits(3);
    kv.fail(fail);
    // These wait behind the one that fails and are never begun.
    failing.extend((1..8).map(|n| beat(&store, &format!("f-{n}"))));
    for call in &mut failing {
        assert!(poll(call).is_pending(), "{told}");
    }
    gate.let_go();
    for call in failing {
        assert!(matches!(call.await, Err(PortError::Unavailable(why)) if why.contains(WHY)), "{told}");
        assert!(store.stopped().is_some_and(|why| why.contains(WHY)), "{told}: told of a failure before the stop");
    }
    let stored = dump(&*inner);
    let unavailable = Err(PortError::Unavailable(store.stopped().unwrap()));
    assert_eq!(beat(&store, "later").await, unavailable, "{told}");
    assert_eq!(instance(&store, "before").await.map(drop), unavailable, "{told}: reads");
    assert_eq!(
        State::list(&store, &windlass_core::port::state::Filter::Instances, None, 9).await.map(drop),
        unavailable
    );
    assert_eq!(Locks::load(&store, &[id("acme")]).await.map(drop), unavailable, "{told}: locks");
    assert_eq!(Locks::changed(&store, mark, 60_000).await.map(drop), unavailable, "{told}: whoever waits is told");
    store.close();
    assert_eq!(kv.commits().len(), 3, "{told}: nothing more reaches the engine");
    assert_eq!(dump(&*inner), stored, "{told}");
    let again = Embedded::over(inner, clock()).unwrap();
    assert_eq!(instance(&again, "before").await, Ok(true), "{told}");
    assert_eq!(instance(&again, "f-0").await, Ok([Fail::AfterCommit, Fail::Mark].contains(&fail)), "{told}");
    assert_eq!(instance(&again, "f-1").await, Ok(false), "{told}");
    assert_eq!(beat(&again, "later").await, Ok(()), "{told}: a restart goes on");
}

#[tokio::test]
async fn a_commit_that_fails_stops_the_store_and_tells_every_caller() {
    for fail in [Fail::Commit, Fail::AfterCommit, Fail::Panic] {
        for (engine, inner, _folder) in engines() {
            stops(engine, inner, fail).await;
        }
    }
}

#[tokio::test]
async fn a_mark_that_fails_stops_the_store_and_tells_every_caller() {
    for (engine, inner, _folder) in engines() {
        stops(engine, inner, Fail::Mark).await;
    }
}

#[tokio::test]
async fn every_caller_of_a_batch_that_fails_is_told() {
    for (engine, inner, _folder) in engines() {
        let kv = Probe::over(inner);
        let store = store(&kv);
        let gate = kv.hold();
        let mut first = beat(&store, "first");
        assert!(poll(&mut first).is_pending());
        kv.wait_for_commits(1);
        let mut rest: Vec<Call> = (0..64).map(|n| beat(&store, &format!("i-{n}"))).collect();
        for call in &mut rest {
            assert!(poll(call).is_pending());
        }
        kv.fail_after_this();
        gate.let_go();
        assert_eq!(first.await, Ok(()), "{engine}: its commit was good");
        for call in rest {
            let told = call.await;
            assert_eq!(told, Err(PortError::Unavailable(format!("a write failed: {WHY}"))), "{engine}");
        }
    }
}

/// Every call that writes, after the calls that make it possible.
fn calls() -> Vec<(&'static str, Make)> {
    vec![
        ("commit", |store| {
            let (plan, tasks) = fixture("p-2");
            Box::pin(async move { store.commit(&[work::create("op-2", &plan, &tasks)]).await.map(each) })
        }),
        ("take", |store| {
            let take = Take { instance: id("i-1"), which: Which::Named(vec![id("p-1-0")]) };
            Box::pin(async move { store.take(&take).await.map(each) })
        }),
        ("beat", |store| beat(&store, "i-2")),
        ("acquire", |store| {
            let want = acquire("globex");
            Box::pin(async move { store.acquire(&[want]).await.map(each) })
        }),
        ("renew", |store| Box::pin(async move { store.renew(&[held()], 99_000).await.map(each) })),
        ("release", |store| Box::pin(async move { store.release(&[held()]).await.map(each) })),
        ("force", |store| {
            Box::pin(async move { store.force(&id("acme"), Force::Freeze, &id("ada"), None, None).await.map(drop) })
        }),
        ("purge of state", |store| Box::pin(async move { State::purge(&store, Ms::MAX, 9).await.map(some) })),
        ("purge of locks", |store| {
            Box::pin(async move { Locks::purge(&store.ahead(120_000), Ms::MAX, 9).await.map(some) })
        }),
    ]
}

fn each<T: std::fmt::Debug>(answers: Vec<Result<T, windlass_core::port::Refusal>>) {
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
}

fn some(gone: u32) {
    assert!(gone > 0, "nothing was purged");
}

fn fixture(plan: &str) -> (windlass_core::plan::Plan, Vec<windlass_core::task::Task>) {
    let made = work::plan(plan, 1, Ms::new(NOW_MS));
    let task = work::task(&made, &format!("{plan}-0"), &id("acme"), 0);
    (made, vec![task])
}

fn acquire(tenant: &str) -> Acquire {
    Acquire { tenant: id(tenant), plan: id("p-1"), task: id("p-1-0"), ttl_ms: 60_000 }
}

/// The first fence of a store whose clock stands still.
fn held() -> Held {
    Held { tenant: id("acme"), task: id("p-1-0"), fence: Fence(NOW_MS * 1000) }
}

#[tokio::test]
async fn every_call_that_writes_answers_only_after_its_commit() {
    for (name, call) in calls() {
        for (engine, inner, _folder) in engines() {
            let told = format!("{name} on {engine}");
            let kv = Probe::over(inner);
            let store = store(&kv);
            let (plan, tasks) = fixture("p-1");
            store.commit(&[work::create("op-1", &plan, &tasks)]).await.map(each).unwrap();
            store.beat(&id("i-1"), 60_000).await.unwrap();
            store.acquire(&[acquire("acme")]).await.map(each).unwrap();
            let (stored, done) = (dump(&*kv), kv.returned());
            let gate = kv.hold();
            let mut call = call(store.clone());
            assert!(poll(&mut call).is_pending(), "{told}");
            kv.wait_for_commits(done + 1);
            assert!(poll(&mut call).is_pending(), "{told}: answered while the commit was held back");
            assert_eq!(dump(&*kv), stored, "{told}: written before the commit");
            gate.let_go();
            assert_eq!(call.await, Ok(()), "{told}");
            assert_eq!(kv.returned(), done + 1, "{told}: one commit");
            assert_ne!(dump(&*kv), stored, "{told}: nothing was written");
        }
    }
}

#[tokio::test]
async fn what_a_caller_handed_over_is_done_although_it_went_away() {
    let kv = Probe::over(Arc::new(Memory::default()));
    let store = store(&kv);
    let gate = kv.hold();
    let mut call = beat(&store, "gone");
    assert!(poll(&mut call).is_pending());
    drop(call);
    gate.let_go();
    assert_eq!(beat(&store, "here").await, Ok(()));
    assert_eq!(instance(&store, "gone").await, Ok(true));
}

#[tokio::test]
async fn a_step_is_one_batch_with_its_checkpoint_its_history_and_its_indexes() {
    let kv = Probe::over(Arc::new(Memory::default()));
    let store = store(&kv);
    let (plan, tasks) = fixture("p-1");
    store.commit(&[work::create("op-1", &plan, &tasks)]).await.map(each).unwrap();
    store.beat(&id("i-1"), 60_000).await.unwrap();
    let take = Take { instance: id("i-1"), which: Which::Named(vec![id("p-1-0")]) };
    let mut task = store.take(&take).await.unwrap().remove(0).unwrap().task;
    let fence = store.acquire(&[acquire("acme")]).await.unwrap().remove(0).unwrap().fence;
    let at = Ms::new(NOW_MS);
    store.commit(&[work::begin("op-2", &mut task, &id("i-1"), fence, at)]).await.map(each).unwrap();
    let before = kv.commits().len();
    let mut checkpoint = windlass_core::checkpoint::Checkpoint::new(1, at);
    let step = work::boundary("op-3", &mut task, &id("i-1"), &mut checkpoint, at);
    store.commit(&[step]).await.map(each).unwrap();
    let batches = kv.commits().split_off(before);
    assert_eq!(batches.len(), 1, "one batch");
    let tables: Vec<char> = batches[0].keys().map(|key| char::from(key[0])).collect();
    assert_eq!(tables, ['$', '$', 'h', 't'], "two links, history, task with its checkpoint");
    let loaded = State::load(&store, &[Key::Checkpoint(task.id.clone())]).await.unwrap().remove(0);
    assert_eq!(loaded, Some(Row::Checkpoint(checkpoint)));
}
