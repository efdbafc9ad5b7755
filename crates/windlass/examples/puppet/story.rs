//! What happens to a plan of `kill_points` when nobody dies: that kills hit an approval, a retry, a rollback and pauses is so only
//! if there are any.

use windlass::Windlass;
use windlass::core::event::Fact;
use windlass::core::task::Cause;
use windlass::engine::command::task::Which;

use crate::script::{BACK, FORTH, PAUSE, Script, plan_id, task_id};

/// Counts what must have happened, besides effects.
pub(crate) async fn check(script: &Script, windlass: &Windlass) {
    let mut facts: Vec<Fact> = Vec::new();
    for position in 0..script.tenants.len() as u32 {
        let history = windlass.task_history(&Which::Task(task_id(position))).await.unwrap();
        facts.extend(history.into_iter().map(|event| event.fact));
    }
    facts.extend(windlass.plan_history(&plan_id()).await.unwrap().into_iter().map(|event| event.fact));
    let count = |is: fn(&Fact) -> bool| facts.iter().filter(|fact| is(fact)).count();
    let story = [
        count(|fact| matches!(fact, Fact::Approved(_))),
        count(|fact| matches!(fact, Fact::TaskRetryStarted(_))),
        count(|fact| matches!(fact, Fact::TaskRolledBack)),
        count(|fact| matches!(fact, Fact::TaskPaused { cause: Cause::Person })),
        count(|fact| matches!(fact, Fact::TaskPaused { cause: Cause::Plan })),
        count(|fact| matches!(fact, Fact::PlanPaused)),
    ];
    let expected = match script.name {
        name if name == FORTH.name => [1, 1, 0, 0, 0, 0],
        name if name == BACK.name => [0, 0, 2, 0, 0, 0],
        name if name == PAUSE.name => [0, 0, 0, 1, 2, 1],
        name => panic!("{name} has no story"),
    };
    assert_eq!(story, expected, "{}: {facts:?}", script.name);
}
