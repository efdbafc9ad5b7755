//! Several instances on one store, each in a process of its own: whether more of them are slower than one.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context as _;

use super::{Bench, Gaps, StoreUrl, start_on};
use crate::Windlass;
use crate::bench::Row;
use crate::bench::instances::{Alone, Other, Part, median, name};
use crate::open::open;
use crate::settings::Settings;

/// How long the others have for their first stage: a new instance takes nothing of a conductor that it has not heard
/// of, and that is renewed by the beat.
const WARM_UP: Duration = Duration::from_secs(60);

/// The other side: an instance on the store that its first line names, which answers each line with the number of
/// stages it has ended, until there are no more.
#[expect(clippy::print_stdout, reason = "how the child answers its parent")]
pub fn instance(settings: &Settings) -> anyhow::Result<()> {
    let mut lines = std::io::stdin().lines();
    let url: StoreUrl = lines.next().context("no store was named")??.parse()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let windlass =
        runtime.block_on(async { start_on(open(&url, settings).await?, settings.into(), &Arc::default()).await })?;
    loop {
        println!("{}", windlass.counts().stages.load(Ordering::Relaxed));
        if lines.next().transpose()?.is_none() {
            break;
        }
    }
    runtime.block_on(windlass.stop());
    Ok(())
}

impl Bench<'_> {
    /// The same plans by one instance, by several, and by one again, so that a store that grows or a machine that drifts
    /// favours neither. Medians are compared.
    pub(super) async fn several(&self) -> anyhow::Result<Row> {
        let url = self.url.server().context("only a server has several instances")?;
        let gaps = Arc::new(Gaps::default());
        let windlass = self.start("several", self.options(), &gaps).await?;
        let (rounds, n) = (self.scale.rounds, self.instances);
        let before = self.rounds(&windlass, "one", rounds).await?;
        let mut others = Vec::new();
        for _ in 1..n {
            others.push(Other::start(Part::Plan, url, self.config).await?);
        }
        let warm = self.until_all_work(&windlass, &mut others).await?;
        gaps.forget();
        let mine = windlass.counts().stages.load(Ordering::Relaxed);
        let (mut together, mut shares) = (Vec::new(), Vec::new());
        // What is small may be one's before another has heard of it: then there is nothing to compare yet.
        while shares.iter().filter(|stages| **stages > 0).count() < 2 {
            anyhow::ensure!(together.iter().sum::<Duration>() < WARM_UP, "one instance did everything");
            together.extend(self.rounds(&windlass, &format!("several-{}", together.len()), rounds * 2).await?);
            shares = vec![windlass.counts().stages.load(Ordering::Relaxed) - mine];
            for (other, warm) in others.iter_mut().zip(&warm) {
                shares.push(other.ask("").await? - warm);
            }
        }
        let stages = u64::from(self.scale.plans) * 100;
        let took: Duration = together.iter().sum();
        let row = gaps.row(&name(self.instances), self.store(), self.scale.plans * 10, stages, took)?;
        for other in others {
            other.stop().await?;
        }
        let after = self.rounds(&windlass, "again", rounds).await?;
        windlass.stop().await;
        let all = stages as f64 / median(&mut together);
        let (bar, pass) = Alone { before, after }.bar(all, stages as f64, "stages", &shares);
        Ok(Row { per_s: all, ..row }.judged(bar, pass))
    }

    async fn rounds(&self, windlass: &Windlass, name: &str, rounds: u32) -> anyhow::Result<Vec<Duration>> {
        let mut took = Vec::new();
        for round in 0..rounds {
            took.push(self.round(windlass, &format!("{name}-{round}"), self.scale.plans).await?.took);
        }
        Ok(took)
    }

    /// Work, until every other instance has had some; answers how much each.
    async fn until_all_work(&self, windlass: &Windlass, others: &mut [Other]) -> anyhow::Result<Vec<u64>> {
        let warm_up = async {
            for round in 0.. {
                self.round(windlass, &format!("warm-up-{round}"), self.scale.plans).await?;
                let mut done = Vec::new();
                for other in others.iter_mut() {
                    done.push(other.ask("").await?);
                }
                if done.iter().all(|stages| *stages > 0) {
                    return Ok(done);
                }
            }
            anyhow::bail!("an instance was given no work")
        };
        tokio::time::timeout(WARM_UP, warm_up).await.context("an instance was given no work")?
    }
}
