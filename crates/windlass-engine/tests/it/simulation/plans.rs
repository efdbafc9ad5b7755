//! Random plans.

use windlass_core::id::{StageName, TenantId};
use windlass_core::json::Json;
use windlass_core::plan::spec::{OnConflict, OnFailure, PlanFile, PlanSpec, Recovery, TaskFile, TaskSpec};
use windlass_core::retry::Retry;
use windlass_core::stage::{Action, Approval, Handler, Sleep, Stage};

/// Tenants that plans share.
pub(super) const TENANTS: u32 = 8;

pub(super) fn tenant(n: u32) -> TenantId {
    format!("t{n}").parse().unwrap()
}

/// The place of a stage, which is in its name.
pub(super) fn index_of(stage: &StageName) -> u32 {
    stage.as_str()[1..].parse().unwrap()
}

/// Whether a stage may be done without the target hearing of it.
pub(super) fn is_silent(stage: &Stage) -> bool {
    !matches!(stage.action, Action::Handler(_)) || stage.when.is_some()
}

/// A plan that nobody has written.
pub(super) fn random(dice: &mut fastrand::Rng, name: &str) -> PlanFile {
    let undo = dice.u32(..5) == 0;
    let stages = (0..dice.u32(1..=5)).map(|index| stage(dice, index, undo)).collect();
    let mut tenants: Vec<u32> = (0..TENANTS).collect();
    dice.shuffle(&mut tenants);
    let tasks = tenants.into_iter().take(dice.usize(1..=TENANTS as usize)).map(|tenant| task(dice, tenant)).collect();
    let spec = PlanSpec {
        max_concurrency: dice.u32(1..=5),
        on_conflict: [OnConflict::Skip, OnConflict::Wait, OnConflict::Wait, OnConflict::Refuse][dice.usize(..4)],
        on_failure: [OnFailure::Continue, OnFailure::Continue, OnFailure::Stop, OnFailure::Pause][dice.usize(..4)],
        recovery: [Recovery::Manual, Recovery::Auto][dice.usize(..2)],
        retry_limit: [None, None, Some(0), Some(1)][dice.usize(..4)],
        stages,
    };
    PlanFile { name: name.parse().unwrap(), id: None, spec, tasks }
}

fn task(dice: &mut fastrand::Rng, n: u32) -> TaskFile {
    let json = |text: &str| Some(Json::parse(text).unwrap());
    let previous = if dice.u32(..3) > 0 { json("\"old\"") } else { None };
    TaskFile { tenant: tenant(n), spec: TaskSpec { config: json("\"new\""), previous, ..TaskSpec::default() } }
}

fn stage(dice: &mut fastrand::Rng, index: u32, undo: bool) -> Stage {
    let action = match dice.u32(..10) {
        0 => Action::Sleep(Sleep { for_ms: dice.u64(1..3_000) }),
        1 => Action::Approval(Approval { message: "Well?".to_owned() }),
        _ => call(),
    };
    Stage {
        name: format!("s{index}").parse().unwrap(),
        action,
        when: (dice.u32(..12) == 0).then(|| if dice.bool() { "true" } else { "false" }.to_owned()),
        timeout_ms: [500, 2_000, 60_000, 60_000][dice.usize(..4)],
        retry: Retry { max: dice.u32(..3), backoff_ms: 200, max_backoff_ms: 1_000 },
        undo: (undo && dice.bool()).then(call),
    }
}

fn call() -> Action {
    Action::Handler(Handler { name: "do".to_owned(), args: Json::null() })
}
