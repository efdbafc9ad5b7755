//! What may happen to a trigger. People's rules answer the whole record; those of whoever has claimed its
//! occurrence answer what it comes to ([`Outcome`]), which never touches what people say of it.

use serde::{Deserialize, Serialize};

use super::schedule::{Missed, Schedule, Verdict, judge};
use super::{ERROR_BYTES_MAX, Made, Note, Noted, Recovery, Run, Trigger, TriggerSpec, TriggerStatus};
use crate::fence::Fence;
use crate::id::{InstanceId, TriggerId};
use crate::job::Asker;
use crate::port::Refusal;
use crate::time::Ms;

/// What an owner's step comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Where the trigger stands.
    pub run: Run,
    /// An occurrence that leaves a recurring trigger.
    pub child: Option<Trigger>,
    /// What to tell people.
    pub notes: Vec<Note>,
}

/// What to do with a claimed occurrence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judged {
    /// Carry it out. The first write under the fence if the occurrence is another one than the stored, so that
    /// whoever takes over carries out the same.
    Fire(Option<Outcome>),
    /// Nothing is to be carried out now.
    Settle(Outcome),
}

/// A new trigger, saved now. `None`: it would never fire.
#[must_use]
pub fn create(id: TriggerId, spec: TriggerSpec, now: Ms) -> Option<Trigger> {
    let first = spec.schedule.first(now)?;
    Some(Trigger { id, parent: None, spec, saved_at: now, paused: None, run: waits(first, first), version: 0 })
}

/// The trigger with another specification. What it was is forgotten, but its fence.
#[must_use]
pub fn replace(stored: &Trigger, spec: TriggerSpec, now: Ms) -> Option<Trigger> {
    let new = create(stored.id.clone(), spec, now)?;
    let run = Run { fence: stored.run.fence, made: stored.run.made.clone(), ..new.run };
    Some(Trigger { paused: stored.paused.clone(), parent: stored.parent.clone(), version: stored.version, run, ..new })
}

/// Whether a person may write `new` over `stored`: read at its version, and nobody carries it out, unless only
/// `paused` changes. Every store asks this.
pub fn may_save(stored: Option<&Trigger>, new: &Trigger, now: Ms) -> Result<(), Refusal> {
    new.spec.check()?;
    let Some(stored) = stored else {
        return match new.version {
            0 => Ok(()),
            _ => Err(Refusal::NotFound(format!("trigger {}", new.id))),
        };
    };
    if new.version == 0 {
        return Err(Refusal::Exists(format!("trigger {}", new.id)));
    }
    if new.version != stored.version {
        return Err(Refusal::Version { given: new.version, stored: stored.version });
    }
    let busy = stored.run.status == TriggerStatus::Processing && stored.run.lease_until > now;
    if busy && (new.run != stored.run || new.spec != stored.spec) {
        return Err(Refusal::Owned { owner: stored.run.owner.clone(), until: stored.run.lease_until });
    }
    Ok(())
}

/// Claims what is due for `owner`. An occurrence whose owner was not heard of again counts as tried.
#[must_use]
pub fn claim(stored: &Run, owner: &InstanceId, fence: Fence, lease_ms: u64, now: Ms) -> Run {
    Run {
        retry_count: stored.retry_count + u32::from(stored.status == TriggerStatus::Processing),
        status: TriggerStatus::Processing,
        owner: Some(owner.clone()),
        fence,
        lease_until: now.plus(lease_ms),
        ..stored.clone()
    }
}

/// Whether `fence` still owns it and may write; `false`: it has been settled under this fence before, and that stands.
pub fn holds(run: &Run, fence: Fence) -> Result<bool, Refusal> {
    match run.fence == fence {
        true => Ok(run.status == TriggerStatus::Processing),
        false => Err(Refusal::Stale { given: fence, stored: run.fence }),
    }
}

/// What a person's write makes of what is stored, if [`may_save`] lets it. Fences are the store's.
pub fn save(stored: Option<&Trigger>, new: &Trigger, now: Ms) -> Result<Trigger, Refusal> {
    may_save(stored, new, now)?;
    let (fence, version) = stored.map_or((Fence::NONE, 0), |stored| (stored.run.fence, stored.version));
    Ok(Trigger { run: Run { fence, ..new.run.clone() }, version: version + 1, ..new.clone() })
}

/// Whether a person's write takes an occurrence away from an owner who was not heard of again. It is written under a
/// new fence, so that what that owner says later is stale.
#[must_use]
pub fn takes_away(stored: Option<&Trigger>, new: &Trigger) -> bool {
    let processing = |trigger: &Trigger| trigger.run.status == TriggerStatus::Processing;
    stored.is_some_and(processing) && !processing(new)
}

/// What an owner's step makes of what is stored: a lease that goes on stays as it is. `None`: this was written before,
/// and stands.
pub fn settle(stored: &Run, fence: Fence, run: &Run) -> Result<Option<Run>, Refusal> {
    if !holds(stored, fence)? {
        return Ok(None);
    }
    let mut run = Run { fence, ..run.clone() };
    if run.status == TriggerStatus::Processing {
        run.owner.clone_from(&stored.owner);
        run.lease_until = stored.lease_until;
    }
    let changes = run != *stored;
    Ok(changes.then_some(run))
}

/// The claim goes on.
pub fn renew(stored: &Run, fence: Fence, lease_ms: u64, now: Ms) -> Result<Run, Refusal> {
    match holds(stored, fence)? {
        true => Ok(Run { lease_until: now.plus(lease_ms), ..stored.clone() }),
        false => Err(Refusal::State { status: stored.status.name(), expected: "PROCESSING".into() }),
    }
}

/// Since when and until when there is a scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alive {
    /// Since when, without a gap.
    pub since: Ms,
    /// Until when the longest lease of a claim runs.
    pub until: Ms,
}

impl Alive {
    /// After a claim: a gap is where no lease ran.
    #[must_use]
    pub fn claims(self, lease_ms: u64, now: Ms) -> Alive {
        let since = if now > self.until { now } else { self.since };
        Alive { since, until: self.until.max(now.plus(lease_ms)) }
    }
}

/// Judges a claimed occurrence. `alive_since` is since when there has been a scheduler without a gap.
#[must_use]
pub fn judge_claimed(trigger: &Trigger, alive_since: Ms, grace_ms: u64, now: Ms) -> Judged {
    let (run, spec) = (&trigger.run, &trigger.spec);
    if run.retry_count > spec.max_retries {
        return Judged::Settle(died(trigger, "whoever carried it out was not heard of again", now));
    }
    // What has been tried is what it is; what a person added or fired is what they meant.
    if run.retry_count > 0 || run.asked || trigger.parent.is_some() {
        return Judged::Fire(None);
    }
    if spec.recovery == Recovery::Held && run.trigger_at < alive_since {
        let held = Run { held: true, ..waits(run.trigger_at, run.try_at).after(run) };
        return Judged::Settle(Outcome { run: held, child: None, notes: vec![note(trigger, Noted::Held, now)] });
    }
    let Verdict { fire, missed, next } =
        judge(&spec.schedule, spec.misfire, run.trigger_at, now, grace_ms, trigger.saved_at);
    let notes: Vec<Note> = missed.map(|missed| missed_note(missed, now)).into_iter().collect();
    match fire {
        Some(at) if at == run.trigger_at => Judged::Fire(None),
        Some(at) => Judged::Fire(Some(Outcome { run: Run { trigger_at: at, ..run.clone() }, child: None, notes })),
        None => Judged::Settle(Outcome { run: goes_on(trigger, next, now), child: None, notes }),
    }
}

/// It fired.
#[must_use]
pub fn fired(trigger: &Trigger, made: Made, now: Ms) -> Outcome {
    let run = Run { made: Some(made.clone()), ..goes_on(trigger, following(trigger), now) };
    Outcome { run, child: None, notes: vec![note(trigger, Noted::Fired(made), now)] }
}

/// It is left out.
#[must_use]
pub fn skipped(trigger: &Trigger, why: &str, now: Ms) -> Outcome {
    let notes = vec![note(trigger, Noted::Skipped(cut(why)), now)];
    Outcome { run: goes_on(trigger, following(trigger), now), child: None, notes }
}

/// It failed: tried again after a pause, or dead.
#[must_use]
pub fn failed(trigger: &Trigger, error: &str, spread: u16, now: Ms) -> Outcome {
    let tried = trigger.run.retry_count + 1;
    if tried > trigger.spec.max_retries {
        return died(trigger, error, now);
    }
    let try_at = now.plus(trigger.spec.backoff.delay_ms(tried, spread));
    let run = Run {
        retry_count: tried,
        asked: trigger.run.asked,
        error: Some(cut(error)),
        ..waits(trigger.run.trigger_at, try_at).after(&trigger.run)
    };
    Outcome { run, child: None, notes: vec![note(trigger, Noted::Failed(cut(error)), now)] }
}

/// Not now: it is tried again at `try_at`, and this does not count.
#[must_use]
pub fn put_back(trigger: &Trigger, try_at: Ms) -> Outcome {
    let run = Run {
        retry_count: trigger.run.retry_count,
        asked: trigger.run.asked,
        error: trigger.run.error.clone(),
        ..waits(trigger.run.trigger_at, try_at).after(&trigger.run)
    };
    Outcome { run, child: None, notes: Vec::new() }
}

/// The occurrence is dead; a recurring trigger goes on without it.
fn died(trigger: &Trigger, error: &str, now: Ms) -> Outcome {
    let dead = Run {
        status: TriggerStatus::Dead,
        retry_count: trigger.run.retry_count,
        error: Some(cut(error)),
        ended_at: Some(now),
        ..waits(trigger.run.trigger_at, trigger.run.trigger_at).after(&trigger.run)
    };
    let notes = vec![note(trigger, Noted::Died(cut(error)), now)];
    match trigger.spec.schedule.is_recurring() {
        false => Outcome { run: dead, child: None, notes },
        true => {
            let child = leaves(trigger, trigger.run.trigger_at, dead);
            Outcome { run: goes_on(trigger, following(trigger), now), child: Some(child), notes }
        }
    }
}

/// A person fires it: a single one fires now, a recurring one has one occurrence more. Answers what to write.
pub fn fire(trigger: &Trigger, asker: &Asker) -> Result<(Trigger, Note), Refusal> {
    let now = asker.at;
    let (status, again) = (trigger.run.status, trigger.run.held || trigger.run.status == TriggerStatus::Dead);
    let added = |of: &Trigger| note(of, Noted::Added(asker.clone()), now);
    let recurring = trigger.spec.schedule.is_recurring();
    if again {
        // The occurrence that waits for a person, as it was.
        let run = Run { asked: true, ..waits(trigger.run.trigger_at, now).after(&trigger.run) };
        let paused = trigger.paused.clone().filter(|_| recurring);
        let fired = Trigger { run, paused, ..trigger.clone() };
        let note = added(&fired);
        return Ok((fired, note));
    }
    if recurring {
        let child = Trigger { version: 0, ..leaves(trigger, now, waits(now, now)) };
        let note = added(&child);
        return Ok((child, note));
    }
    match status {
        TriggerStatus::Pending => {
            // One whose time has come may have been tried: it stays the same occurrence, under the same key.
            let at = trigger.run.trigger_at.min(now);
            let run = Run { asked: true, ..waits(at, now).after(&trigger.run) };
            let fired = Trigger { run, paused: None, ..trigger.clone() };
            let note = added(&fired);
            Ok((fired, note))
        }
        status => Err(Refusal::State { status: status.name(), expected: "PENDING or DEAD".into() }),
    }
}

/// A person skips the occurrence that is held, dead or next.
pub fn skip(trigger: &Trigger, asker: &Asker) -> Result<(Trigger, Note), Refusal> {
    match trigger.run.status {
        TriggerStatus::Pending | TriggerStatus::Dead => {
            let noted = note(trigger, Noted::Skipped(format!("by {}", asker.by)), asker.at);
            let next = following(trigger).filter(|_| trigger.run.status != TriggerStatus::Dead);
            // What passed while it was held is not made up for.
            let next = next.and_then(|next| match trigger.run.held && next <= asker.at {
                true => trigger.spec.schedule.next(asker.at, trigger.saved_at),
                false => Some(next),
            });
            Ok((Trigger { run: goes_on(trigger, next, asker.at), ..trigger.clone() }, noted))
        }
        status => Err(Refusal::State { status: status.name(), expected: "PENDING or DEAD".into() }),
    }
}

/// A person pauses it; what is being carried out ends first.
#[must_use]
pub fn pause(trigger: &Trigger, asker: &Asker) -> Trigger {
    Trigger { paused: Some(trigger.paused.clone().unwrap_or_else(|| asker.clone())), ..trigger.clone() }
}

/// A person lets it go on: a recurring one with the next occurrence that comes, a single one at its time or now.
#[must_use]
pub fn resume(trigger: &Trigger, now: Ms) -> (Trigger, Option<Note>) {
    let resumed = Trigger { paused: None, ..trigger.clone() };
    let run = &trigger.run;
    let passed = run.status == TriggerStatus::Pending && run.trigger_at < now && run.retry_count == 0 && !run.held;
    let passed = passed && !run.asked;
    if trigger.paused.is_none() || !passed || !trigger.spec.schedule.is_recurring() {
        return (resumed, None);
    }
    let next = trigger.spec.schedule.next(now, trigger.saved_at);
    let noted =
        note(trigger, Noted::Skipped("it and what came after it fell due while the trigger was paused".into()), now);
    (Trigger { run: goes_on(trigger, next, now), ..resumed }, Some(noted))
}

/// The occurrence after the one at hand.
fn following(trigger: &Trigger) -> Option<Ms> {
    let schedule = &trigger.spec.schedule;
    schedule.next(trigger.run.trigger_at, trigger.saved_at).filter(|_| schedule.is_recurring())
}

/// The trigger at its next occurrence, or at its end.
fn goes_on(trigger: &Trigger, next: Option<Ms>, now: Ms) -> Run {
    match next {
        Some(at) => waits(at, at).after(&trigger.run),
        None => Run {
            status: TriggerStatus::Completed,
            ended_at: Some(now),
            ..waits(trigger.run.trigger_at, trigger.run.trigger_at).after(&trigger.run)
        },
    }
}

fn waits(trigger_at: Ms, try_at: Ms) -> Run {
    Run {
        status: TriggerStatus::Pending,
        trigger_at,
        try_at,
        retry_count: 0,
        held: false,
        asked: false,
        owner: None,
        lease_until: Ms::ZERO,
        fence: Fence::NONE,
        error: None,
        made: None,
        ended_at: None,
    }
}

impl Run {
    /// With what stays from one state to the next: the fence, and what was last made.
    fn after(self, before: &Run) -> Run {
        Run { fence: before.fence, made: before.made.clone(), ..self }
    }
}

/// An occurrence with a record of its own.
fn leaves(trigger: &Trigger, at: Ms, run: Run) -> Trigger {
    let spec = TriggerSpec { schedule: Schedule::At(at), ..trigger.spec.clone() };
    Trigger {
        id: TriggerId::of(trigger.origin(), at.get()),
        parent: Some(trigger.origin().clone()),
        spec,
        saved_at: trigger.saved_at,
        paused: None,
        run,
        version: 0,
    }
}

fn note(trigger: &Trigger, what: Noted, at: Ms) -> Note {
    Note { at, occurrence: trigger.run.trigger_at, what }
}

fn missed_note(missed: Missed, at: Ms) -> Note {
    Note { at, occurrence: missed.first, what: Noted::Missed { count: missed.count, last: missed.last } }
}

fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(ERROR_BYTES_MAX)].to_owned()
}
