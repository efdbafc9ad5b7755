//! Other instances on the same store, each in a process of its own.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::open::StoreUrl;
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
    /// How many instances are compared with one; 2 unless given, where there can be more than one.
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
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Plan => "plan",
            Part::Jobs => "jobs",
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

/// What another instance is told when it is not its turn: it works on nothing.
pub(super) const REST: &str = "-";
/// What one that works on plans is told when it is.
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

/// Whether `all` a second, done together, is no less than one instance does in the median of its rounds, `n` in each; and how that is
/// said: with how far apart its rounds were, and the part that each instance had.
pub(super) fn bar(alone: &mut [Duration], all: f64, n: f64, unit: &str, shares: &[u64]) -> (String, bool) {
    let one = n / median(alone);
    let [fastest, slowest] = [alone.first(), alone.last()].map(|took| n / took.map_or(f64::NAN, Duration::as_secs_f64));
    let sum: u64 = shares.iter().sum();
    let shares: Vec<_> = shares.iter().map(|part| format!("{} %", part * 100 / sum.max(1))).collect();
    let shares = shares.join(", ");
    let bar = format!(
        "no slower than one instance in between, {one:.0} {unit}/s ({slowest:.0} to {fastest:.0}); done by each: {shares}"
    );
    (bar, all >= one)
}

/// In seconds.
pub(super) fn median(took: &mut [Duration]) -> f64 {
    took.sort_unstable();
    match took.len() {
        0 => f64::NAN,
        n => f64::midpoint(took[(n - 1) / 2].as_secs_f64(), took[n / 2].as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_are_held_against_the_median_of_one_and_the_row_says_how_far_that_drifted() {
        let judged = |all: f64| bar(&mut [4, 1, 2].map(Duration::from_secs), all, 100.0, "stages", &[3, 1]);
        let (said, pass) = judged(50.0);
        assert!(pass);
        assert_eq!(said, "no slower than one instance in between, 50 stages/s (25 to 100); done by each: 75 %, 25 %");
        assert!(!judged(49.9).1);
    }
}
