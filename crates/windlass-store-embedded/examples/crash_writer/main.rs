//! What the crash test kills: opens a store, runs sixteen writers of plans and four of triggers over it, and prints one line
//! for every write that was acknowledged. `crash_writer FOLDER RUN`.
#![expect(clippy::print_stdout, clippy::panic, reason = "a test's other half; its lines are what it is for")]

mod clock;
#[path = "../../tests/it/work.rs"]
mod work;

use std::io::Write;
use std::path::Path;

use clock::Clock;
use windlass_core::checkpoint::Checkpoint;
use windlass_core::fence::Fence;
use windlass_core::id::{InstanceId, TaskId, TenantId};
use windlass_core::lock::{Acquire, Held};
use windlass_core::plan::Plan;
use windlass_core::port::lock::Locks;
use windlass_core::port::state::{State, Step, Stepped, Take, Which};
use windlass_core::task::Task;
use windlass_store_embedded::{Embedded, Options};
use work::{STAGES, id};

const WRITERS: u32 = 16;
const CLOCKS: u32 = 4;
/// Longer than any test: what a dead writer held is still held when it is looked at.
pub(crate) const LEASE_MS: u64 = 9_000_000;

#[tokio::main(worker_threads = 2)]
async fn main() {
    let args: Vec<String> = std::env::args().collect();
    let [_, folder, run] = &args[..] else { panic!("usage: crash_writer FOLDER RUN") };
    let store = Embedded::open(Path::new(folder), &Options::default()).unwrap_or_else(|error| panic!("{error}"));
    println!("open");
    let clocks = (0..CLOCKS).map(|number| Clock { store: store.clone(), run: run.clone(), number, instance: id(run) });
    let clocks: Vec<_> = clocks.map(|clock| tokio::spawn(clock.run())).collect();
    let writers: Vec<_> = (0..WRITERS)
        .map(|number| Writer { store: store.clone(), run: run.clone(), number, ops: 0, instance: id(run) })
        .map(|writer| tokio::spawn(writer.run()))
        .collect();
    for writer in writers.into_iter().chain(clocks) {
        writer.await.unwrap_or_else(|error| panic!("{error}"));
    }
}

struct Writer {
    store: Embedded,
    run: String,
    number: u32,
    ops: u32,
    instance: InstanceId,
}

/// One line, whole: a pipe takes this much at once.
pub(crate) fn acknowledged(line: &str) {
    let mut out = std::io::stdout().lock();
    if out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()).is_err() {
        // The test has gone; so do we.
        std::process::exit(0);
    }
}

impl Writer {
    async fn run(mut self) {
        for round in 0u32.. {
            self.plan(round).await;
        }
    }

    fn op(&mut self) -> String {
        self.ops += 1;
        format!("{}-{}-{}", self.run, self.number, self.ops)
    }

    async fn commit(&self, step: Step) -> Stepped {
        let mut answers = self.store.commit(&[step]).await.unwrap_or_else(|error| panic!("{error}"));
        answers.remove(0).unwrap_or_else(|refusal| panic!("{refusal}"))
    }

    async fn plan(&mut self, round: u32) {
        let beat = self.store.beat(&self.instance, LEASE_MS).await.unwrap_or_else(|error| panic!("{error}"));
        acknowledged(&format!("beat {} {}", self.instance, beat.until.get()));
        let at = beat.until.minus(LEASE_MS);
        let name = format!("{}-{}-{round}", self.run, self.number);
        let mut plan = work::plan(&name, 3, at);
        let tasks: Vec<Task> = (0..3)
            .map(|n| work::task(&plan, &format!("{name}-{n}"), &id(&format!("{}-{}-t{n}", self.run, self.number)), n))
            .collect();
        let op = self.op();
        let created = self.commit(work::create(&op, &plan, &tasks)).await;
        let created_tasks: Vec<String> = tasks.iter().map(|task| row(task, 1, 1, 0)).collect();
        acknowledged(&format!("op {op};{};{}", plan_row(&plan, &created), created_tasks.join(";")));
        let op = self.op();
        let started = self.commit(work::start(&op, &mut plan, created.version, &self.instance, at)).await;
        acknowledged(&format!("op {op};{}", plan_row(&plan, &started)));
        // The third is left for whoever comes after the crash.
        for n in 0..2 {
            self.task(&plan, round % 3 == n).await;
        }
    }

    async fn task(&mut self, plan: &Plan, pauses: bool) {
        let which = Which::Ready { plan: Some(plan.id.clone()), limit: 1 };
        let take = Take { instance: self.instance.clone(), which };
        let mut taken = self.store.take(&take).await.unwrap_or_else(|error| panic!("{error}"));
        let taken = taken.remove(0).unwrap_or_else(|refusal| panic!("{refusal}"));
        let mut task = taken.task;
        acknowledged(&row(&task, taken.version, taken.seq, 0));
        let fence = self.acquire(&task.tenant, &task.id, plan).await;
        let op = self.op();
        let at = plan.updated_at;
        let begun = self.commit(work::begin(&op, &mut task, &self.instance, fence, at)).await;
        acknowledged(&row(&task, begun.version, begun.seq, 0));
        let mut checkpoint = Checkpoint::new(1, at);
        for index in 1..STAGES {
            let op = self.op();
            let stepped = self.commit(work::boundary(&op, &mut task, &self.instance, &mut checkpoint, at)).await;
            acknowledged(&row(&task, stepped.version, stepped.seq, u64::from(index)));
        }
        let kept = u64::from(STAGES - 1);
        let last = if pauses {
            let op = self.op();
            let asked = self.commit(work::ask_pause(&op, &task)).await;
            acknowledged(&format!("op {op};{}", row(&task, asked.version, asked.seq, kept)));
            work::pause(&self.op(), &mut task, &self.instance, at)
        } else {
            work::complete(&self.op(), &mut task, &self.instance, at)
        };
        let stepped = self.commit(last).await;
        acknowledged(&row(&task, stepped.version, stepped.seq, if pauses { kept } else { 0 }));
        let held = Held { tenant: task.tenant.clone(), task: task.id.clone(), fence };
        let released = self.store.release(&[held]).await.unwrap_or_else(|error| panic!("{error}"));
        assert!(released.iter().all(Result::is_ok), "{released:?}");
        acknowledged(&format!("free {} {} {fence}", task.tenant, task.id));
    }

    async fn acquire(&self, tenant: &TenantId, task: &TaskId, plan: &Plan) -> Fence {
        let (tenant, task, plan) = (tenant.clone(), task.clone(), plan.id.clone());
        let want = Acquire { tenant: tenant.clone(), plan, task: task.clone(), ttl_ms: LEASE_MS };
        let mut holders = self.store.acquire(&[want]).await.unwrap_or_else(|error| panic!("{error}"));
        let holder = holders.remove(0).unwrap_or_else(|refusal| panic!("{refusal}"));
        acknowledged(&format!("lock {tenant} {task} {}", holder.fence));
        holder.fence
    }
}

fn row(task: &Task, version: u64, seq: u64, checkpoint: u64) -> String {
    format!("task {} {version} {seq} {checkpoint} {} {}", task.id, task.status, task.fence)
}

fn plan_row(plan: &Plan, stepped: &Stepped) -> String {
    format!("plan {} {} {} {}", plan.id, stepped.version, stepped.seq, plan.status)
}
