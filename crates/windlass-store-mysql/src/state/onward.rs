//! Steps of attempts that go on from where this process left their tasks: judged by what is known here, and written in one trip.
//! What writes them fails if a row is not as it is known; then they are done the long way. Every write of a row raises its
//! version, so that nobody has asked for anything and nobody else owns it; and whoever begins with a higher fence marks the task
//! that it overtakes, so that the fence still is its tenant's highest.

use windlass_core::fence::Fence;
use windlass_core::port::Refusal;
use windlass_core::port::state::{Step, Stepped, TaskPut, TenantRow, Writer};
use windlass_core::step::{TaskEntry, TenantEntry, World};
use windlass_core::time::Ms;

use super::commit::note;
use super::known::{Known, Left, Rows};
use super::write::{self, Stand};
use crate::Inner;
use crate::error::Failure;
use crate::pool::Lent;
use crate::text::Script;

/// Whether the attempt that writes this has begun before, and writes nothing but its task: then it may be as it is known.
pub(super) fn goes_on(step: &Step) -> bool {
    put(step).is_some_and(|(put, _)| put.from.iter().all(|from| from.is_running()))
}

/// The one task that a step of its owner is about, and the fence, if it is about nothing else.
fn put(step: &Step) -> Option<(&TaskPut, Fence)> {
    let Step { by: Writer::Owner { fence, .. }, plan: None, ask: None, tasks, events, .. } = step else { return None };
    let [put] = &tasks[..] else { return None };
    events.iter().all(|event| event.task.as_ref() == Some(&put.task.id)).then_some((put, *fence))
}

/// What steps come to if everything is as it is known.
pub(super) struct Expected {
    world: World,
    known: Rows,
    answers: Vec<Stepped>,
}

impl Expected {
    /// `None` if what is stored decides.
    pub(super) fn of(known: &Known, steps: &[&Step]) -> Option<Expected> {
        let puts: Vec<_> = steps.iter().map(|step| put(step)).collect::<Option<_>>()?;
        let known = known.of(puts.iter().map(|(put, _)| put.task.id.as_str()));
        let mut world = World::default();
        for (put, fence) in puts {
            let Left { row, leads } = &**known.get(&put.task.id)?;
            let tenant = TenantRow { fence, latest: None, started: Some(put.task.id.clone()) };
            let tenant = world.tenants.insert(row.task.tenant.clone(), TenantEntry { row: tenant, changed: false });
            // Whoever begins does not lead yet, and of two tasks of one tenant only one does.
            if !leads || row.task.fence != fence || put.task.fence != fence || tenant.is_some() {
                return None;
            }
            world.tasks.insert(put.task.id.clone(), TaskEntry::stored(row.clone()));
        }
        // What is refused, and what is a repeat, is looked at.
        let answers: Vec<_> = steps.iter().map(|step| world.commit(step)).collect::<Result<_, _>>().ok()?;
        world.tasks.values().all(|entry| entry.changed).then_some(Expected { world, known, answers })
    }

    /// Writes it, unless something is not as it was expected.
    pub(super) async fn write(
        self,
        tx: &mut Lent<'_>,
        inner: &Inner,
    ) -> Result<Vec<Result<Stepped, Refusal>>, Failure> {
        let Expected { mut world, known, answers } = self;
        world.wakes |= inner.roomy.lacks_one_of(&world.freed);
        let mut script = Script::begin();
        script.say(&format!("SET @at = {}", inner.clock.now()));
        script.ask("SELECT @at");
        write::script(&mut script, &world, &known, Stand::Expected)?;
        let at: Ms = tx.commit(script).await?.now()?;
        for op in world.tasks.values_mut().filter_map(|entry| entry.row.op.as_mut()) {
            op.at = at;
        }
        note(inner, world);
        Ok(answers.into_iter().map(|stepped| Ok(Stepped { at, ..stepped })).collect())
    }
}
