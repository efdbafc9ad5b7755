//! Odd values: what a store must give back exactly as it got it, and bounds it must keep.

use windlass_core::event::{Event, Fact};
use windlass_core::fence::Fence;
use windlass_core::id::{PlanId, TaskId};
use windlass_core::json::Json;
use windlass_core::lock::{Acquire, Held};
use windlass_core::plan::spec::TaskSpec;
use windlass_core::port::lock::Force;
use windlass_core::port::state::{Key, Op, Row, Step, Take, Which, Writer};
use windlass_core::port::{BATCH_MAX, PortError, Refusal};
use windlass_core::task::status::TaskStatus;
use windlass_core::task::{Cause, Hold, Request};
use windlass_core::time::Ms;

use crate::Harness;
use crate::world::step::{self, Draft};
use crate::world::{Attempt, LEASE_MS, Rival, id};

/// Letters of every script, quotes, backslashes, characters beyond the basic plane, look-alikes.
const TEXT: &str = "Zoë 張偉 🪝 \u{202e}left\u{202c} e\u{301} é ﬁ 'q' \"q\" \\ % _ ; -- $1 {{x}} \u{10FFFF}";

/// Text of people and of stages.
pub async fn unicode_comes_back_as_it_was_given(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let draft = Draft::new("p", &["acme"]);
    let config = Json::of(&[TEXT, "", "\0\u{1}\n\t"]).expect("JSON");
    let previous = Json::parse(r#"{"é":"\u00e9","b":1,"a":2,"a":3}"#).expect("JSON");
    let spec = TaskSpec { config: Some(config), previous: Some(previous), ..TaskSpec::default() };
    let mut create = draft.clone().with(spec.clone()).step();
    create.by = Writer::Person(id(TEXT));
    create.answer = Some(Json::of(TEXT).expect("JSON"));
    for event in &mut create.events {
        (event.by, event.reason) = (Some(id(TEXT)), Some(id(TEXT)));
    }
    one.done(&create).await;
    one.start(&draft.id()).await;
    assert_eq!(one.load(Key::TaskSpec(draft.task(0))).await, Some(Row::TaskSpec(spec)));
    let history = one.history(Key::TaskHistory(draft.task(0))).await;
    assert_eq!(history, [Event { seq: 1, ..create.events[1].clone() }]);
    let attempt = one.begin(&draft.task(0)).await;
    let hold = Hold { cause: Cause::Person, by: Some(id(TEXT)), reason: Some(id(TEXT)) };
    let ask = step::asks("ask", &attempt.task, &[TaskStatus::Running], Request::Pause(hold.clone()));
    assert_eq!(one.done(&ask).await.control.pause, Some(hold));
    let row = one.task(&attempt.task).await;
    let failure = step::failure(&format!("{TEXT}\n\u{0}\u{7}"));
    let fails = vec![Fact::TaskFailed { failure: failure.clone() }];
    one.done(&step::owner("fails", &row, &attempt, fails)).await;
    assert_eq!(one.task(&attempt.task).await.task.failure, Some(failure));
    let (by, reason) = (id(TEXT), id(TEXT));
    one.ports.locks.force(&id("acme"), Force::Freeze, &by, Some(&reason), None).await.expect("force").expect("done");
    let freeze = one.lock(&id("acme")).await.freeze.expect("frozen");
    assert_eq!((freeze.by, freeze.reason), (by, Some(reason)));
    assert!(matches!(one.load(Key::Op(id("create-p"))).await, Some(Row::Op(op)) if op.answer == create.answer));
}

/// `p` and `P` are two, everywhere.
pub async fn ids_that_differ_in_case_only_are_different(h: &dyn Harness) {
    let one = Rival::up(h, "Instance", 0).await;
    let (lower, upper) = (Draft::new("plan", &["acme", "Acme"]), Draft::new("Plan", &["ACME"]));
    one.create(&lower).await;
    one.create(&upper).await;
    assert_eq!((one.plan(&lower.id()).await.plan.tasks, one.plan(&upper.id()).await.plan.tasks), (2, 1));
    assert_eq!(one.task(&lower.task(0)).await.task.tenant, id("acme"));
    assert_eq!(one.task(&upper.task(0)).await.task.tenant, id("ACME"));
    assert_eq!(one.tenant(&id("Acme")).await.latest, Some(lower.task(1)));
    let first = one.acquire("acme", "t", LEASE_MS).await.expect("free");
    one.acquire("ACME", "T", LEASE_MS).await.expect("another tenant");
    let held = one.acquire("acme", "T", LEASE_MS).await;
    assert_eq!(held, Err(Refusal::Held(first.clone())), "another task");
    let wrong = Held { tenant: id("acme"), task: id("T"), fence: first.fence };
    assert_eq!(one.release(&wrong).await, Err(Refusal::NotHeld { fence: first.fence }));
    let other = Rival::up(h, "instance", 0).await;
    one.take(&lower.task(0)).await.expect("free");
    assert!(matches!(other.take(&lower.task(0)).await, Err(Refusal::Owned { .. })));
    assert_eq!(one.load(Key::Op(id("CREATE-plan"))).await, None);
    let filter = |tenant: &str| windlass_core::port::state::Filter::Tasks {
        plan: None,
        tenant: Some(id(tenant)),
        statuses: Default::default(),
        interrupted: false,
    };
    for tenant in ["acme", "Acme", "ACME"] {
        assert_eq!(one.list(&filter(tenant)).await.len(), 1, "{tenant}");
    }
    assert_eq!(one.list(&filter("AcMe")).await.len(), 0);
}

/// The longest ids, and ids that are prefixes of each other.
pub async fn ids_of_every_length_are_kept_apart(h: &dyn Harness) {
    let one = Rival::up(h, &"i".repeat(64), 0).await;
    let ids: Vec<String> = [1, 2, 62].iter().map(|n| "-".repeat(*n)).chain([format!("_{}", "Z".repeat(61))]).collect();
    let tenants: Vec<String> = [1, 2, 63, 64].iter().map(|n| "t".repeat(*n)).collect();
    for (plan, tenant) in ids.iter().zip(&tenants) {
        let draft = Draft::new(plan, &[tenant]);
        let mut step = draft.step();
        step.op.id = id(&format!("{:_>64}", tenant.len()));
        one.done(&step).await;
        assert_eq!(one.task(&draft.task(0)).await.task.tenant, id(tenant));
        let attempt = one.begin(&draft.task(0)).await;
        one.stage(&attempt).await;
    }
    for (plan, tenant) in ids.iter().zip(&tenants) {
        let (plan, task): (PlanId, TaskId) = (id(plan), id(&format!("{plan}-0")));
        assert_eq!(one.plan(&plan).await.plan.id, plan);
        assert_eq!(one.task(&task).await.checkpoint, 1);
        assert_eq!(one.history(Key::TaskHistory(task.clone())).await.len(), 5);
        assert_eq!(one.history(Key::PlanHistory(plan)).await.len(), 1);
        assert_eq!(one.tenant(&id(tenant)).await.started, Some(task));
        assert!(one.lock(&id(tenant)).await.holder.is_some());
    }
}

/// 64 bits, unsigned and signed, wherever a number goes.
pub async fn sixty_four_bit_numbers_are_exact(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let numbers = format!("[{},{},{},9007199254740993,1e400,-0.0,1.10]", u64::MAX, i64::MIN, i64::MAX);
    let numbers = Json::parse(&numbers).expect("JSON");
    let spec = TaskSpec { config: Some(numbers.clone()), retry_limit: Some(u32::MAX), ..TaskSpec::default() };
    let draft = Draft::new("p", &["acme"]).with(spec.clone()).at_once(u32::MAX);
    let mut create = draft.step();
    create.op.digest = u64::MAX;
    create.answer = Some(numbers.clone());
    one.done(&create).await;
    one.start(&draft.id()).await;
    assert_eq!(one.load(Key::TaskSpec(draft.task(0))).await, Some(Row::TaskSpec(spec)));
    let again = one.done(&create).await;
    assert_eq!(again.answer, Some(numbers));
    for (digest, op) in [(u64::MAX - 1, "create-p"), (i64::MAX as u64, "create-p")] {
        let reused = Step { op: Op { id: id(op), digest }, ..create.clone() };
        assert_eq!(one.commit(&reused).await, Err(Refusal::OpReused), "digests are compared in full");
    }
    let row = one.task(&draft.task(0)).await;
    let row = one.take(&row.task.id).await.expect("free");
    let fences = [1 << 53, (1 << 53) + 1, i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX - 1, u64::MAX];
    let mut attempt = Attempt { task: draft.task(0), tenant: id("acme"), instance: one.me.clone(), fence: Fence(1) };
    one.done(&step::begins("begin", &row, &attempt)).await;
    for fence in fences {
        attempt.fence = Fence(fence);
        let row = one.task(&attempt.task).await;
        let mut boundary = step::owner(&format!("fence-{fence}"), &row, &attempt, Vec::new());
        boundary.tasks[0].task.fence = attempt.fence;
        one.done(&boundary).await;
        assert_eq!(one.tenant(&id("acme")).await.fence, attempt.fence);
        let lower = Attempt { fence: Fence(fence - 1), ..attempt.clone() };
        let late = step::owner(&format!("late-{fence}"), &row, &lower, Vec::new());
        assert_eq!(one.refused(&late).await, Refusal::Stale { given: lower.fence, stored: attempt.fence });
    }
}

/// A configuration of a mebibyte, and an event as long as events get.
pub async fn a_mebibyte_is_kept_whole(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let config = Json::of(&"ü€".repeat(1024 * 1024 / 5)).expect("JSON");
    assert!(config.as_str().len() >= 1024 * 1024 - 8);
    let spec = TaskSpec { config: Some(config.clone()), ..TaskSpec::default() };
    let draft = Draft::new("p", &["acme"]).with(spec.clone());
    let create = Step { answer: Some(config), ..draft.step() };
    let first = one.done(&create).await;
    assert_eq!(one.load(Key::TaskSpec(draft.task(0))).await, Some(Row::TaskSpec(spec)));
    assert_eq!(one.done(&create).await, first, "and so is an answer");
    let attempt = one.begin(&draft.task(0)).await;
    let mut boundary = one.boundary(&attempt).await;
    let context = Json::of(&std::collections::BTreeMap::from([("stage-0", "x".repeat(256 * 1024 - 14))]));
    let windlass_core::port::state::CheckpointPut::Put(checkpoint) = &mut boundary.checkpoint else {
        panic!("a boundary has a checkpoint")
    };
    checkpoint.context_data = context.expect("JSON");
    let checkpoint = checkpoint.clone();
    one.done(&boundary).await;
    assert_eq!(one.checkpoint(&attempt.task).await, Some(checkpoint));
}

/// The end of time is a time: nothing wraps, and what lasts for ever is still held.
pub async fn the_far_future_does_not_wrap(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    assert_eq!(one.beat(u64::MAX).await.until, Ms::MAX);
    let lock = one.acquire("acme", "p-0", u64::MAX).await.expect("free");
    assert_eq!(lock.until, Ms::MAX);
    let held = Held { tenant: id("acme"), task: id("p-0"), fence: lock.fence };
    assert_eq!(one.renew(&held, u64::MAX).await, Ok(Ms::MAX));
    let (last, first) = (Draft::new("last", &["acme"]).born(Ms::MAX), Draft::new("first", &["acme"]).born(Ms::ZERO));
    one.create(&last).await;
    one.create(&first).await;
    assert_eq!(one.plan(&last.id()).await.plan.created_at, Ms::MAX);
    let plans = one.list(&windlass_core::port::state::Filter::Plans { statuses: Vec::new() }).await;
    let ids = plans.iter().map(|row| if let Row::Plan(row) = row { row.plan.id.clone() } else { id("x") });
    assert_eq!(ids.collect::<Vec<_>>(), [last.id(), first.id()], "the newest first");
    let far = Rival::open(h, "far", 200 * 365 * 24 * 3_600 * 1_000).await;
    assert!(matches!(far.acquire("acme", "other", 1).await, Err(Refusal::Held(_))), "200 years later it is held");
    assert!(matches!(far.take(&last.task(0)).await, Err(Refusal::NoLease(_))));
    far.beat(u64::MAX).await;
    far.take(&last.task(0)).await.expect("free");
    let row = one.take(&last.task(0)).await;
    assert_eq!(row, Err(Refusal::Owned { owner: Some(far.me.clone()), until: Ms::MAX }));
}

/// Nothing, where nothing is allowed: no tasks, no stages, no events, no keys, no steps.
pub async fn empty_things_are_things(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    assert_eq!(one.ports.state.commit(&[]).await, Ok(vec![]));
    assert_eq!(one.ports.state.load(&[]).await, Ok(vec![]));
    let take = Take { instance: one.me.clone(), which: Which::Named(vec![]) };
    assert_eq!(one.ports.state.take(&take).await, Ok(vec![]));
    let empty = Draft::new("empty", &[]);
    one.run(&empty).await;
    assert!(matches!(one.load(Key::Tally(empty.id())).await, Some(Row::Tally(tally)) if tally.total() == 0));
    one.end(&empty.id(), Ms::ZERO).await;
    assert_eq!(one.ports.state.purge(Ms::new(1), 10).await, Ok(0), "a plan without tasks counts nothing");
    assert_eq!(one.load(Key::Plan(empty.id())).await, None, "and goes all the same");
    let bare = Draft::new("bare", &["acme"]).stages(0).with(TaskSpec::default());
    let mut step = bare.step();
    step.events.clear();
    one.done(&step).await;
    let row = one.task(&bare.task(0)).await;
    assert_eq!((row.seq, row.version, row.task.stages), (0, 1, 0));
    assert_eq!(one.history(Key::TaskHistory(bare.task(0))).await, []);
    assert_eq!(one.load(Key::TaskSpec(bare.task(0))).await, Some(Row::TaskSpec(TaskSpec::default())));
    let failure = windlass_core::failure::Failure { message: String::new(), ..step::failure("x") };
    let events = vec![step::task_event(&row.task, Fact::TaskFailed { failure })];
    one.done(&Step { events: events.clone(), ..step::empty("event") }).await;
    assert_eq!(one.history(Key::TaskHistory(bare.task(0))).await[0].fact, events[0].fact);
}

/// Ten thousand in a call are taken; one more is refused whole.
pub async fn a_batch_has_a_bound(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let draft = Draft::wide("p", BATCH_MAX);
    let stepped = one.done(&draft.step()).await;
    assert_eq!((stepped.version, stepped.seq), (1, 1));
    assert!(matches!(one.load(Key::Tally(draft.id())).await,
        Some(Row::Tally(tally)) if tally.of(TaskStatus::Pending) == BATCH_MAX as u32));
    let too_many = Draft::wide("q", BATCH_MAX + 1);
    assert!(matches!(one.commit(&too_many.step()).await, Err(Refusal::Invalid(_))));

    let names: Vec<TaskId> = (0..=BATCH_MAX).map(|i| draft.task(i)).collect();
    let keys: Vec<Key> = names.iter().cloned().map(Key::Task).collect();
    let rows = one.ports.state.load(&keys[..BATCH_MAX]).await.expect("load");
    assert!(rows.len() == BATCH_MAX && rows.iter().all(Option::is_some));
    let task = one.task(&draft.task(0)).await.task;
    let event = step::task_event(&task, Fact::TaskPauseRequested);
    let step = |i| Step { events: vec![event.clone()], ..step::empty(&format!("op-{i}")) };
    let steps: Vec<Step> = (0..=BATCH_MAX).map(step).collect();
    let answers = one.ports.state.commit(&steps[..BATCH_MAX]).await.expect("commit");
    assert_eq!(answers.last().and_then(|last| last.as_ref().ok()).map(|last| last.seq), Some(1 + BATCH_MAX as u64));
    let tenant = |i: usize| id(&format!("t{i}"));
    let want = |i| Acquire { tenant: tenant(i), plan: id("p"), task: id("t"), ttl_ms: LEASE_MS };
    let wants: Vec<Acquire> = (0..=BATCH_MAX).map(want).collect();
    let held = |i| Held { tenant: tenant(i), task: id("t"), fence: Fence(1) };
    let helds: Vec<Held> = (0..=BATCH_MAX).map(held).collect();
    let tenants: Vec<_> = (0..=BATCH_MAX).map(tenant).collect();

    let refused = |answer: Option<PortError>| assert!(matches!(answer, Some(PortError::Invalid(_))), "{answer:?}");
    refused(one.ports.state.commit(&steps).await.err());
    refused(one.ports.state.load(&keys).await.err());
    refused(one.ports.state.take(&Take { instance: one.me.clone(), which: Which::Named(names) }).await.err());
    refused(one.ports.locks.acquire(&wants).await.err());
    refused(one.ports.locks.renew(&helds, 1).await.err());
    refused(one.ports.locks.release(&helds).await.err());
    refused(one.ports.locks.load(&tenants).await.err());
    assert_eq!(one.load(Key::Op(id(&format!("op-{BATCH_MAX}")))).await, None, "nothing of a refused call is done");
    assert_eq!(one.lock(&tenants[0]).await.holder, None);
}
