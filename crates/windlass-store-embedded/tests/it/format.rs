//! What is stored, byte for byte: format 1 as a golden file, which every later version reads.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_core::checkpoint::Checkpoint;
use windlass_core::id::{InstanceId, JobId, TenantId};
use windlass_core::job::limit::{Limits, Rule, Scope};
use windlass_core::job::rules::{JobAsk, Outcome};
use windlass_core::job::{Asker, Job, JobError, NewJob};
use windlass_core::json::Json;
use windlass_core::lock::{Acquire, Held};
use windlass_core::plan::{Plan, PlanStatus};
use windlass_core::port::job::{Delivery, JobFilter, Jobs, QueueView, Turn};
use windlass_core::port::lock::{Force, Locks, Tenant};
use windlass_core::port::state::{Filter, Key, PlanPut, Row, State, Step, Take, Which};
use windlass_core::task::Task;
use windlass_core::task::status::Statuses;
use windlass_core::time::Ms;
use windlass_store_embedded::kv::memory::Memory;
use windlass_store_embedded::kv::{Kv, Survives, Value};
use windlass_store_embedded::{Clock, Embedded};

use crate::probe::dump;
use crate::work::{self, id};

const GOLDEN: &str = include_str!("../data/format-1/rows.txt");
/// Jobs came later, with tables of their own.
const GOLDEN_JOBS: &str = include_str!("../data/format-1/jobs.txt");
pub(crate) const NOW: Ms = Ms::new(1_800_000_000_000);

pub(crate) fn over(kv: &Arc<Memory>) -> Embedded {
    Embedded::over(Arc::<Memory>::clone(kv) as Arc<dyn Kv>, Clock::new(|| NOW.get() * 1000)).unwrap()
}

async fn commit(store: &Embedded, step: Step) {
    store.commit(&[step]).await.unwrap().remove(0).unwrap();
}

fn fixture(name: &str, tenants: &[&str]) -> (Plan, Vec<Task>) {
    let plan = work::plan(name, tenants.len() as u32, NOW);
    let task = |n: usize| work::task(&plan, &format!("{name}-{n}"), &id(tenants[n]), n as u32);
    let tasks = (0..tenants.len()).map(task).collect();
    (plan, tasks)
}

async fn acquire(store: &Embedded, task: &Task) -> Held {
    let Task { tenant, plan, id, .. } = task.clone();
    let want = Acquire { tenant, plan, task: id, ttl_ms: 9_000_000 };
    let holder = store.acquire(&[want]).await.unwrap().remove(0).unwrap();
    Held { tenant: holder.tenant, task: holder.task, fence: holder.fence }
}

/// A little of everything: at its end every table has a row.
async fn scenario(store: &Embedded) {
    let me: InstanceId = id("i-1");
    store.beat(&me, 60_000).await.unwrap();
    let (mut plan, tasks) = fixture("p-1", &["acme", "globex", "initech", "stark"]);
    commit(store, work::create("op-1", &plan, &tasks)).await;
    commit(store, work::start("op-2", &mut plan, 1, &me, NOW)).await;
    let take = Take { instance: me.clone(), which: Which::Ready { plan: None, limit: 2 } };
    let mut taken: Vec<Task> = store.take(&take).await.unwrap().into_iter().map(|row| row.unwrap().task).collect();
    // One completes, one is in its second stage and is asked to pause.
    let held = acquire(store, &taken[1]).await;
    commit(store, work::begin("op-3", &mut taken[1], &me, held.fence, NOW)).await;
    commit(store, work::complete("op-4", &mut taken[1], &me, NOW)).await;
    store.release(&[held]).await.unwrap().remove(0).unwrap();
    let held = acquire(store, &taken[0]).await;
    commit(store, work::begin("op-5", &mut taken[0], &me, held.fence, NOW)).await;
    let mut checkpoint = Checkpoint::new(1, NOW);
    commit(store, work::boundary("op-6", &mut taken[0], &me, &mut checkpoint, NOW)).await;
    commit(store, work::ask_pause("op-7", &taken[0])).await;
    // A third was paused, a fourth waits for its turn.
    let take = Take { instance: me.clone(), which: Which::Named(vec![id("p-1-2")]) };
    let mut third = store.take(&take).await.unwrap().remove(0).unwrap().task;
    let held = acquire(store, &third).await;
    commit(store, work::begin("op-8", &mut third, &me, held.fence, NOW)).await;
    let context_data = Json::of(&"x".repeat(5_000)).unwrap();
    let mut large = Checkpoint { context_data, ..Checkpoint::new(1, NOW) };
    commit(store, work::boundary("op-8-1", &mut third, &me, &mut large, NOW)).await;
    commit(store, work::pause("op-9", &mut third, &me, NOW)).await;
    store.force(&id("initech"), Force::Freeze, &id("ada"), Some(&id("audit")), None).await.unwrap().unwrap();
    // One plan has ended, of another a part is still to be forgotten.
    for (name, ended_at) in [("p-2", NOW), ("p-3", Ms::new(1_000))] {
        let (mut plan, tasks) = fixture(name, &["umbrella", "hooli"]);
        commit(store, work::create(&format!("op-{name}"), &plan, &tasks)).await;
        plan.status = PlanStatus::Cancelled;
        plan.cancelled = true;
        plan.ended_at = Some(ended_at);
        let put = PlanPut { plan: plan.clone(), version: 1, spec: None };
        let end = work::create(&format!("op-{name}-end"), &plan, &[]);
        commit(store, Step { plan: Some(put), ..end }).await;
    }
    assert_eq!(State::purge(store, Ms::new(2_000), 1).await, Ok(1));
}

/// A line for each row: key and value, with every byte that is not plain text as `\xNN`.
pub(crate) fn text(kv: &dyn Kv) -> String {
    let escape = |bytes: &[u8], plain: fn(u8) -> bool| -> String {
        let one = |byte: &u8| if plain(*byte) { char::from(*byte).to_string() } else { format!("\\x{byte:02x}") };
        bytes.iter().map(one).collect()
    };
    let in_key = |byte: u8| byte.is_ascii_alphanumeric() || b"#$-_".contains(&byte);
    let in_value = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'\\';
    dump(kv).iter().map(|(key, value)| format!("{} {}\n", escape(key, in_key), escape(value, in_value))).collect()
}

fn unescape(text: &str) -> Vec<u8> {
    let mut parts = text.split("\\x");
    let mut bytes = parts.next().unwrap().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    bytes
}

/// The store that such lines are of.
pub(crate) fn store_of(text: &str) -> Arc<Memory> {
    let rows = text.lines().map(|line| line.split_once(' ').unwrap());
    let kv = Memory::default();
    kv.commit(
        rows.map(|(key, value)| (unescape(key), Some(Value::from(unescape(value))))).collect(),
        Survives::PowerLoss,
    )
    .unwrap();
    Arc::new(kv)
}

/// Everything that can be asked.
async fn everything(store: &Embedded) -> (Vec<Option<Row>>, Vec<Row>, Vec<Tenant>) {
    let mut keys = vec![Key::Instance(id("i-1"))];
    let ops = ["op-1", "op-2", "op-7", "op-p-2", "op-p-2-end", "op-p-3"];
    keys.extend(ops.map(|op| Key::Op(id(op))));
    for (name, tasks) in [("p-1", 4), ("p-2", 2), ("p-3", 2)] {
        keys.extend([Key::Plan(id(name)), Key::PlanSpec(id(name)), Key::PlanHistory(id(name)), Key::Tally(id(name))]);
        for task in (0..tasks).map(|n| format!("{name}-{n}")) {
            keys.extend([Key::Task(id(&task)), Key::TaskSpec(id(&task)), Key::TaskHistory(id(&task))]);
            keys.push(Key::Checkpoint(id(&task)));
        }
    }
    let tenants = ["acme", "globex", "initech", "stark", "umbrella", "hooli"].map(id::<TenantId>);
    keys.extend(tenants.iter().cloned().map(Key::Tenant));
    let mut listed = Vec::new();
    let tasks = Filter::Tasks { plan: None, tenant: None, statuses: Statuses::NONE, interrupted: false };
    let umbrella =
        Filter::Tasks { plan: None, tenant: Some(id("umbrella")), statuses: Statuses::ALL, interrupted: false };
    for filter in [tasks, umbrella, Filter::Plans { statuses: Vec::new() }, Filter::Instances] {
        listed.extend(State::list(store, &filter, None, 100).await.unwrap().items);
    }
    let loaded = State::load(store, &keys).await.unwrap();
    let mut locks = Locks::load(store, &tenants).await.unwrap();
    locks.extend(Locks::list(store, None, 100).await.unwrap().items);
    (loaded, listed, locks)
}

/// A job of every kind: one that runs, some that wait, one that has ended each way, with a key, large texts and rules.
async fn jobs_scenario(store: &Embedded) {
    let large = Json::of(&"x".repeat(5_000)).unwrap();
    let job = |n: u128| NewJob::new(JobId::random(n << 64), id("mail"), Some(Json::parse("{\"n\":1}").unwrap()));
    let of_acme = |n| NewJob { tenant: Some(id("acme")), priority: 5, timeout_ms: Some(9_000), ..job(n) };
    let keyed = NewJob { key: Some("order 7".into()), max_attempts: 3, payload: None, ..of_acme(3) };
    let group = vec![of_acme(1), NewJob { payload: Some(large.clone()), ..job(2) }, keyed, job(4), of_acme(5), job(6)];
    store.submit(&[group]).await.unwrap().remove(0).unwrap();
    let asker = Asker { by: id("ann"), reason: Some(id("why")), at: NOW };
    let limits = Limits { running: Some(4), waiting: None };
    let rules = [
        Rule { scope: Scope::Queue(id("mail")), limits, held: None },
        Rule { scope: Scope::Tenant(id("globex")), limits: Limits::NONE, held: Some(asker.clone()) },
        Rule { scope: Scope::EachTenant, limits: Limits { running: None, waiting: Some(9) }, held: None },
    ];
    store.set_rules(&rules).await.unwrap();
    store.ask(&[JobId::random(6 << 64)], JobAsk::Cancel, &asker).await.unwrap().remove(0).unwrap();
    let turn =
        |settle, n| Turn { worker: id("w-1"), lease_ms: 60_000, settle, beat: vec![], want: vec![(id("mail"), n)] };
    let claimed = store.turn(&[turn(vec![], 4)]).await.unwrap().remove(0).claimed;
    let error = JobError { previous: Some(Box::new(JobError::of("E2", "deep"))), ..JobError::of("E1", "no") };
    let outcomes = [
        Outcome::Completed(large),
        Outcome::Failed { error: Box::new(error.clone()), retry: false, spread: 0 },
        Outcome::Failed { error: Box::new(error), retry: true, spread: 0 },
    ];
    let settle =
        claimed.iter().zip(outcomes).map(|(job, outcome)| (Delivery { job: job.id, fence: job.fence }, outcome));
    store.turn(&[turn(settle.collect(), 0)]).await.unwrap();
    store.ask(&[claimed[3].id], JobAsk::Cancel, &asker).await.unwrap().remove(0).unwrap();
}

/// Everything that can be asked of jobs.
async fn all_jobs(store: &Embedded) -> (Vec<Option<Job>>, Vec<Job>, Vec<QueueView>) {
    let ids: Vec<JobId> = (1..=6).map(|n: u128| JobId::random(n << 64)).collect();
    let listed = Jobs::list(store, &JobFilter::default(), None, 100).await.unwrap().items;
    let mut queues = store.queues(None, 10).await.unwrap().items;
    queues.iter_mut().for_each(|queue| queue.worker_until = None);
    (Jobs::load(store, &ids).await.unwrap(), listed, queues)
}

#[tokio::test]
async fn jobs_of_format_1_are_read_and_go_on() {
    let kv = Arc::default();
    jobs_scenario(&over(&kv)).await;
    // Both are opened anew: fences go on above those that were stored ahead.
    let (old, new) = (over(&store_of(GOLDEN_JOBS)), over(&kv));
    let read = all_jobs(&old).await;
    assert!(read == all_jobs(&new).await, "jobs of format 1 read otherwise: {read:#?}");
    assert!(read.0.iter().all(Option::is_some) && read.1.len() == 6);
    // What leads to work: leases, what waits, limits, keys.
    for store in [&old, &new] {
        let later = store.ahead(120_000);
        let turn =
            Turn { worker: id("w-2"), lease_ms: 60_000, settle: vec![], beat: vec![], want: vec![(id("mail"), 9)] };
        assert_eq!(
            later.turn(&[turn]).await.unwrap().remove(0).claimed.len(),
            2,
            "one waits for its second attempt, and one waits"
        );
        assert_eq!(Jobs::purge(&later, Ms::MAX, 100).await, Ok(4), "what ended, and the one whose end was asked for");
    }
    assert!(all_jobs(&old).await == all_jobs(&new).await, "they go on otherwise");
}

#[tokio::test]
async fn the_stored_format_is_what_the_golden_files_say() {
    let (plans, jobs) = (Arc::new(Memory::default()), Arc::new(Memory::default()));
    scenario(&over(&plans)).await;
    jobs_scenario(&over(&jobs)).await;
    for (kv, golden, name) in [(plans, GOLDEN, "rows"), (jobs, GOLDEN_JOBS, "jobs")] {
        let written = text(&*kv);
        if written != golden {
            let place = format!("{}/format-1-{name}.txt", env!("CARGO_TARGET_TMPDIR"));
            std::fs::write(&place, &written).unwrap();
            let differs = written.lines().zip(golden.lines()).find(|(written, golden)| written != golden);
            panic!("the stored format has changed; what is written now is in {place}; first difference: {differs:#?}");
        }
    }
}

#[tokio::test]
async fn a_store_of_format_1_is_read_and_goes_on() {
    let (old, new) = (store_of(GOLDEN), Arc::new(Memory::default()));
    let (old, new) = (over(&old), over(&new));
    scenario(&new).await;
    let read = everything(&old).await;
    assert!(read == everything(&new).await, "a store of format 1 reads otherwise: {read:#?}");
    let missing = read.0.iter().filter(|row| row.is_none()).count();
    assert_eq!(missing, 4 + 9, "checkpoints that never were; p-3 and its first task, which are forgotten");
    // What leads to work, rather than to rows: leases, slots, readiness, wishes, the rest of a plan.
    for store in [&old, &new] {
        assert_eq!(store.beat(&id("i-1"), 60_000).await.unwrap().asked.len(), 1);
        let take = Take { instance: id("i-1"), which: Which::Ready { plan: None, limit: 9 } };
        let taken = store.take(&take).await.unwrap().remove(0).unwrap();
        assert_eq!(taken.task.id, id("p-1-3"));
        assert_eq!(State::purge(store, Ms::MAX, 100).await, Ok(3 + 7), "tasks and operations; the instance is alive");
    }
    assert!(everything(&old).await == everything(&new).await, "it goes on otherwise");
}

#[test]
fn the_golden_files_have_a_row_of_every_table() {
    let keys = include_str!("../../src/key.rs");
    let in_key = |before: &str| -> BTreeSet<u8> { keys.split(before).skip(1).map(|rest| rest.as_bytes()[0]).collect() };
    let mut tables = in_key("Key::new(b'");
    tables.extend(in_key("&[u8] = b\""));
    let rows: BTreeSet<u8> = GOLDEN
        .lines()
        .chain(GOLDEN_JOBS.lines())
        .chain(crate::trigger_format::GOLDEN.lines())
        .map(|line| unescape(line)[0])
        .collect();
    let names = |tables: &BTreeSet<u8>| -> String { tables.iter().map(|table| char::from(*table)).collect() };
    assert_eq!(names(&rows), names(&tables));
}
