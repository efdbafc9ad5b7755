//! Workers that are not in this process: their turns are handed to the store as they are, and one that found nothing may
//! wait for something.

use std::time::Duration;

use tokio::time::Instant;
use windlass_core::port::job::{Turn, Turned};
use windlass_core::port::{Mark, PortError, WAIT_MS_MAX};

use super::Queues;
use crate::error::Error;

/// A waiting worker asks again no sooner than this, so that what is due and cannot be claimed does not make a loop.
const AGAIN_MS: u64 = 10;

impl Queues {
    /// Everything a worker has to say, in one call of the store. One that claims and finds nothing waits up to `wait_ms`
    /// until there may be something; what it had to say is said before that, and once.
    pub async fn turn(&self, turn: Turn, wait_ms: u64) -> Result<Turned, Error> {
        self.open()?;
        let end = Instant::now() + Duration::from_millis(wait_ms.min(WAIT_MS_MAX));
        let waits = wait_ms > 0 && !turn.want.is_empty();
        // Before looking: what comes while the store looks is not missed.
        let mut mark = if waits { self.0.port.changed(Mark::default(), 0).await? } else { Mark::default() };
        let mut turns = [turn];
        let mut turned = self.turn_once(&turns).await?;
        let (settled, beaten) = (std::mem::take(&mut turned.settled), std::mem::take(&mut turned.beaten));
        (turns[0].settle, turns[0].beat) = (Vec::new(), Vec::new());
        while waits && turned.claimed.is_empty() && !self.0.stopping.get() {
            let now = Instant::now();
            if now >= end {
                break;
            }
            mark = self.something(mark, &turned, now, end).await?;
            turned = self.turn_once(&turns).await?;
        }
        Ok(Turned { settled, beaten, ..turned })
    }

    async fn turn_once(&self, turns: &[Turn; 1]) -> Result<Turned, Error> {
        let answer = self.0.port.turn(turns).await?.pop();
        answer.ok_or_else(|| PortError::Corrupt("the store answered nothing".to_owned()).into())
    }

    /// Until something may have become claimable.
    async fn something(&self, mark: Mark, turned: &Turned, now: Instant, end: Instant) -> Result<Mark, Error> {
        let left = u64::try_from((end - now).as_millis()).unwrap_or(u64::MAX);
        let due = turned.next.map_or(u64::MAX, |next| next.since(turned.at).max(AGAIN_MS));
        let wait_ms = left.min(due).min(self.0.options.scan_ms).max(1);
        tokio::select! { biased;
            () = self.0.stopping.until(|stopping| *stopping) => Ok(mark),
            changed = self.0.port.changed(mark, wait_ms) => Ok(changed?),
        }
    }

    /// Chance for the pause before another attempt: 0 to 999.
    #[must_use]
    pub fn chance(&self) -> u16 {
        self.spread()
    }
}
