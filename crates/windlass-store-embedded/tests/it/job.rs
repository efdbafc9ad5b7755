//! Jobs on the embedded store beyond the contract: what it holds in memory and what it finds again when it is opened.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use windlass_core::id::{JobId, TenantId};
use windlass_core::job::limit::{Limits, Rule, Scope};
use windlass_core::job::rules::{Asked, JobAsk, Outcome};
use windlass_core::job::{Asker, Job, JobStatus, NewJob, When};
use windlass_core::json::Json;
use windlass_core::port::job::{Delivery, JobFilter, Jobs, Turn, Turned};
use windlass_core::time::Ms;
use windlass_store_embedded::kv::Kv;
use windlass_store_embedded::kv::memory::Memory;
use windlass_store_embedded::{Clock, Embedded, Options};

use crate::probe::{Probe, dump};
use crate::work::id;

const LEASE_MS: u64 = 60_000;

pub(crate) fn job(n: u128) -> NewJob {
    NewJob::new(JobId::random(n << 80), id("q"), Some(Json::parse(&n.to_string()).unwrap()))
}

fn of(n: u128, tenant: &str) -> NewJob {
    NewJob { tenant: Some(id(tenant)), ..job(n) }
}

async fn submit(store: &Embedded, jobs: Vec<NewJob>) {
    for answer in store.submit(&jobs.chunks(1_000).map(<[_]>::to_vec).collect::<Vec<_>>()).await.unwrap() {
        answer.unwrap();
    }
}

pub(crate) async fn turn(store: &Embedded, settle: Vec<(Delivery, Outcome)>, want: u32) -> Turned {
    let turn = Turn { worker: id("w"), lease_ms: LEASE_MS, settle, beat: Vec::new(), want: vec![(id("q"), want)] };
    store.turn(&[turn]).await.unwrap().remove(0)
}

async fn claim(store: &Embedded, want: u32) -> Vec<Job> {
    turn(store, Vec::new(), want).await.claimed
}

pub(crate) fn done(job: &Job) -> (Delivery, Outcome) {
    (Delivery { job: job.id, fence: job.fence }, Outcome::Completed(Json::null()))
}

fn numbers(jobs: &[Job]) -> Vec<u128> {
    jobs.iter().map(|job| job.payload.as_ref().unwrap().to().unwrap()).collect()
}

/// A store whose clock stands where it is put.
struct Still {
    kv: Arc<Memory>,
    now_ms: Arc<AtomicU64>,
}

impl Still {
    fn new() -> Still {
        Still { kv: Arc::default(), now_ms: Arc::new(AtomicU64::new(1_800_000_000_000)) }
    }

    fn open(&self) -> Embedded {
        let now = Arc::clone(&self.now_ms);
        let clock = Clock::new(move || now.load(Ordering::Relaxed) * 1000);
        Embedded::inline(Arc::clone(&self.kv) as Arc<dyn Kv>, clock).unwrap()
    }

    fn pass(&self, ms: u64) {
        self.now_ms.fetch_add(ms, Ordering::Relaxed);
    }
}

/// A claim alone is answered before it survives power loss: then it never was, nobody else gets its fence, and what
/// was completed stays, with the claim that came before it.
#[tokio::test]
async fn a_claim_that_a_power_loss_takes_back_is_delivered_again_under_a_higher_fence() {
    let clock = || Clock::new(|| 1_800_000_000_000_000);
    let probe = Probe::over(Arc::new(Memory::default()));
    let store = Embedded::inline(Arc::<Probe>::clone(&probe), clock()).unwrap();
    submit(&store, vec![job(1), job(2)]).await;
    let first = claim(&store, 1).await.remove(0);
    turn(&store, vec![done(&first)], 0).await;
    let taken_back = claim(&store, 1).await.remove(0);

    let store = Embedded::inline(Arc::new(probe.without_power()), clock()).unwrap();
    let stands = Jobs::load(&store, &[first.id, taken_back.id]).await.unwrap();
    let stands: Vec<_> = stands.into_iter().map(|job| job.unwrap().status).collect();
    assert_eq!(stands, [JobStatus::Completed, JobStatus::Pending]);
    let again = claim(&store, 1).await.remove(0);
    assert_eq!(again.id, taken_back.id);
    assert!(again.fence > taken_back.fence, "{:?} after {:?}", again.fence, taken_back.fence);
    let settled = turn(&store, vec![done(&taken_back), done(&again)], 0).await.settled;
    assert!(settled[0].is_err(), "under the old fence: {settled:?}");
    assert_eq!(settled[1], Ok(JobStatus::Completed));
}

/// More jobs than are held in memory, of several priorities, submitted out of order and partly claimed: each comes once,
/// in its order, also over a restart.
#[tokio::test]
async fn more_jobs_than_are_held_come_in_their_order() {
    let still = Still::new();
    let mut store = still.open();
    let priorities = [0i8, 5, -3];
    for n in 0..6_000u128 {
        let new = NewJob { priority: priorities[n as usize % 3], ..job(n) };
        submit(&store, vec![new]).await;
    }
    let mut expected: Vec<u128> = Vec::new();
    for rest in [1, 0, 2] {
        expected.extend((0..6_000u128).filter(|n| n % 3 == rest));
    }
    let mut seen = Vec::new();
    while seen.len() < 6_000 {
        if seen.len() == 2_997 {
            store = still.open();
        }
        let claimed = claim(&store, 333.min(6_000 - seen.len() as u32)).await;
        assert!(!claimed.is_empty());
        seen.extend(numbers(&claimed));
        turn(&store, claimed.iter().map(done).collect(), 0).await;
    }
    assert_eq!(seen, expected);
    assert!(claim(&store, 1).await.is_empty());
}

/// Large payloads of many tenants pass the bound of what is held: what was let go of is read again.
#[tokio::test]
async fn what_memory_lets_go_of_is_found_again() {
    let still = Still::new();
    let store = still.open();
    let text = Json::of(&"x".repeat(4_000)).unwrap();
    for tenant in 0..20u128 {
        let jobs = (0..1_000)
            .map(|n| NewJob { payload: Some(text.clone()), ..of(tenant * 1_000 + n, &format!("t-{tenant}")) });
        submit(&store, jobs.collect()).await;
    }
    let mut counts = std::collections::BTreeMap::<TenantId, u32>::new();
    for round in 1..=20u32 {
        let claimed = claim(&store, 1_000).await;
        claimed.iter().for_each(|job| *counts.entry(job.tenant.clone().unwrap()).or_default() += 1);
        assert!(counts.values().all(|count| *count == round * 50), "tenants take turns: {counts:?}");
    }
    assert!(claim(&store, 1).await.is_empty(), "each came once");
}

/// What runs, waits for its time, or is held back by a rule is the same after a restart.
#[tokio::test]
async fn what_runs_and_waits_is_found_when_the_store_is_opened_again() {
    let still = Still::new();
    let store = still.open();
    submit(&store, (0..10).map(|n| of(n, "acme")).collect()).await;
    submit(&store, vec![NewJob { when: When::In(5_000), ..job(100) }]).await;
    let rule =
        Rule { scope: Scope::Tenant(id("acme")), limits: Limits { running: Some(3), waiting: Some(7) }, held: None };
    store.set_rules(&[rule]).await.unwrap();
    let claimed = claim(&store, 5).await;
    assert_eq!(numbers(&claimed), [0, 1, 2]);
    turn(&store, vec![done(&claimed[1])], 0).await;

    let store = still.open();
    let turned = turn(&store, Vec::new(), 9).await;
    assert_eq!(numbers(&turned.claimed), [3], "two run, one more may");
    assert_eq!(turned.next, Some(Ms::new(1_800_000_005_000)), "the delayed one is known");
    let refused = store.submit(&[vec![of(200, "acme"), of(201, "acme")]]).await.unwrap().remove(0);
    assert!(refused.unwrap_err().to_string().contains("WL-3015"), "six wait, one more may");
    assert_eq!(turn(&store, vec![done(&claimed[0])], 0).await.settled, [Ok(JobStatus::Completed)]);

    still.pass(LEASE_MS);
    let store = still.open();
    let again = claim(&store, 9).await;
    let mut given = numbers(&again);
    given[2..].sort_unstable();
    assert_eq!(given, [2, 3, 4, 100], "those delivered again first, then as many as may run");
    assert!(again[0].fence > claimed[2].fence);
    let late = turn(&store, vec![done(&claimed[2])], 0).await;
    assert!(late.settled[0].is_err(), "the old delivery is over");
}

/// A claim writes one row of its own, an end three; what a batch adds does not grow with its jobs.
#[tokio::test]
async fn a_claim_writes_one_row_and_an_end_three() {
    let probe = Probe::over(Arc::<Memory>::default());
    let store = Embedded::over(Arc::clone(&probe) as Arc<dyn Kv>, Clock::system()).unwrap();
    submit(&store, (0..1_000).map(job).collect()).await;
    let claimed = claim(&store, 1_000).await;
    turn(&store, claimed.iter().map(done).collect(), 0).await;
    let rows: Vec<usize> = probe.commits().iter().map(std::collections::BTreeMap::len).collect();
    // The chain's two links, the lane's count, fences for a while ahead; the claim.
    assert_eq!(rows, [2_000 + 4, 1_000 + 4, 3_000 + 3]);
}

/// A long life leaves nothing behind but what has not been purged, and then nothing at all.
#[tokio::test]
async fn nothing_is_left_of_jobs_that_are_forgotten() {
    let still = Still::new();
    let store = still.open();
    let large = Json::of(&"y".repeat(5_000)).unwrap();
    for round in 0..20u128 {
        let jobs = (0..40).map(|n| NewJob {
            key: Some(format!("key-{round}-{n}")),
            payload: Some(if n % 4 == 0 { large.clone() } else { Json::null() }),
            max_attempts: 2,
            ..of(round * 40 + n, &format!("t-{}", n % 5))
        });
        submit(&store, jobs.collect()).await;
        let claimed = claim(&store, 30).await;
        let settle = claimed.iter().enumerate().map(|(n, job)| match n % 3 {
            0 => (done(job).0, Outcome::Completed(large.clone())),
            1 => (done(job).0, Outcome::Released),
            _ => (done(job).0, Outcome::Failed { error: Box::default(), retry: true, spread: 0 }),
        });
        turn(&store, settle.collect(), 0).await;
        still.pass(1_000);
        store.sweep(100).await.unwrap();
        Jobs::purge(&store, Ms::new(still.now_ms.load(Ordering::Relaxed) - 3_000), 7).await.unwrap();
    }
    still.pass(10 * LEASE_MS);
    while let claimed @ [_, ..] = &claim(&store, 100).await[..] {
        turn(&store, claimed.iter().map(done).collect(), 0).await;
        still.pass(10 * LEASE_MS);
    }
    let store = still.open();
    while Jobs::purge(&store, Ms::MAX, 100).await.unwrap() > 0 {}
    let left: Vec<u8> = dump(&*still.kv).iter().map(|(key, _)| key[0]).filter(|table| !b"$F".contains(table)).collect();
    assert!(left.is_empty(), "{:?}", String::from_utf8_lossy(&left));
    let page = Jobs::list(&store, &JobFilter::default(), None, 100).await.unwrap();
    assert!(page.items.is_empty() && page.next.is_none());
    assert!(store.queues(None, 10).await.unwrap().items.is_empty(), "its worker was another life's");
}

/// On disk: a job's whole way, with a restart at each step.
#[tokio::test]
async fn a_job_goes_its_way_over_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Embedded::open(folder.path(), &Options::default()).unwrap();
    let restart = |store: Embedded| {
        store.close();
        open()
    };
    let store = open();
    submit(&store, vec![NewJob { max_attempts: 1, ..of(1, "acme") }]).await;
    let store = restart(store);
    let claimed = claim(&store, 1).await;
    let store = restart(store);
    let failed = Outcome::Failed { error: Box::default(), retry: false, spread: 0 };
    assert_eq!(turn(&store, vec![(done(&claimed[0]).0, failed)], 0).await.settled, [Ok(JobStatus::Failed)]);
    let store = restart(store);
    let asker = Asker { by: id("ann"), reason: None, at: Ms::ZERO };
    let asked = store.ask(&[claimed[0].id], JobAsk::Requeue, &asker).await.unwrap();
    assert_eq!(asked, [Ok(Asked::Requeued)]);
    let store = restart(store);
    let again = claim(&store, 1).await;
    assert_eq!(again[0].attempt, 1);
    let store = restart(store);
    assert_eq!(turn(&store, vec![done(&again[0])], 0).await.settled, [Ok(JobStatus::Completed)]);
    let store = restart(store);
    let loaded = Jobs::load(&store, &[again[0].id]).await.unwrap().remove(0).unwrap();
    assert_eq!((loaded.status, loaded.result), (JobStatus::Completed, Some(Json::null())));
    store.close();
}
