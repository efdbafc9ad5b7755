//! One of the two that are compared: a store or the model, and what its callers remember.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use windlass_core::fence::Fence;
use windlass_core::job::Backoff;
use windlass_core::json::Json;
use windlass_core::port::trigger::{Save, TriggerFilter, Triggers};
use windlass_core::port::{Cursor, PortError, Refusal};
use windlass_core::time::Ms;
use windlass_core::trigger::rules::{self, Judged, Outcome};
use windlass_core::trigger::schedule::Schedule;
use windlass_core::trigger::{Recovery, Trigger, TriggerSpec, TriggerStatus};

use super::call::{Call, Does, Draft, End, FILTERS, RIVALS, Says, TRIGGERS, What, When};
use crate::random::{GRAIN_MS, Scale, refusal};
use crate::trigger::TriggerHarness;
use crate::trigger::world::{asker, claim_of, made, spec};
use crate::world::id;

/// How far a clock jumps: a short lease ends before it, a long one after one jump and not two.
const JUMP_MS: u64 = 10 * GRAIN_MS;

/// Times of callers lie a quarter of a grain before those of the store, each call's a little after the one's before it,
/// so that the real milliseconds of a store never decide anything.
fn step_ms(n: u64) -> u64 {
    n * 200
}

pub(super) struct Side<'h> {
    store: &'h dyn TriggerHarness,
    rivals: Vec<(Arc<dyn Triggers>, u64)>,
    scale: Scale,
    /// Every trigger that was ever read or claimed, the newest last.
    read: BTreeMap<u32, Vec<Trigger>>,
    claimed: BTreeMap<u32, Vec<Trigger>>,
}

fn name(n: u32) -> String {
    format!("trigger-{n}")
}

impl<'h> Side<'h> {
    pub(super) async fn new(store: &'h dyn TriggerHarness) -> Side<'h> {
        let mut rivals = Vec::new();
        for _ in 0..RIVALS {
            rivals.push((store.open_triggers(0).await, 0));
        }
        let base = rivals[0].0.claim_due(&id("clock"), 1, 0).await.expect("claim_due").at;
        let scale = Scale { base, fences: Vec::new() };
        Side { store, rivals, scale, read: BTreeMap::new(), claimed: BTreeMap::new() }
    }

    /// What a caller takes for the time.
    fn now(&self, call: &Call) -> Ms {
        let ahead_ms = self.rivals[call.rival as usize].1;
        self.scale.base.plus(ahead_ms).minus(GRAIN_MS / 4).plus(step_ms(call.n))
    }

    /// Makes the call; answers what came of it, comparably.
    pub(super) async fn make(&mut self, call: &Call) -> String {
        let rival = call.rival as usize;
        let (port, ahead_ms) = self.rivals[rival].clone();
        let text = match &call.what {
            What::Later => {
                self.rivals[rival] = (self.store.open_triggers(ahead_ms + JUMP_MS).await, ahead_ms + JUMP_MS);
                String::new()
            }
            What::Restart => {
                self.store.restart().await;
                for rival in &mut self.rivals {
                    rival.0 = self.store.open_triggers(rival.1).await;
                }
                String::new()
            }
            What::Save(drafts) => {
                let saves: Vec<_> = drafts.iter().map(|draft| self.new_trigger(draft, call)).collect();
                each(port.save(&saves).await)
            }
            What::Person { trigger, does, late } => self.person(&*port, *trigger, *does, *late, call).await,
            What::Remove { triggers } => {
                let ids: Vec<_> = triggers.iter().map(|n| id(&name(*n))).collect();
                whole(port.remove(&ids).await)
            }
            What::Claim { limit, long } => self.claim(&*port, *limit, *long, call).await,
            What::Settle(all) => {
                let settles: Vec<_> = all.iter().filter_map(|says| self.settle(says, call)).collect();
                each(port.settle(&settles).await)
            }
            What::Renew { trigger, late, long } => match self.known(&self.claimed, *trigger, *late) {
                Some(owned) => each(port.renew(&[claim_of(owned)], lease_ms(*long, call)).await),
                None => String::new(),
            },
            What::FindDue { limit } => whole(port.find_due(self.now(call), *limit).await),
            What::List { filter, limit } => self.list(rival, *filter, *limit).await,
            What::Purge { limit } => whole(port.purge(self.now(call), *limit).await),
        };
        self.plain(&text)
    }

    fn new_trigger(&self, draft: &Draft, call: &Call) -> Save {
        let now = self.now(call);
        let schedule = match draft.when {
            When::Past => Schedule::At(now),
            When::Soon => Schedule::At(now.plus(4 * GRAIN_MS)),
            When::Every => Schedule::Every { every_ms: 3 * GRAIN_MS, from: Some(now) },
        };
        let spec = TriggerSpec {
            schedule,
            tenant: draft.tenant.map(|n| id(&format!("tenant-{n}"))),
            recovery: if draft.held { Recovery::Held } else { Recovery::Auto },
            max_retries: draft.retries,
            backoff: Backoff { first_ms: GRAIN_MS, max_ms: GRAIN_MS },
            payload: draft.large.then(|| Json::of(&"x".repeat(2_100)).expect("JSON")),
            ..spec(r#"{"after": "1s"}"#)
        };
        let trigger = rules::create(id(&name(draft.trigger)), spec, now).expect("it fires");
        Save { trigger, notes: Vec::new() }
    }

    fn known<'a>(&self, of: &'a BTreeMap<u32, Vec<Trigger>>, n: u32, late: bool) -> Option<&'a Trigger> {
        of.get(&n).and_then(|all| all.iter().rev().nth(usize::from(late)).or(all.last()))
    }

    async fn person(&mut self, port: &dyn Triggers, n: u32, does: Does, late: bool, call: &Call) -> String {
        if !late {
            let stored = port.load(&[id(&name(n))]).await.expect("load").remove(0);
            self.read.entry(n).or_default().extend(stored);
        }
        let Some(read) = self.known(&self.read, n, late).cloned() else { return String::new() };
        let asker = asker(self.now(call));
        let (changed, note) = match does {
            Does::Pause => (rules::pause(&read, &asker), None),
            Does::Resume => rules::resume(&read, asker.at),
            Does::Fire | Does::Skip => {
                let act = if matches!(does, Does::Fire) { rules::fire } else { rules::skip };
                match act(&read, &asker) {
                    Ok((changed, note)) => (changed, Some(note)),
                    Err(why) => return refusal(&why),
                }
            }
            Does::Replace => {
                let spec = TriggerSpec {
                    schedule: Schedule::Every { every_ms: 2 * GRAIN_MS, from: Some(asker.at) },
                    ..read.spec.clone()
                };
                (rules::replace(&read, spec, asker.at).expect("it fires"), None)
            }
        };
        each(port.save(&[Save { trigger: changed, notes: note.into_iter().collect() }]).await)
    }

    async fn claim(&mut self, port: &dyn Triggers, limit: u32, long: bool, call: &Call) -> String {
        let owner = id(&format!("owner-{}", call.rival));
        let due = port.claim_due(&owner, lease_ms(long, call), limit).await.expect("claim_due");
        for trigger in &due.claimed {
            let n = (0..TRIGGERS).find(|n| name(*n) == trigger.id.as_str());
            self.claimed.entry(n.unwrap_or(TRIGGERS)).or_default().push(trigger.clone());
        }
        format!("{due:?}")
    }

    fn settle(&self, says: &Says, call: &Call) -> Option<(windlass_core::port::trigger::Claim, Outcome)> {
        let owned = self.known(&self.claimed, says.trigger, says.late)?;
        let now = self.now(call);
        let outcome = match says.end {
            End::Judged => match rules::judge_claimed(owned, self.scale.base, GRAIN_MS, now) {
                Judged::Fire(None) => rules::fired(owned, made(), now),
                Judged::Fire(Some(outcome)) | Judged::Settle(outcome) => outcome,
            },
            End::Fired => rules::fired(owned, made(), now),
            End::Failed => rules::failed(owned, "no", 0, now),
            End::Skipped => rules::skipped(owned, "not today", now),
            End::Back => rules::put_back(owned, now),
        };
        Some((claim_of(owned), outcome))
    }

    async fn list(&self, rival: usize, filter: u32, limit: u32) -> String {
        let (filter, mut all, mut after) = (filter_of(filter), Vec::new(), None::<Cursor>);
        loop {
            let page = self.rivals[rival].0.list(&filter, after.as_ref(), limit).await.expect("list");
            all.extend(page.items);
            after = page.next;
            if after.is_none() {
                return all.iter().map(|trigger| format!("{trigger:?}")).collect::<Vec<_>>().join("\n");
            }
        }
    }

    /// Fences by their order, times by their distance from the beginning.
    fn plain(&mut self, text: &str) -> String {
        let mut new: Vec<Fence> = text
            .split("Fence(")
            .skip(1)
            .filter_map(|rest| rest.split(')').next()?.parse().ok().map(Fence))
            .filter(|fence| *fence != Fence::NONE && !self.scale.fences.contains(fence))
            .collect();
        new.sort_unstable();
        new.dedup();
        self.scale.fences.extend(new);
        self.scale.plain(&self.named(text))
    }

    /// An occurrence's own record is named by its time: as far from the beginning as it is.
    fn named(&self, text: &str) -> String {
        let mut parts = text.split('-');
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            let (number, rest) = part.split_at(digits);
            match number.parse::<i64>() {
                Ok(ms) if digits > 10 => out += &format!("-at{}{rest}", ms - self.scale.base.get().cast_signed()),
                _ => out += &format!("-{part}"),
            }
        }
        out
    }

    /// All that is stored.
    pub(super) async fn everything(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        for filter in 0..FILTERS {
            let listed = self.list(0, filter, 1_000).await;
            all.push(format!("list {filter}: {}", self.plain(&listed)));
        }
        let port = Arc::clone(&self.rivals[0].0);
        for trigger in port.list(&TriggerFilter::default(), None, 1_000).await.expect("list").items {
            let notes = port.notes(&trigger.id).await.expect("notes");
            all.push(self.plain(&format!("notes of {}: {notes:?}", trigger.id)));
        }
        let due = port.find_due(Ms::MAX, 1_000).await.expect("find_due");
        let due = format!("due {:?}", due.iter().map(|due| due.id.as_str()).collect::<Vec<_>>());
        all.push(self.plain(&due));
        all
    }
}

/// Each call's leases end at a time of their own.
fn lease_ms(long: bool, call: &Call) -> u64 {
    (if long { 15 * GRAIN_MS } else { GRAIN_MS }) + step_ms(call.n)
}

fn filter_of(n: u32) -> TriggerFilter {
    let all = TriggerFilter::default();
    match n % FILTERS {
        0 => all,
        1 => TriggerFilter { tenant: Some(id("tenant-1")), ..all },
        2 => TriggerFilter { statuses: vec![TriggerStatus::Pending], ..all },
        3 => TriggerFilter { waiting: true, ..all },
        4 => TriggerFilter { waiting: true, statuses: vec![TriggerStatus::Dead], ..all },
        _ => TriggerFilter { statuses: vec![TriggerStatus::Completed, TriggerStatus::Processing], ..all },
    }
}

/// An answer per item, one line each.
fn each<T: Debug>(answers: Result<Vec<Result<T, Refusal>>, PortError>) -> String {
    let line = |answer: &Result<T, Refusal>| format!("{:?}", answer.as_ref().map_err(refusal));
    answers.map_or_else(|why| failed(&why), |answers| answers.iter().map(line).collect::<Vec<_>>().join("\n"))
}

fn whole<T: Debug>(answer: Result<T, PortError>) -> String {
    answer.map_or_else(|why| failed(&why), |answer| format!("{answer:?}\n"))
}

/// A call that failed as a whole; random calls may be wrong, but nothing is ever unavailable.
fn failed(why: &PortError) -> String {
    match why {
        PortError::Invalid(_) => "Invalid call".to_owned(),
        other => panic!("the store failed: {other}"),
    }
}
