//! Triggers, as people and the scheduler of one instance see them. Rules are the core's, times the store's; what an
//! occurrence does when it fires is in `fire.rs`.

mod fire;
mod scheduler;

use std::sync::Arc;

use windlass_core::id::TriggerId;
use windlass_core::job::Asker;
use windlass_core::plan::file::{self, Format};
use windlass_core::port::trigger::{Save, TriggerFilter, Triggers};
use windlass_core::port::{Cursor, PAGE_MAX, Page, PortError, Refusal};
use windlass_core::time::Ms;
use windlass_core::trigger::target::Target;
use windlass_core::trigger::{Note, Trigger, TriggerSpec, rules};

pub(crate) use scheduler::schedule;

use crate::Engine;
use crate::command::{Caller, ROUNDS_MAX};
use crate::error::Error;
use crate::shared::Shared;

/// What people do with triggers.
pub struct Timetable<'a> {
    shared: &'a Arc<Shared>,
    port: &'a Arc<dyn Triggers>,
}

impl Engine {
    /// Its triggers.
    pub fn triggers(&self) -> Result<Timetable<'_>, Error> {
        match &self.0.triggers {
            Some(port) => Ok(Timetable { shared: &self.0, port }),
            None => Err(Error::Invalid(crate::stage::NO_STORE.to_owned())),
        }
    }
}

/// A change that a rule decides on: what to write, and what to tell people.
type Decided = Result<(Trigger, Option<Note>), Refusal>;

impl Timetable<'_> {
    /// Saves a trigger under `id`, or under a new one: it replaces what was there, if nobody carries that out now.
    pub async fn save(&self, id: Option<TriggerId>, spec: TriggerSpec, caller: &Caller) -> Result<Trigger, Error> {
        self.shared.can_fire(&spec)?;
        let id = match id {
            Some(id) => id,
            None => self.new_id()?,
        };
        self.write(&id, caller, |stored, now| {
            let trigger = match stored {
                Some(stored) => rules::replace(stored, spec.clone(), now),
                None => rules::create(id.clone(), spec.clone(), now),
            };
            let never = || Refusal::Invalid("/schedule: it has no occurrence that is still to come".to_owned());
            Ok((trigger.ok_or_else(never)?, None))
        })
        .await
    }

    fn new_id(&self) -> Result<TriggerId, Error> {
        let text = format!("t-{:016x}{:016x}", self.shared.random(), self.shared.random());
        text.parse().map_err(|_| Error::Invalid(format!("{text} is no trigger id")))
    }

    /// A trigger as it is stored now.
    pub async fn get(&self, id: &TriggerId) -> Result<Trigger, Error> {
        self.find(id).await?.ok_or_else(|| unknown(id).into())
    }

    /// Its newest notes: fired, missed, skipped, failed, and why.
    pub async fn notes(&self, id: &TriggerId) -> Result<Vec<Note>, Error> {
        Ok(self.port.notes(id).await?)
    }

    /// A page of triggers.
    pub async fn list(
        &self,
        filter: &TriggerFilter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<Trigger>, Error> {
        Ok(self.port.list(filter, after, limit.clamp(1, PAGE_MAX)).await?)
    }

    /// When a schedule would fire if it were saved now: its next `n` times.
    #[must_use]
    pub fn preview(&self, spec: &TriggerSpec, n: usize) -> Vec<Ms> {
        let now = self.shared.store_now();
        // A first time that has passed is due at once, and no other comes before now.
        let first = spec.schedule.first(now).into_iter();
        first.chain(spec.schedule.upcoming(now, now, n)).scan(None, distinct).flatten().take(n).collect()
    }

    /// Removes a trigger; `false` if there is none. What is being carried out is not written any more.
    pub async fn remove(&self, id: &TriggerId) -> Result<bool, Error> {
        self.shared.is_open()?;
        Ok(self.port.remove(std::slice::from_ref(id)).await?.into_iter().next().unwrap_or(false))
    }

    /// Fires: a single one now instead of at its time, a recurring one once more, a held or dead one again. Answers the
    /// trigger whose occurrence it is.
    pub async fn fire(&self, id: &TriggerId, caller: &Caller) -> Result<Trigger, Error> {
        self.change(id, caller, |stored, asker| rules::fire(stored, asker).map(|(trigger, note)| (trigger, Some(note))))
            .await
    }

    /// Leaves out the occurrence that is held, dead, or next.
    pub async fn skip(&self, id: &TriggerId, caller: &Caller) -> Result<Trigger, Error> {
        self.change(id, caller, |stored, asker| rules::skip(stored, asker).map(|(trigger, note)| (trigger, Some(note))))
            .await
    }

    /// Nothing of it fires any more, until it is resumed.
    pub async fn pause(&self, id: &TriggerId, caller: &Caller) -> Result<Trigger, Error> {
        self.change(id, caller, |stored, asker| Ok((rules::pause(stored, asker), None))).await
    }

    /// It goes on.
    pub async fn resume(&self, id: &TriggerId, caller: &Caller) -> Result<Trigger, Error> {
        self.change(id, caller, |stored, asker| Ok(rules::resume(stored, asker.at))).await
    }

    async fn change(
        &self,
        id: &TriggerId,
        caller: &Caller,
        rule: impl Fn(&Trigger, &Asker) -> Decided,
    ) -> Result<Trigger, Error> {
        self.write(id, caller, |stored, now| {
            let stored = stored.ok_or_else(|| unknown(id))?;
            rule(stored, &Asker { by: caller.by.clone(), reason: caller.reason.clone(), at: now })
        })
        .await
    }

    /// Load, decide, write at the version that was read; again if somebody was faster.
    async fn write(
        &self,
        id: &TriggerId,
        caller: &Caller,
        decide: impl Fn(Option<&Trigger>, Ms) -> Decided,
    ) -> Result<Trigger, Error> {
        self.shared.is_open()?;
        // Two occurrences that are added in one millisecond are two.
        let mut later = 0;
        for _ in 0..ROUNDS_MAX {
            let stored = self.find(id).await?;
            let now = self.shared.store_now().plus(later);
            let (trigger, note) = decide(stored.as_ref(), now)?;
            if caller.dry_run {
                rules::may_save(stored.as_ref().filter(|stored| stored.id == trigger.id), &trigger, now)?;
                return Ok(trigger);
            }
            let save = Save { trigger, notes: note.into_iter().collect() };
            let saves = [save];
            let answer = self.port.save(&saves).await?.pop();
            let [Save { trigger, .. }] = saves;
            match answer {
                Some(Ok(version)) => return Ok(Trigger { version, ..trigger }),
                Some(Err(Refusal::Version { .. })) => {}
                Some(Err(Refusal::Exists(_))) => later += 1,
                Some(Err(refusal)) => return Err(refusal.into()),
                None => return Err(PortError::Corrupt("the store answered nothing".to_owned()).into()),
            }
        }
        Err(Error::Contended)
    }

    async fn find(&self, id: &TriggerId) -> Result<Option<Trigger>, Error> {
        Ok(self.port.load(std::slice::from_ref(id)).await?.pop().flatten())
    }
}

fn unknown(id: &TriggerId) -> Refusal {
    Refusal::NotFound(format!("trigger {id}"))
}

/// Each time once, of times in order.
#[expect(clippy::unnecessary_wraps, reason = "what `scan` wants")]
fn distinct(last: &mut Option<Ms>, at: Ms) -> Option<Option<Ms>> {
    Some((last.replace(at) != Some(at)).then_some(at))
}

impl Shared {
    /// Whether what it does could ever work: refused now rather than late.
    fn can_fire(&self, spec: &TriggerSpec) -> Result<(), Error> {
        spec.check()?;
        match &spec.target {
            Target::Plan(plan) => {
                let file = file::parse(plan.as_str(), Format::Json);
                let file = file.map_err(|problems| Error::Invalid(format!("/target/plan: {problems}")))?;
                self.can_carry_out(&file)
            }
            Target::Job(_) if self.queues.is_none() => Err(Error::Invalid(crate::stage::NO_STORE.to_owned())),
            _ => Ok(()),
        }
    }
}
