//! From the time of an occurrence to its job: a whole instance, with its scheduler, over the store that is measured.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use windlass_core::id::TriggerId;
use windlass_core::port::trigger::{CLAIM_MAX, Save};

use super::{Bench, DELAY, LEASE_MS, SAVES, spec, trigger};
use crate::Windlass;
use crate::bench::meter::Meter;
use crate::bench::{Row, Timer};
use crate::open::Stores;

/// Occurrences that fall due in a second.
const PER_S: u32 = 1_000;
/// All of them are stored before the first is due.
const AHEAD_MS: u64 = 5_000;
/// How long the last of them may take.
const LATE: Duration = Duration::from_secs(30);

impl Bench<'_> {
    /// A thousand triggers fall due each second, evenly, among all that are stored; each submits a job. From the time that
    /// it was due to when its job was acknowledged.
    pub(super) async fn delay(&self) -> anyhow::Result<Row> {
        let count = PER_S * self.scale.delay_s;
        let meter = Meter::new(&self.stores.jobs, u64::from(count))?;
        let stores = Stores { jobs: Arc::clone(&meter) as _, ..self.stores.clone() };
        let began = Instant::now();
        let now = self.triggers.claim_due(&"bench".parse()?, LEASE_MS, 0).await?.at;
        let mut saves = Vec::new();
        for n in 0..count {
            let mut trigger = trigger(self.stored + n, &spec(2 * n, self.base)?, self.base)?;
            trigger.run.trigger_at = now.plus(AHEAD_MS + u64::from(n) * 1_000 / u64::from(PER_S));
            trigger.run.try_at = trigger.run.trigger_at;
            saves.push(Save { trigger, notes: Vec::new() });
        }
        for saves in saves.chunks(SAVES) {
            self.write(saves).await?;
        }
        anyhow::ensure!(began.elapsed() < Duration::from_millis(AHEAD_MS), "storing {count} triggers takes too long");
        let windlass = Windlass::builder().stores(stores).start().await?;
        let last = Duration::from_millis(AHEAD_MS) + Duration::from_secs(u64::from(self.scale.delay_s));
        tokio::time::timeout(last + LATE, meter.done()).await.context("some never fire")?;
        windlass.stop().await;
        let mut timer = Timer::new()?;
        for (at, key) in meter.submitted().iter() {
            let due: u64 = key.rsplit_once('@').context("a job without an occurrence")?.1.parse()?;
            // The store's clock, as it was when it was asked, and ours since. It counts whole milliseconds: one more is too
            // much rather than too little.
            let due = began + Duration::from_millis(due.saturating_sub(now.get()));
            timer.record(at.saturating_duration_since(due) + Duration::from_millis(1));
        }
        anyhow::ensure!(timer.units == u64::from(count), "{} of {count} fired", timer.units);
        let ids: Vec<TriggerId> = saves.iter().map(|save| save.trigger.id.clone()).collect();
        for ids in ids.chunks(CLAIM_MAX as usize) {
            self.triggers.remove(ids).await?;
        }
        let took = Duration::from_secs(u64::from(self.scale.delay_s));
        let name = format!("{DELAY}, {} stored", self.stored);
        let row = Row { bench: "triggers", ..timer.row(&name, self.store(), 1, "triggers", took) };
        let pass = row.p99_us <= 20_000.0;
        Ok(row.judged("p99 at most 20 ms", pass))
    }
}
