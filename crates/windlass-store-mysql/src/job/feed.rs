//! Which jobs have ended, as far as this process has heard: from itself at once, from others by what they leave in `job_feed`. Each
//! transaction leaves its ids under the next number of its shard, which it counts in the same transaction: what is not there any
//! more shows as a gap.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use tokio::sync::watch;
use windlass_core::id::JobId;
use windlass_core::job::recent::Recent;
use windlass_core::port::job::Ended;
use windlass_core::port::{Mark, PortError};

use crate::cell::Cells;
use crate::pool::Pool;
use crate::text::{Script, literal};

/// Transactions that a shard remembers.
const SLOTS: u64 = 64;
/// Ids that one of them names, at most. Beyond, others hear of a gap.
const IDS_MAX: usize = 1_000;
/// Digits of an id without its dashes.
const DIGITS: usize = 32;

/// How far each shard has counted.
pub(crate) type Counts = HashMap<u8, u64>;

pub(crate) struct Feed {
    /// Names this process in what it tells.
    tag: String,
    state: Mutex<State>,
    heard: watch::Sender<u64>,
}

struct State {
    recent: Recent,
    /// What was heard of others; nothing before the first look.
    seen: Option<Counts>,
}

impl Feed {
    /// `begin` is later than every mark of a process before.
    pub(crate) fn new(begin: u64) -> Feed {
        let state = State { recent: Recent::new(begin), seen: None };
        Feed { tag: format!("{:016x}", fastrand::u64(..)), state: Mutex::new(state), heard: watch::Sender::new(0) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn tag(&self) -> &str {
        &self.tag
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.heard.subscribe()
    }

    /// Jobs have ended here.
    pub(super) fn ended(&self, ids: &[JobId]) {
        if !ids.is_empty() {
            self.state().recent.push(ids.iter().copied());
            self.heard.send_modify(|n| *n += 1);
        }
    }

    /// What ended after `since`; `None` if nothing has.
    pub(crate) fn since(&self, since: Mark) -> Option<Ended> {
        self.state().recent.since(since)
    }

    /// Hears what others left since the last look.
    pub(crate) async fn hear(&self, pool: &Pool, counts: &Counts) -> Result<(), PortError> {
        let before = {
            let mut state = self.state();
            let Some(seen) = state.seen.clone() else {
                // What ended before nobody here has asked for.
                state.seen = Some(counts.clone());
                return Ok(());
            };
            seen
        };
        // A store that was put back to an earlier time counts from there.
        let back = counts.iter().any(|(shard, n)| before.get(shard).is_some_and(|before| n < before));
        let news: Vec<(u8, u64, u64)> = counts
            .iter()
            .map(|(shard, n)| (*shard, before.get(shard).copied().unwrap_or(0), *n))
            .filter(|(_, before, n)| n > before)
            .collect();
        if news.is_empty() && !back {
            return Ok(());
        }
        let which = news.iter().map(|(shard, before, n)| format!("(shard = {shard} AND n > {before} AND n <= {n})"));
        let which: Vec<String> = which.chain(["FALSE".to_owned()]).collect();
        let own = literal(&self.tag);
        let sql =
            format!("SELECT teller = {own}, IF(teller = {own}, NULL, ids) FROM job_feed WHERE {}", which.join(" OR "));
        let rows = pool.ask(&sql).await?;
        let expected: u64 = news.iter().map(|(_, before, n)| n - before).sum();
        let (mut ids, mut gap) = (Vec::new(), back || rows.len() as u64 != expected);
        for row in &rows {
            let cells = &mut Cells::of(row);
            if cells.flag()? {
                continue;
            }
            match cells.text_or_none()?.and_then(named) {
                Some(named) => ids.extend(named),
                None => gap = true,
            }
        }
        let mut state = self.state();
        state.seen = Some(counts.clone());
        state.recent.push(ids);
        if gap {
            state.recent.gap();
        }
        drop(state);
        self.heard.send_modify(|n| *n += 1);
        Ok(())
    }
}

/// Ids, one after the other.
fn named(text: &str) -> Option<Vec<JobId>> {
    let each = text.as_bytes().chunks(DIGITS).map(|id| {
        let digits = u128::from_str_radix(std::str::from_utf8(id).ok()?, 16).ok()?;
        JobId::of_bytes(digits.to_be_bytes())
    });
    each.collect()
}

/// Leaves what ended for others, in this transaction.
pub(super) fn write(script: &mut Script, feed: &Feed, ended: &[JobId]) {
    if ended.is_empty() {
        return;
    }
    let ids = match ended.len() {
        0..=IDS_MAX => Some(ended.iter().map(|id| id.to_string().replace('-', "")).collect::<String>()),
        _ => None,
    };
    script.say("UPDATE change_mark SET n = n + 1 WHERE port = 'ended' AND shard = CONNECTION_ID() % 16");
    script.say(&format!(
        "INSERT INTO job_feed (shard, slot, n, teller, ids) SELECT shard, n % {SLOTS}, n, {}, {} FROM change_mark \
         WHERE port = 'ended' AND shard = CONNECTION_ID() % 16 \
         ON DUPLICATE KEY UPDATE n = VALUES(n), teller = VALUES(teller), ids = VALUES(ids)",
        literal(&feed.tag),
        literal(ids)
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_back_as_they_were_left() {
        let ids: Vec<JobId> = (0..40).map(JobId::random).collect();
        let mut script = Script::default();
        write(&mut script, &Feed::new(1), &ids);
        let text: String = ids.iter().map(|id| id.to_string().replace('-', "")).collect();
        assert!(script.trips()[0].sql.contains(&text));
        assert_eq!(named(&text), Some(ids));
        assert_eq!(named("not ids"), None);
    }
}
