//! Other instances on the same store, each in a process of its own.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::{Row, Timer};
use crate::open::{Restless, StoreUrl};
use crate::settings::Settings;

/// What to measure, and with what.
#[derive(Debug, Clone, Copy)]
pub struct Setup<'a, Scale> {
    /// The store; an embedded one in a temporary folder unless given.
    pub url: Option<&'a StoreUrl>,
    /// How much.
    pub scale: Scale,
    /// Only the workloads whose name holds this.
    pub only: Option<&'a str>,
    /// How many instances; where they are compared with one, 2 unless given, if there can be more than one.
    pub instances: Option<u32>,
    /// Where the settings came from: other instances read them for themselves.
    pub config: Option<&'a Path>,
    /// The settings.
    pub settings: &'a Settings,
}

/// What another instance does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Its part of plans; see [`super::plan::instance`].
    Plan,
    /// Its part of jobs; see [`super::jobs::instance`].
    Jobs,
    /// Its part of triggers; see [`super::triggers::instance`].
    Triggers,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Plan => "plan",
            Part::Jobs => "jobs",
            Part::Triggers => "triggers",
        }
    }
}

/// How many are compared with one: as many as were asked for, or two, where there can be more than one.
pub(super) fn count(url: &StoreUrl, asked: Option<u32>) -> anyhow::Result<u32> {
    let is_server = url.server().is_some();
    let instances = asked.unwrap_or(if is_server { 2 } else { 1 });
    anyhow::ensure!(
        instances == 1 || is_server,
        "--instances {instances}: {url} is one process's alone; several instances need a server, --store postgres://…, mysql://… or redis://…"
    );
    Ok(instances)
}

/// How many there are where nothing is compared: one unless more were asked for.
pub(super) fn lonely(url: &StoreUrl, asked: Option<u32>) -> anyhow::Result<u32> {
    count(url, Some(asked.unwrap_or(1)))
}

/// What a workload is called that so many do.
pub(super) fn by(workload: &str, instances: u32) -> String {
    if instances == 1 { workload.to_owned() } else { format!("{workload}, {}", name(instances)) }
}

/// What another instance is told when it is not its turn: it works on nothing.
pub(super) const REST: &str = "-";
/// What one that works on plans or triggers is told when it is.
pub(super) const WORK: &str = "+";

/// What the row that compares them is called.
pub(super) fn name(instances: u32) -> String {
    format!("{instances} instances")
}

/// Another instance: the process that is started for it, and what it says.
pub(super) struct Other {
    child: Child,
    to: ChildStdin,
    says: Lines<BufReader<ChildStdout>>,
}

impl Other {
    /// Starts all but one of so many; answers when they are up.
    pub(super) async fn start_rest(
        part: Part,
        url: &StoreUrl,
        config: Option<&Path>,
        instances: u32,
    ) -> anyhow::Result<Vec<Other>> {
        let url = url.server().context("only a server has several instances")?;
        let mut others = Vec::new();
        for _ in 1..instances {
            others.push(Other::start(part, url, config).await?);
        }
        Ok(others)
    }

    /// Starts one; answers when it is up.
    async fn start(part: Part, url: &str, config: Option<&Path>) -> anyhow::Result<Other> {
        let mut command = Command::new(std::env::current_exe()?);
        if let Some(config) = config {
            command.arg("--config").arg(config);
        }
        command.args(["bench", "instance", part.name()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().context("no process for another instance")?;
        let to = child.stdin.take().context("no stdin")?;
        let says = BufReader::new(child.stdout.take().context("no stdout")?).lines();
        let mut other = Other { child, to, says };
        // Not an argument: it may hold a password, and everybody sees arguments.
        other.ask(url).await?;
        Ok(other)
    }

    /// Tells it something; it answers how much it has done.
    pub(super) async fn ask(&mut self, line: &str) -> anyhow::Result<u64> {
        self.to.write_all(format!("{line}\n").as_bytes()).await?;
        let said = self.says.next_line().await?.context("another instance has ended by itself")?;
        Ok(said.parse()?)
    }

    /// It ends when it hears nothing more.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        let Other { mut child, to, says } = self;
        drop(to);
        let ended = child.wait().await?;
        drop(says);
        anyhow::ensure!(ended.success(), "another instance ended with {ended}");
        Ok(())
    }
}

/// Looks at a server that works for itself.
const LOOK: Duration = Duration::from_millis(10);
/// A server that does so all the time is measured as it is.
const PATIENCE: Duration = Duration::from_secs(60);

/// Measures something while the server does nothing for itself: beside that it is not to be compared with what was measured without.
/// If it begins to meanwhile, all of it is done again.
pub(super) async fn at_rest<P, T>(
    server: &Restless,
    mut prepare: impl AsyncFnMut() -> anyhow::Result<P>,
    mut measure: impl AsyncFnMut(P) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let began = Instant::now();
    loop {
        let prepared = prepare().await?;
        let mut rested = server.rested().await?;
        while rested.is_none() && began.elapsed() < PATIENCE {
            tokio::time::sleep(LOOK).await;
            rested = server.rested().await?;
        }
        let measured = measure(prepared).await?;
        if began.elapsed() >= PATIENCE || server.rested().await? == rested {
            return Ok(measured);
        }
    }
}

/// Between two looks at how far all are.
const LOOK_AT_ALL: Duration = Duration::from_millis(2);

/// Until so much is done; answers how much each has done, this one first, of which `mine` tells.
pub(super) async fn until_done(
    n: u32,
    others: &mut [Other],
    mut mine: impl AsyncFnMut() -> anyhow::Result<u64>,
) -> anyhow::Result<Vec<u64>> {
    loop {
        let mut shares = vec![mine().await?];
        for other in others.iter_mut() {
            shares.push(other.ask("").await?);
        }
        if shares.iter().sum::<u64>() >= u64::from(n) {
            return Ok(shares);
        }
        tokio::time::sleep(LOOK_AT_ALL).await;
    }
}

/// How a round by one instance or by several went.
pub(super) struct Round {
    pub(super) took: Duration,
    /// What each has done, this instance first.
    pub(super) shares: Vec<u64>,
    pub(super) timer: Timer,
}

/// What is compared.
pub(super) struct Compared<'a> {
    pub(super) store: &'a str,
    pub(super) unit: &'static str,
    /// In a round.
    pub(super) n: u32,
    /// At once, by each instance.
    pub(super) concurrency: u32,
    /// Rounds by several instances, each between two by one.
    pub(super) turns: usize,
}

/// The same round by one instance and by several in turn; see [`Turns::judge`].
pub(super) async fn in_turn(
    Compared { store, unit, n, concurrency, turns: rounds }: Compared<'_>,
    mut others: Vec<Other>,
    mut round: impl AsyncFnMut(&mut [Other]) -> anyhow::Result<Round>,
) -> anyhow::Result<Row> {
    let instances = u32::try_from(others.len() + 1)?;
    let mut turns = Turns { one: vec![round(&mut []).await?.took], several: Vec::new() };
    let (mut timer, mut shares) = (Timer::new()?, vec![0; others.len() + 1]);
    for _ in 0..rounds {
        let several = round(&mut others).await?;
        turns.several.push(several.took);
        timer.merge(&several.timer)?;
        shares.iter_mut().zip(several.shares).for_each(|(sum, part)| *sum += part);
        turns.one.push(round(&mut []).await?.took);
    }
    for other in others {
        other.stop().await?;
    }
    let (per_s, bar, pass) = turns.judge(f64::from(n), unit, &shares);
    let row = timer.row(&name(instances), store, concurrency * instances, unit, turns.took());
    // These benches are named after what they count.
    Ok(Row { bench: unit, per_s, ..row }.judged(bar, pass))
}

/// Turns of one instance and of several: those of several stand between two of one each.
#[derive(Default)]
pub(super) struct Turns {
    pub(super) one: Vec<Duration>,
    pub(super) several: Vec<Duration>,
}

impl Turns {
    /// How long several have taken so far.
    pub(super) fn took(&self) -> Duration {
        self.several.iter().sum()
    }

    /// How many a second several did in the median of their turns, `n` in each; whether they were no slower than one right before
    /// and after; and how that is said: with how far apart the comparisons were, and the part that each instance had. A machine that
    /// drifts, or a store that is filling, is much the same in neighbouring turns; over all of them it is not. Each is compared with
    /// one neighbour at a time: the mean of two has more often a slow one in it than a single turn is one.
    pub(super) fn judge(&self, n: f64, unit: &str, shares: &[u64]) -> (f64, String, bool) {
        let rate = |turns: &[Duration]| n / median(&mut turns.to_vec());
        let beside = self.one.windows(2).zip(&self.several);
        let beside = beside.flat_map(|(one, several)| one.iter().map(|one| one.div_duration_f64(*several)));
        let mut times: Vec<f64> = beside.collect();
        times.sort_unstable_by(f64::total_cmp);
        let [least, most] = [times.first(), times.last()].map(|times| times.copied().unwrap_or(f64::NAN));
        let [from, to] = certain(&times, self.several.len());
        let middle = middle(&times);
        let sum: u64 = shares.iter().sum();
        let shares: Vec<_> = shares.iter().map(|part| format!("{} %", part * 100 / sum.max(1))).collect();
        let said = format!(
            "no slower than one instance before and after: {middle:.3} times as fast in the median of {} turns ({from:.2} to \
             {to:.2} with a certainty of 95 %, single ones {least:.2} to {most:.2}); one alone {:.0} {unit}/s; done by each: {}",
            self.several.len(),
            rate(&self.one),
            shares.join(", ")
        );
        (rate(&self.several), said, middle >= 1.0)
    }
}

/// In seconds.
pub(super) fn median(took: &mut [Duration]) -> f64 {
    took.sort_unstable();
    middle(&took.iter().map(Duration::as_secs_f64).collect::<Vec<_>>())
}

/// Between which of what is sorted the median of all that might have been measured is, with a certainty of 95 %, if so many of them
/// are independent of each other.
fn certain(sorted: &[f64], independent: usize) -> [f64; 2] {
    let out = (0.5 - 0.98 / (independent as f64).sqrt()).max(0.0) * sorted.len() as f64;
    let at = |place: Option<usize>| place.and_then(|place| sorted.get(place)).copied().unwrap_or(f64::NAN);
    [at(Some(out as usize)), at(sorted.len().checked_sub(out as usize + 1))]
}

/// Of what is sorted.
fn middle(sorted: &[f64]) -> f64 {
    match sorted.len() {
        0 => f64::NAN,
        n => f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_are_held_against_one_before_and_after_them() {
        let took = |secs: &[u64]| secs.iter().copied().map(Duration::from_secs).collect::<Vec<_>>();
        // The machine becomes three times as fast meanwhile, and one instance has more turns of that: several are level in each.
        let level = Turns { one: took(&[6, 4, 2]), several: took(&[5, 3]) };
        let (per_s, said, pass) = level.judge(60.0, "stages", &[3, 1]);
        assert!(pass, "{said}");
        assert_eq!(
            said,
            "no slower than one instance before and after: 1.000 times as fast in the median of 2 turns (0.67 to 1.33 with \
             a certainty of 95 %, single ones 0.67 to 1.33); one alone 15 stages/s; done by each: 75 %, 25 %"
        );
        assert!((per_s - 60.0 / 4.0).abs() < 1e-9, "{per_s}");
        assert_eq!(level.took(), Duration::from_secs(8));
        let slower = Turns { several: took(&[6, 3]), ..level };
        assert!(!slower.judge(60.0, "stages", &[1]).2);
        let all: Vec<f64> = (0..48).map(f64::from).collect();
        assert_eq!(certain(&all, 24), [14.0, 33.0]);
        assert_eq!(certain(&all[..2], 1), [0.0, 1.0], "one turn says nothing");
        assert!(!Turns::default().judge(60.0, "stages", &[1]).2, "nothing was measured");
    }
}
