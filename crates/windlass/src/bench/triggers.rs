//! `windlass bench triggers`: what is due among many that are not, through the port, on any store.

mod delay;
mod several;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use windlass_core::id::{InstanceId, TriggerId};
use windlass_core::port::trigger::{CLAIM_MAX, Claim, Save, Triggers};
use windlass_core::time::Ms;
use windlass_core::trigger::rules::{create, fired};
use windlass_core::trigger::{Made, Trigger, TriggerSpec};

use super::instances::{self, Setup};
use super::store::Report;
use super::{Row, Timer, limit};
use crate::open::{StoreUrl, Stores, open};
use crate::settings::Settings;
pub use several::instance;

/// How much to measure.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// How many are stored, one size after the other.
    pub stored: [u32; 3],
    /// How many of the largest size are fired.
    pub fired: u32,
    /// How many of them several instances share.
    pub shared: u32,
    /// How often a scan is repeated.
    pub scans: u32,
    /// For how many seconds a thousand fall due each second.
    pub delay_s: u32,
    /// How long a raw limit is measured.
    pub run: Duration,
}

impl Scale {
    /// What figures are quoted from.
    pub const FULL: Scale = Scale {
        stored: [10_000, 100_000, 1_000_000],
        fired: 200_000,
        shared: 10_000,
        scans: 200,
        delay_s: 10,
        run: Duration::from_secs(3),
    };
    /// A look.
    pub const QUICK: Scale = Scale {
        stored: [2_000, 5_000, 10_000],
        fired: 5_000,
        shared: 2_000,
        scans: 20,
        delay_s: 1,
        run: Duration::from_millis(200),
    };
}

const SCAN: &str = "due scan of 1,000";
const CLAIM: &str = "claim of 1,000";
const FIRED: &str = "claimed and completed";
const DELAY: &str = "firing delay";

/// Claims that are measured at each size.
const CLAIMS: u32 = 10;
/// Schedulers at once.
const SCHEDULERS: u32 = 4;
const LEASE_MS: u64 = 60_000;
const SAVES: usize = 5_000;

/// Measures, and hands each row to `show` as it comes.
pub fn run(setup: Setup<'_, Scale>, show: &mut dyn FnMut(&Row)) -> anyhow::Result<Vec<Row>> {
    let folder = tempfile::tempdir().context("no temporary folder")?;
    let here = StoreUrl::Embedded(folder.path().join("store"));
    let Setup { url, scale, only, config, settings, .. } = setup;
    let url = url.unwrap_or(&here);
    let instances = instances::count(url, setup.instances)?;
    let mut report = Report::new(show);
    let raw = limit::engine(folder.path(), 100, scale.run)?;
    report.add(Row { bench: "triggers", ..raw.clone() });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let stores = open(url, settings).await?;
        let triggers = Arc::clone(&stores.triggers);
        let (stored, base) = (0, Ms::ZERO);
        let mut bench = Bench { url, scale, instances, config, settings, stores, triggers, stored, base, raw };
        let measured = bench.all(only, &mut report).await;
        bench.clear(folder.path()).await?;
        measured
    })?;
    Ok(report.into_rows())
}

struct Bench<'a> {
    url: &'a StoreUrl,
    scale: Scale,
    instances: u32,
    config: Option<&'a Path>,
    settings: &'a Settings,
    stores: Stores,
    triggers: Arc<dyn Triggers>,
    stored: u32,
    /// When it began, by the store's clock.
    base: Ms,
    raw: Row,
}

impl Bench<'_> {
    async fn all(&mut self, only: Option<&str>, report: &mut Report<'_>) -> anyhow::Result<()> {
        let wanted = |workload: &str| only.is_none_or(|only| workload.contains(only));
        let due = self.triggers.claim_due(&"bench".parse()?, LEASE_MS, 0).await?;
        anyhow::ensure!(
            due.next.is_none_or(|next| next > due.at.plus(LEASE_MS)),
            "triggers of {} are due; a bench would claim them",
            self.url
        );
        self.base = due.at;
        let mut least_us = None;
        for stored in self.scale.stored {
            self.fill(stored).await?;
            if wanted(SCAN) {
                let row = self.scan(stored, least_us).await?;
                least_us.get_or_insert(row.p50_us);
                report.add(row);
            }
            if wanted(CLAIM) {
                report.add(self.claims(stored).await?);
            }
        }
        // Before a burst, whose debris a server is still busy with when it has ended.
        if wanted(DELAY) {
            report.add(self.delay().await?);
        }
        if self.instances > 1 && wanted(&instances::name(self.instances)) {
            report.add(self.several().await?);
        }
        if wanted(FIRED) {
            report.add(self.fire().await?);
        }
        Ok(())
    }

    fn store(&self) -> &'static str {
        self.url.kind()
    }

    async fn save(&self, all: impl Iterator<Item = anyhow::Result<Trigger>>) -> anyhow::Result<()> {
        let mut saves = Vec::with_capacity(SAVES);
        for trigger in all {
            saves.push(Save { trigger: trigger?, notes: Vec::new() });
            if saves.len() == SAVES {
                self.write(&saves).await?;
                saves.clear();
            }
        }
        self.write(&saves).await
    }

    async fn write(&self, saves: &[Save]) -> anyhow::Result<()> {
        for saved in self.triggers.save(saves).await? {
            saved?;
        }
        Ok(())
    }

    /// Until so many are stored: half of them at the times of a few cron expressions, half every so often, none due.
    async fn fill(&mut self, stored: u32) -> anyhow::Result<()> {
        let base = self.base;
        self.save((self.stored..stored).map(|n| trigger(n, &spec(n, base)?, base))).await?;
        self.stored = stored;
        Ok(())
    }

    /// So many of those that are stored are due now.
    async fn make_due(&self, count: u32) -> anyhow::Result<()> {
        let ids: Vec<TriggerId> = (0..count).map(name).collect::<anyhow::Result<_>>()?;
        for ids in ids.chunks(SAVES) {
            let mut saves = Vec::with_capacity(ids.len());
            for mut trigger in self.triggers.load(ids).await?.into_iter().flatten() {
                trigger.run.trigger_at = self.base.minus(saves.len() as u64 % 1_000);
                trigger.run.try_at = trigger.run.trigger_at;
                saves.push(Save { trigger, notes: Vec::new() });
            }
            self.write(&saves).await?;
        }
        Ok(())
    }

    async fn scan(&self, stored: u32, least_us: Option<f64>) -> anyhow::Result<Row> {
        self.make_due(CLAIM_MAX).await?;
        let mut timer = Timer::new()?;
        let began = Instant::now();
        for _ in 0..self.scale.scans {
            let one = Instant::now();
            let due = self.triggers.find_due(self.base, CLAIM_MAX).await?;
            timer.add(one, due.len() as u64);
            anyhow::ensure!(due.len() == CLAIM_MAX as usize, "{} are due", due.len());
        }
        let name = format!("{SCAN}, {stored} stored");
        let row = Row { bench: "triggers", ..timer.row(&name, self.store(), 1, "triggers", began.elapsed()) };
        self.drain().await?;
        let bar_us = match self.url {
            StoreUrl::Memory => return Ok(row),
            StoreUrl::Embedded(_) => 2_000.0,
            StoreUrl::Postgres(_) | StoreUrl::MySql(_) | StoreUrl::Redis(_) => 5_000.0,
        };
        let Some(least_us) = least_us.filter(|_| stored == self.scale.stored[2]) else { return Ok(row) };
        let pass = row.p50_us <= bar_us && row.p50_us <= 1.5 * least_us;
        Ok(row.judged(format!("p50 at most {bar_us:.0} us and 1.5 x {least_us:.0} us"), pass))
    }

    async fn claims(&self, stored: u32) -> anyhow::Result<Row> {
        let due = (CLAIMS * CLAIM_MAX).min(stored);
        self.make_due(due).await?;
        let (owner, mut timer) = ("bench".parse()?, Timer::new()?);
        let mut took = Duration::ZERO;
        loop {
            let one = Instant::now();
            let due = self.triggers.claim_due(&owner, LEASE_MS, CLAIM_MAX).await?;
            if due.claimed.is_empty() {
                break;
            }
            took += one.elapsed();
            timer.add(one, due.claimed.len() as u64);
            complete(&*self.triggers, &due.claimed, due.at).await?;
        }
        let name = format!("{CLAIM}, {stored} stored");
        Ok(Row { bench: "triggers", ..timer.row(&name, self.store(), 1, "triggers", took) })
    }

    async fn drain(&self) -> anyhow::Result<()> {
        let owner: InstanceId = "bench".parse()?;
        loop {
            let due = self.triggers.claim_due(&owner, LEASE_MS, CLAIM_MAX).await?;
            if due.claimed.is_empty() {
                return Ok(());
            }
            complete(&*self.triggers, &due.claimed, due.at).await?;
        }
    }

    /// Claimed and completed by a few schedulers at once, from the first claim to the last acknowledged completion.
    async fn fire(&self) -> anyhow::Result<Row> {
        self.make_due(self.scale.fired).await?;
        let done = Arc::new(AtomicU64::new(0));
        let began = Instant::now();
        let schedulers = (0..SCHEDULERS).map(|n| {
            let (triggers, done) = (Arc::clone(&self.triggers), Arc::clone(&done));
            tokio::spawn(async move {
                let owner: InstanceId = format!("bench-{n}").parse()?;
                let mut timer = Timer::new()?;
                loop {
                    let one = Instant::now();
                    let due = triggers.claim_due(&owner, LEASE_MS, CLAIM_MAX).await?;
                    if due.claimed.is_empty() {
                        return anyhow::Ok(timer);
                    }
                    complete(&*triggers, &due.claimed, due.at).await?;
                    timer.add(one, due.claimed.len() as u64);
                    done.fetch_add(due.claimed.len() as u64, Ordering::Relaxed);
                }
            })
        });
        let mut all = Timer::new()?;
        for scheduler in schedulers.collect::<Vec<_>>() {
            all.merge(&scheduler.await??)?;
        }
        let took = began.elapsed();
        let done = done.load(Ordering::Relaxed);
        anyhow::ensure!(done == u64::from(self.scale.fired), "{done} of {} were fired", self.scale.fired);
        let name = format!("{FIRED}, {} stored", self.stored);
        let row = all.row(&name, self.store(), SCHEDULERS, "triggers", took);
        let row = Row { bench: "triggers", resident_bytes: Some(super::resident_bytes(std::process::id())?), ..row };
        match self.url {
            StoreUrl::Embedded(_) => {
                let pass = row.per_s >= 20_000.0;
                let row = Row { limit_per_s: Some(self.raw.per_s), ..row };
                Ok(row.judged("at least 20000 triggers/s", pass))
            }
            _ => Ok(row),
        }
    }

    /// What it made is taken away again, unless the folder goes anyway.
    async fn clear(&self, folder: &Path) -> anyhow::Result<()> {
        if matches!(self.url, StoreUrl::Embedded(path) if path.starts_with(folder)) {
            return Ok(());
        }
        let ids: Vec<TriggerId> = (0..self.stored).map(name).collect::<anyhow::Result<_>>()?;
        for ids in ids.chunks(SAVES) {
            self.triggers.remove(ids).await?;
        }
        Ok(())
    }
}

async fn complete(triggers: &dyn Triggers, claimed: &[Trigger], now: Ms) -> anyhow::Result<()> {
    let settles: Vec<_> = claimed
        .iter()
        .map(|trigger| {
            let claim = Claim { trigger: trigger.id.clone(), fence: trigger.run.fence };
            (claim, fired(trigger, Made::Called(200), now))
        })
        .collect();
    for settled in triggers.settle(&settles).await? {
        settled?;
    }
    Ok(())
}

/// Scattered over the key space, as ids are.
fn name(n: u32) -> anyhow::Result<TriggerId> {
    Ok(format!("bench-{:08x}", n.wrapping_mul(0x9e37_79b9)).parse()?)
}

fn spec(n: u32, base: Ms) -> anyhow::Result<TriggerSpec> {
    // About half a day from now, so that no next occurrence falls due while the bench runs.
    let hour = (base.get() / 3_600_000 + 12 + u64::from(n) / 120 % 3) % 24;
    let schedule = match n % 2 {
        0 => format!(r#"{{"every": "{}s"}}"#, 86_400 + n % 2_000_000),
        _ => format!(r#"{{"cron": "{} {hour} * * mon-fri", "zone": "Europe/Berlin"}}"#, n / 2 % 60),
    };
    let text = format!(
        r#"{{"schedule": {schedule}, "tenant": "tenant-{}", "payload": {{"n": {n}}}, "target": {{"job": {{"queue": "reports"}}}}}}"#,
        n % 1_000
    );
    Ok(serde_json::from_str(&text)?)
}

fn trigger(n: u32, spec: &TriggerSpec, base: Ms) -> anyhow::Result<Trigger> {
    // Nothing falls due while the bench runs.
    let saved = base.plus(3_600_000);
    create(name(n)?, spec.clone(), saved).context("it never fires")
}
