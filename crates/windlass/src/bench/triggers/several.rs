//! Triggers that are due, by several instances on one store, each in a process of its own: whether more of them are slower than one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::Context as _;
use tokio::runtime::Builder;
use windlass_core::id::InstanceId;
use windlass_core::port::trigger::Triggers;

use super::{Bench, LEASE_MS, complete};
use crate::bench::instances::{Compared, Other, Part, Round, WORK, at_rest, in_turn, until_done};
use crate::bench::{Row, Timer};
use crate::open::{Restless, StoreUrl, open};
use crate::settings::Settings;

/// Of one claim, so that each instance has many in a round.
const CLAIM: u32 = 100;
/// Rounds by several instances, each between two by one.
const TURNS: usize = 8;

/// Claims and completes one after the other until nothing is due that nobody has claimed.
async fn burst(triggers: &dyn Triggers, owner: &InstanceId, done: &AtomicU64, timer: &mut Timer) -> anyhow::Result<()> {
    loop {
        let one = Instant::now();
        let due = triggers.claim_due(owner, LEASE_MS, CLAIM).await?;
        let count = due.claimed.len() as u64;
        if count == 0 {
            return Ok(());
        }
        complete(triggers, &due.claimed, due.at).await?;
        timer.add(one, count);
        done.fetch_add(count, Ordering::Relaxed);
    }
}

/// The other side: an instance on the store that its first line names. A line that tells it to work has it claim what is due, until
/// there is no more; every line is answered with the number it has completed since.
#[expect(clippy::print_stdout, reason = "how the child answers its parent")]
pub fn instance(settings: &Settings) -> anyhow::Result<()> {
    let mut lines = std::io::stdin().lines();
    let url: StoreUrl = lines.next().context("no store was named")??.parse()?;
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let triggers = runtime.block_on(open(&url, settings))?.triggers;
    let owner: InstanceId = format!("bench-{}", std::process::id()).parse()?;
    let mut done = Arc::new(AtomicU64::new(0));
    let mut works = None;
    println!("0");
    for line in lines {
        if line? == WORK {
            done = Arc::default();
            let (triggers, owner, done) = (Arc::clone(&triggers), owner.clone(), Arc::clone(&done));
            works = Some(runtime.spawn(async move { burst(&*triggers, &owner, &done, &mut Timer::new()?).await }));
        }
        // One that failed would never be heard of: its parent waits for what it has claimed.
        if works.as_ref().is_some_and(tokio::task::JoinHandle::is_finished)
            && let Some(works) = works.take()
        {
            runtime.block_on(works)??;
        }
        println!("{}", done.load(Ordering::Relaxed));
    }
    Ok(())
}

impl Bench<'_> {
    /// As many triggers by one instance and by several in turn.
    pub(super) async fn several(&self) -> anyhow::Result<Row> {
        let server = Restless::of(self.url, self.settings).await?;
        let others = Other::start_rest(Part::Triggers, self.url, self.config, self.instances).await?;
        let what =
            Compared { store: self.store(), unit: "triggers", n: self.scale.shared, concurrency: 1, turns: TURNS };
        in_turn(what, others, async |others| {
            let due = async || self.make_due(self.scale.shared).await;
            at_rest(&server, due, async |()| self.shared(others).await).await
        })
        .await
    }

    async fn shared(&self, others: &mut [Other]) -> anyhow::Result<Round> {
        let owner: InstanceId = "bench".parse()?;
        let (mut timer, done) = (Timer::new()?, AtomicU64::new(0));
        let began = Instant::now();
        for other in others.iter_mut() {
            other.ask(WORK).await?;
        }
        let shares = until_done(self.scale.shared, others, async || {
            burst(&*self.triggers, &owner, &done, &mut timer).await?;
            Ok(done.load(Ordering::Relaxed))
        });
        let shares = shares.await?;
        Ok(Round { took: began.elapsed(), shares, timer })
    }
}
