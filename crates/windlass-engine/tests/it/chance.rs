//! Random small plans and random operations: every plan ends, or waits in the inbox and says why.

use windlass_core::id::PlanId;
use windlass_core::plan::PlanStatus;
use windlass_core::port::lock::Force;
use windlass_core::task::Cause;
use windlass_core::task::command::{Command, RetryFrom};
use windlass_core::task::status::TaskStatus;
use windlass_engine::Error;
use windlass_engine::command::plan::Verb;

use windlass_engine::query::inbox::Kind;

use crate::world::{PATIENCE, World, brief, by, from_stage, nth, order, plan_of, retry, until};

const TENANTS: [&str; 3] = ["t0", "t1", "t2"];

struct Chance(fastrand::Rng);

impl Chance {
    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.0.usize(..list.len())]
    }

    fn plan(&mut self) -> String {
        let stages = ["a", "b", "{ name: ok, approval: { message: 'go on?' } }", "c"];
        let stages: Vec<_> = (0..4).filter(|i| *i == 0 || self.0.bool()).map(|i| stages[i]).collect();
        let tenants = &TENANTS[..self.0.usize(1..=3)];
        let settings = format!(
            "max_concurrency: {}\non_conflict: {}\non_failure: {}\nrecovery: {}",
            self.0.u32(1..=3),
            self.of(&["skip", "wait"]),
            self.of(&["continue", "stop", "pause"]),
            self.of(&["manual", "manual", "auto"]),
        );
        plan_of(&settings, &stages, tenants)
    }

    fn command(&mut self) -> Command {
        match self.0.u32(..12) {
            0 | 1 => Command::Pause(Cause::Person),
            2 | 3 => Command::Resume,
            4 => Command::Cancel(Cause::Person),
            5 | 6 => retry(RetryFrom::Checkpoint),
            7 => retry(RetryFrom::Start),
            8 => retry(from_stage("a")),
            9 => Command::Rollback { force: false },
            10 if self.0.u32(..3) > 0 => Command::Approve,
            10 => Command::Reject,
            _ => Command::SkipStage(None),
        }
    }

    /// One thing that somebody does. A refusal is an answer; anything else is not expected.
    async fn act(&mut self, world: &mut World, plans: &[PlanId]) -> String {
        let plan = &plans[self.0.usize(..plans.len())];
        let tenant = self.of(&TENANTS);
        match self.0.u32(..20) {
            0..8 => {
                let (which, command) = (nth(plan, self.0.u32(..3)), self.command());
                let done = world.engine.task(&order(which.clone(), command.clone()), &by("bob")).await;
                assert!(!matches!(done, Err(Error::Contended | Error::Misfit(_) | Error::Port(_))), "{done:?}");
                format!("{command:?} of {which:?}: {:?}", done.map(|done| done.state).map_err(|no| no.to_string()))
            }
            8..12 => {
                let verb = self.of(&[Verb::Pause, Verb::Resume, Verb::Resume, Verb::Cancel]);
                let done = world.plan(plan, verb).await;
                assert!(!matches!(done, Err(Error::Contended | Error::Misfit(_) | Error::Port(_))), "{done:?}");
                format!("{verb:?} of {plan}: {:?}", done.map(|done| done.state).map_err(|no| no.to_string()))
            }
            12 => {
                let what = self.of(&[Force::Freeze, Force::Unfreeze, Force::Unfreeze]);
                world.tenant(tenant, what).await;
                format!("{what:?} {tenant}")
            }
            13 => {
                world.crash().await;
                "crash".to_owned()
            }
            14..17 => {
                let stage = self.of(&["a", "b", "c"]);
                let at = format!("{tenant}/{stage}");
                match self.0.bool() {
                    true => world.script.fail(&at),
                    false => world.script.heal(&at),
                }
                format!("{at} changes")
            }
            _ => {
                for _ in 0..self.0.u32(..40) {
                    tokio::task::yield_now().await;
                }
                "a while".to_owned()
            }
        }
    }
}

/// Where a plan stands, for whoever reads a failed test.
async fn standing(world: &World, plan: &PlanId) -> String {
    let why = world.engine.why_plan(plan).await.unwrap();
    let mut text = format!("plan {plan}: {} ({}) {:?}\n", why.cause, why.text, why.possible);
    for row in world.engine.tasks_of(plan, &TaskStatus::ALL).await.unwrap() {
        let why = world.engine.why_task(&nth(plan, row.task.position)).await.unwrap();
        let owner = row.task.owner.as_ref().map(ToString::to_string);
        text += &format!("  {} {}: {} {:?} {owner:?}\n", row.task.id, row.task.status, why.text, why.possible);
    }
    text
}

/// Whether the plan has ended, or waits for a person: itself or one of its tasks is in the inbox, or what
/// has not begun waits for a tenant that a task in the inbox holds.
async fn rests(world: &World, plan: &PlanId) -> bool {
    let view = world.engine.view_plan(plan).await.unwrap();
    if view.plan.status.is_final() {
        return view.tally.active() == 0;
    }
    let inbox: Vec<_> = world.inbox().await.into_iter().filter(|item| item.kind != Kind::Failure).collect();
    let mut rests = view.plan.status == PlanStatus::Running && !view.interrupted;
    rests =
        !rests || inbox.iter().any(|item| item.plan.as_ref() == Some(plan)) || view.tally.of(TaskStatus::Pending) > 0;
    for row in world.engine.tasks_of(plan, &TaskStatus::ALL).await.unwrap() {
        let why = world.engine.why_task(&nth(plan, row.task.position)).await.unwrap();
        rests &= match (row.task.status, why.cause) {
            (_, "interrupted" | "approval" | "paused" | "frozen") => {
                inbox.iter().any(|item| item.plan.as_ref() == Some(plan))
            }
            (_, "locked") => {
                inbox.iter().any(|item| why.text.contains(&format!("of plan {} ", item.plan.as_ref().unwrap())))
            }
            (_, "planPaused" | "planInterrupted" | "planReady") => {
                inbox.iter().any(|item| item.plan.as_ref() == Some(plan))
            }
            // A slot of its plan is taken by something that was interrupted.
            (_, "slot") => {
                inbox.iter().any(|item| item.plan.as_ref() == Some(plan) && item.kind == Kind::InterruptedTask)
            }
            (status, _) => !status.is_active() && row.control.start.is_none(),
        };
    }
    rests
}

/// Brings a plan to its end, as a person would who follows what `why` says.
async fn ends(world: &World, plan: &PlanId) -> bool {
    if world.engine.view_plan(plan).await.unwrap().plan.status.is_final() {
        return true;
    }
    for row in world.engine.tasks_of(plan, &[TaskStatus::RollingBack]).await.unwrap() {
        let back = order(nth(plan, row.task.position), Command::Rollback { force: false });
        drop(world.engine.task(&back, &by("bob")).await);
    }
    drop(world.plan(plan, Verb::Resume).await);
    drop(world.plan(plan, Verb::Cancel).await);
    false
}

async fn until_all(world: &World, plans: &[PlanId], done: &[String], seed: u64, so: impl AsyncFn(&PlanId) -> bool) {
    let all = async {
        for plan in plans {
            while !so(plan).await {
                crate::world::a_moment().await;
            }
        }
    };
    if tokio::time::timeout(PATIENCE, all).await.is_err() {
        let mut text = format!("seed {seed}: {done:#?}\n");
        for plan in plans {
            text += &standing(world, plan).await;
        }
        panic!("{text}{:#?}", world.inbox().await);
    }
}

#[tokio::test]
async fn every_plan_ends_or_waits_in_the_inbox_and_can_be_brought_to_its_end() {
    for seed in seeds() {
        let mut chance = Chance(fastrand::Rng::with_seed(seed));
        let mut world = World::with(brief()).await;
        let (mut plans, mut done) = (Vec::new(), Vec::new());
        for round in 0..30 {
            if round % 10 == 0 {
                plans.push(world.start(&chance.plan()).await);
            }
            done.push(chance.act(&mut world, &plans).await);
        }
        until_all(&world, &plans, &done, seed, async |plan| rests(&world, plan).await).await;
        for tenant in TENANTS {
            world.tenant(tenant, Force::Unfreeze).await;
            for stage in ["a", "b", "c"] {
                world.script.heal(&format!("{tenant}/{stage}"));
            }
        }
        until_all(&world, &plans, &done, seed, async |plan| ends(&world, plan).await).await;
        until("nothing runs", async || world.engine.running() == 0).await;
    }
}

/// A few, and none by chance.
fn seeds() -> std::ops::Range<u64> {
    0..12
}
