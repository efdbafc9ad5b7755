//! Steps of attempts that go on from where this process left their tasks: judged by what is known here, and written in one trip.
//! What writes them fails if a row is not as it is known; then they are done the long way. Every write of a row raises its
//! version, so that nobody has asked for anything and nobody else owns it; and whoever begins with a higher fence marks the task
//! that it overtakes, so that the fence still is its tenant's highest.

use windlass_core::port::Refusal;
use windlass_core::port::state::{Step, Stepped, TenantRow, Writer};
use windlass_core::step::{Needs, TaskEntry, TenantEntry, World};
use windlass_core::time::Ms;

use super::commit::note;
use super::known::{Known, Left, Rows};
use super::write::{self, Stand};
use crate::Inner;
use crate::error::Failure;
use crate::pool::Lent;
use crate::text::Script;

/// What steps come to if everything is as it is known.
pub(super) struct Expected {
    world: World,
    known: Rows,
    answers: Vec<Stepped>,
}

impl Expected {
    /// `None` if what is stored decides.
    pub(super) fn of(known: &Known, steps: &[&Step], needs: &Needs) -> Option<Expected> {
        let is_tasks_alone = needs.plans.is_empty() && needs.ops.is_empty() && !needs.leases;
        if !is_tasks_alone || needs.tasks.len() != steps.len() {
            return None;
        }
        let known = known.of(&needs.tasks);
        let mut world = World::default();
        for step in steps {
            let (Writer::Owner { fence, .. }, [put]) = (&step.by, &step.tasks[..]) else { return None };
            let Left { row, leads } = &**known.get(&put.task.id)?;
            let tenant = TenantRow { fence: *fence, latest: None, started: Some(put.task.id.clone()) };
            let tenant = world.tenants.insert(row.task.tenant.clone(), TenantEntry { row: tenant, changed: false });
            // Whoever begins does not lead yet, and of two tasks of one tenant only one does.
            if !leads || row.task.fence != *fence || put.task.fence != *fence || tenant.is_some() {
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
