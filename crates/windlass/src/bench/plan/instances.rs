//! Several instances on one store, each in a process of its own: whether more of them are slower than one.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context as _;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::{Bench, Gaps, StoreUrl, start_on};
use crate::Windlass;
use crate::bench::Row;
use crate::open::open;
use crate::settings::Settings;

/// How long the others have for their first stage: a new instance takes nothing of a conductor that it has not heard
/// of, and that is renewed by the beat.
const WARM_UP: Duration = Duration::from_secs(60);

/// Another instance: the process that is started for it, and what it says.
struct Other {
    child: Child,
    to: ChildStdin,
    says: Lines<BufReader<ChildStdout>>,
}

impl Other {
    /// Starts one; answers when it is up.
    async fn start(url: &str, config: Option<&Path>) -> anyhow::Result<Other> {
        let mut command = Command::new(std::env::current_exe()?);
        if let Some(config) = config {
            command.arg("--config").arg(config);
        }
        command.args(["bench", "instance"]).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().context("no process for another instance")?;
        let to = child.stdin.take().context("no stdin")?;
        let says = BufReader::new(child.stdout.take().context("no stdout")?).lines();
        let mut other = Other { child, to, says };
        // Not an argument: it may hold a password, and everybody sees arguments.
        other.ask(url).await?;
        Ok(other)
    }

    /// How many stages it has ended.
    async fn ask(&mut self, line: &str) -> anyhow::Result<u64> {
        self.to.write_all(format!("{line}\n").as_bytes()).await?;
        let said = self.says.next_line().await?.context("another instance has ended by itself")?;
        Ok(said.parse()?)
    }

    /// It ends when it hears nothing more.
    async fn stop(self) -> anyhow::Result<()> {
        let Other { mut child, to, says } = self;
        drop(to);
        let ended = child.wait().await?;
        drop(says);
        anyhow::ensure!(ended.success(), "another instance ended with {ended}");
        Ok(())
    }
}

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
    /// The same plans by one instance, by several, and by one again, so that a store that grows or a disk that drifts
    /// favours neither. The medians are compared.
    pub(super) async fn several(&self) -> anyhow::Result<Row> {
        let url = self.url.server().context("only a server has several instances")?;
        let gaps = Arc::new(Gaps::default());
        let windlass = self.start("several", self.options(), &gaps).await?;
        let (rounds, n) = (self.scale.rounds, self.instances);
        let mut alone = self.rounds(&windlass, "one", rounds).await?;
        let mut others = Vec::new();
        for _ in 1..n {
            others.push(Other::start(url, self.config).await?);
        }
        let before = self.until_all_work(&windlass, &mut others).await?;
        gaps.forget();
        let mine = windlass.counts().stages.load(Ordering::Relaxed);
        let mut together = self.rounds(&windlass, "several", rounds * 2).await?;
        let mut shares = vec![windlass.counts().stages.load(Ordering::Relaxed) - mine];
        for (other, before) in others.iter_mut().zip(before) {
            shares.push(other.ask("").await? - before);
        }
        let stages = u64::from(self.scale.plans) * 100;
        let took: Duration = together.iter().sum();
        let row = gaps.row(&self.several_name(), self.store(), self.scale.plans * 10, stages, took)?;
        for other in others {
            other.stop().await?;
        }
        alone.extend(self.rounds(&windlass, "again", rounds).await?);
        windlass.stop().await;
        let (one, all) = (stages as f64 / median(&mut alone), stages as f64 / median(&mut together));
        let sum: u64 = shares.iter().sum();
        let shares: Vec<_> = shares.iter().map(|part| format!("{} %", part * 100 / sum.max(1))).collect();
        let bar = format!("no slower than one instance, {one:.0} stages/s; done by each: {}", shares.join(", "));
        Ok(Row { per_s: all, ..row }.judged(bar, all >= one))
    }

    pub(super) fn several_name(&self) -> String {
        format!("{} instances", self.instances)
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

fn median(took: &mut [Duration]) -> f64 {
    took.sort_unstable();
    match took.len() {
        0 => f64::NAN,
        n => f64::midpoint(took[(n - 1) / 2].as_secs_f64(), took[n / 2].as_secs_f64()),
    }
}
