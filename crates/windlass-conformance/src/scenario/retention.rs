//! Retention: what ended long ago is forgotten, with everything of it; nothing live is.

use windlass_core::event::Fact;
use windlass_core::port::Refusal;
use windlass_core::port::state::{Key, Step, TenantRow};
use windlass_core::task::Cause;
use windlass_core::task::status::TaskStatus;

use crate::Harness;
use crate::world::step::{self, Draft};
use crate::world::{BORN, LATER_MS, LEASE_MS, Rival, id};

/// Purges until nothing more goes; answers how many went.
async fn purge_all(rival: &Rival, before: windlass_core::time::Ms, limit: u32) -> u32 {
    let mut gone = 0;
    loop {
        let now = rival.ports.state.purge(before, limit).await.expect("purge");
        assert!(now <= limit, "{now} went, at most {limit} may");
        gone += now;
        if now == 0 {
            return gone;
        }
    }
}

/// A plan and all its rows go; its neighbours stay.
pub async fn an_ended_plan_goes_with_everything_of_it(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let (old, kept) = (Draft::new("old", &["acme", "bolt"]), Draft::new("old-0", &["corp"]));
    one.run(&old).await;
    one.run(&kept).await;
    let attempt = one.begin(&old.task(0)).await;
    one.stage(&attempt).await;
    one.fail(&attempt).await;
    let neighbour = one.task(&kept.task(0)).await;
    let before = BORN.plus(1_000);
    one.end(&old.id(), before.minus(1)).await;
    assert_eq!(one.ports.state.purge(before.minus(1), 100).await, Ok(0), "it ended at that moment, not before");
    assert_eq!(purge_all(&one, before, 100).await, 2, "two tasks");
    let mut keys = vec![Key::Plan(old.id()), Key::PlanSpec(old.id()), Key::Tally(old.id()), Key::PlanHistory(old.id())];
    for task in [old.task(0), old.task(1)] {
        let of = |key: fn(_) -> Key| key(task.clone());
        keys.extend([of(Key::Task), of(Key::TaskSpec), of(Key::TaskHistory), of(Key::Checkpoint)]);
    }
    let rows = one.ports.state.load(&keys).await.expect("load");
    assert_eq!(rows, vec![None; keys.len()]);
    assert_eq!(one.list(&crate::world::read::all_tasks()).await.len(), 1);
    assert_eq!(one.task(&kept.task(0)).await, neighbour, "a plan whose id is that of a forgotten task stays");
    let acme = one.tenant(&id("acme")).await;
    assert_eq!(acme, TenantRow { fence: attempt.fence, latest: None, started: None }, "only the fence stays");
    assert!(one.load(Key::Op(id("create-old"))).await.is_some(), "operations have their own age");
    // The id is free again, and begins anew.
    let mut again = old.step();
    again.op.id = id("again");
    one.done(&again).await;
    assert_eq!(one.plan(&old.id()).await.seq, 1);
    assert_eq!(one.task(&old.task(0)).await.checkpoint, 0);
    assert_eq!(one.history(Key::TaskHistory(old.task(0))).await.len(), 1, "nothing of the old one shows");
}

/// Whatever `before` says, what has not ended stays.
pub async fn nothing_live_is_forgotten(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let far = BORN.plus(1_000_000);
    let plans = ["ready", "running", "paused"].map(|plan| Draft::new(plan, &["acme", "bolt"]));
    for draft in &plans {
        one.create(draft).await;
    }
    one.start(&plans[1].id()).await;
    one.start(&plans[2].id()).await;
    let row = one.plan(&plans[2].id()).await;
    one.done(&step::plan("pause", &row, Fact::PlanPaused)).await;
    let attempt = one.begin(&plans[1].task(0)).await;
    let row = one.task(&plans[1].task(1)).await;
    one.done(&step::person("cancel", &row, vec![Fact::TaskCancelled { cause: Cause::Person }])).await;
    let before = one.everything().await;
    assert_eq!(one.ports.state.purge(far, 100).await, Ok(0));
    assert_eq!(one.everything().await, before, "an ended task of a plan that has not ended stays too");
    one.stage(&attempt).await;
}

/// A retry makes a plan live again, and nothing of it goes.
pub async fn a_retry_lifts_expiry(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let draft = Draft::new("p", &["acme", "bolt"]);
    one.run(&draft).await;
    let attempt = one.begin(&draft.task(0)).await;
    one.fail(&attempt).await;
    one.end(&draft.id(), BORN).await;
    let row = one.plan(&draft.id()).await;
    assert!(row.plan.ended_at.is_some());
    let mut retry = step::asks("retry", &attempt.task, &[TaskStatus::Failed], step::retry());
    let reopen = step::plan("retry", &row, Fact::PlanResumed { conductor: one.me.clone() });
    (retry.plan, retry.events) = (reopen.plan, reopen.events);
    one.done(&retry).await;
    let before = one.everything().await;
    assert_eq!(one.ports.state.purge(BORN.plus(1_000), 100).await, Ok(0));
    assert_eq!(one.everything().await, before);
    one.begin(&attempt.task).await;
}

/// A plan with many tasks goes in many calls; in between nothing of it can be taken up again.
pub async fn a_large_plan_goes_in_bounded_calls(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let (big, small) = (Draft::wide("big", 25), Draft::wide("small", 3));
    one.run(&big).await;
    one.run(&small).await;
    let attempt = one.begin(&big.task(24)).await;
    one.fail(&attempt).await;
    one.end(&big.id(), BORN).await;
    one.end(&small.id(), BORN).await;
    let before = BORN.plus(1);
    assert_eq!(one.ports.state.purge(before, 0).await, Ok(0));
    let rows: Vec<_> = one.list(&crate::world::read::all_tasks()).await;
    let gone = one.ports.state.purge(before, 4).await.expect("purge");
    assert!((1..=4).contains(&gone), "{gone} went, at most 4 may and some must");
    let plans = [one.load(Key::Plan(big.id())).await, one.load(Key::Plan(small.id())).await];
    assert!(plans.iter().any(Option::is_none), "a plan goes first, its tasks follow");
    for row in rows {
        let windlass_core::port::state::Row::Task(row) = row else { panic!("a task was asked for") };
        let plan_gone = one.load(Key::Plan(row.task.plan.clone())).await.is_none();
        if plan_gone && one.load(Key::Task(row.task.id.clone())).await.is_some() {
            let from = [row.task.status];
            let ask = step::asks(&format!("retry-{}", row.task.id), &row.task.id, &from, step::retry());
            let why = one.commit(&ask).await;
            assert!(matches!(why, Err(Refusal::NotFound(_))), "nothing of a forgotten plan begins: {why:?}");
            let put: Step = step::person(&format!("put-{}", row.task.id), &row, Vec::new());
            let why = one.commit(&put).await;
            assert!(matches!(why, Err(Refusal::NotFound(_))), "nor is it written: {why:?}");
        }
    }
    assert_eq!(gone + purge_all(&one, before, 4).await, 28);
    assert_eq!(one.list(&crate::world::read::all_tasks()).await, []);
}

/// A person's operation is answered for as long as it is kept, and may be used anew afterwards.
pub async fn old_operations_are_forgotten(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let later = Rival::open(h, "later", LATER_MS).await;
    let (first, second) = (Draft::new("first", &["acme"]), Draft::new("second", &["bolt"]));
    let old = one.done(&first.step()).await.at;
    let new = later.done(&second.step()).await.at;
    assert!(new > old, "an operation's time is the store's");
    one.beat(10 * LATER_MS).await;
    assert_eq!(later.ports.state.purge(old, 100).await, Ok(0));
    assert_eq!(later.ports.state.purge(old.plus(1), 100).await, Ok(1));
    assert_eq!(later.load(Key::Op(id("create-first"))).await, None);
    assert!(later.load(Key::Op(id("create-second"))).await.is_some());
    let why = later.commit(&first.step()).await;
    assert!(matches!(why, Err(Refusal::Exists(_))), "no repeat any more: {why:?}");
    assert_eq!(later.commit(&second.step()).await.map(|stepped| stepped.at), Ok(new));
}

/// An instance that has been gone for long is forgotten; one that beats is not.
pub async fn old_instances_are_forgotten(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let two = Rival::up(h, "two", 0).await;
    one.beat(10 * LATER_MS).await;
    let until = two.beat(LEASE_MS).await.until;
    let later = Rival::open(h, "later", LATER_MS).await;
    assert_eq!(later.ports.state.purge(until, 100).await, Ok(0));
    assert_eq!(later.ports.state.purge(until.plus(1), 100).await, Ok(1));
    assert_eq!(later.load(Key::Instance(two.me.clone())).await, None);
    assert!(later.load(Key::Instance(one.me.clone())).await.is_some());
    assert_eq!(two.ready(None, 1).await, [Err(Refusal::NoLease(two.me.clone()))]);
}
