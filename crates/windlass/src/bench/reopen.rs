//! Reopening after `kill -9`: a child fills a store and goes on writing until it is killed; another
//! opens what is left, answers a query, and says what it took.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use windlass_core::port::state::Key;

use super::fixture::{self, Running};
use super::store::Report;
use super::{Row, Scale};
use crate::open::{StoreUrl, open};
use crate::settings::Settings;

/// Tasks in each plan that the child makes.
const PLAN_TASKS: u32 = 10_000;
const RESIDENT_MAX: u64 = 300_000_000;

/// What the child is told.
#[derive(clap::Args)]
pub struct Child {
    /// The store's folder.
    folder: PathBuf,
    /// Fill it with this many tasks and write until killed; open it and query it if not given.
    #[arg(long)]
    fill: Option<u32>,
}

/// What the child says.
#[derive(Debug, Serialize, Deserialize)]
struct Said {
    millis: f64,
    resident_bytes: u64,
}

/// The child's side.
#[expect(clippy::print_stdout, reason = "how the child answers its parent")]
pub fn child(child: &Child, settings: &Settings) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
    let began = Instant::now();
    let stores = runtime.block_on(open(&StoreUrl::Embedded(child.folder.clone()), settings))?;
    let said = |began: Instant| -> anyhow::Result<()> {
        let millis = began.elapsed().as_secs_f64() * 1000.0;
        let said = Said { millis, resident_bytes: super::resident_bytes(std::process::id())? };
        println!("{}", serde_json::to_string(&said)?);
        Ok(())
    };
    runtime.block_on(async {
        let Some(tasks) = child.fill else {
            let rows = stores.state.load(&[Key::Task(fixture::task_id(0, 7)?)]).await?;
            anyhow::ensure!(rows[0].is_some(), "a stored task was not found after the kill");
            return said(began);
        };
        let instance: windlass_core::id::InstanceId = "bench".parse()?;
        stores.state.beat(&instance, 24 * 3_600_000).await?;
        for plan in 0..tasks.div_ceil(PLAN_TASKS) {
            let size = PLAN_TASKS.min(tasks - plan * PLAN_TASKS);
            let step = fixture::plan(plan, size, &instance)?;
            stores.state.commit(&[step]).await?.into_iter().next().context("no answer")??;
        }
        let mut task = Running::begin(&stores, &instance, fixture::task_id(0, 7)?).await?;
        said(began)?;
        loop {
            let step = task.boundary()?;
            stores.state.commit(&[step]).await?.into_iter().next().context("no answer")??;
        }
    })
}

/// The parent's side.
pub(super) fn run(folder: &Path, scale: Scale, report: &mut Report<'_>) -> anyhow::Result<()> {
    let folder = folder.join("reopen");
    let program = std::env::current_exe()?;
    let mut child = Command::new(&program)
        .args(["bench", "child"])
        .arg(&folder)
        .arg("--fill")
        .arg(scale.tasks.to_string())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("no stdout")?).read_line(&mut line)?;
    let filled: Said = serde_json::from_str(&line).context("the child did not fill the store")?;
    child.kill()?;
    child.wait()?;
    let name = |what: &str| format!("{what}, {} tasks", scale.tasks);
    let rate = f64::from(scale.tasks) / filled.millis * 1000.0;
    let disk_bytes = Some(super::disk_bytes(&folder)?);
    let row = row(&name("fill"), "tasks", rate, filled.millis);
    report.add(
        Row { disk_bytes, resident_bytes: Some(filled.resident_bytes), ..row }
            .judged("at most 300 MB resident", filled.resident_bytes <= RESIDENT_MAX),
    );
    let answer = Command::new(&program).args(["bench", "child"]).arg(&folder).output()?;
    anyhow::ensure!(answer.status.success(), "reopening failed: {}", String::from_utf8_lossy(&answer.stderr));
    let opened: Said = serde_json::from_slice(&answer.stdout)?;
    let row = self::row(&name("reopen"), "reopens", 1000.0 / opened.millis, opened.millis);
    let pass = opened.millis <= 1000.0 && opened.resident_bytes <= RESIDENT_MAX;
    report.add(
        Row { disk_bytes, resident_bytes: Some(opened.resident_bytes), ..row }
            .judged("first query within 1 s of start after kill -9, at most 300 MB resident", pass),
    );
    Ok(())
}

fn row(workload: &str, unit: &'static str, per_s: f64, millis: f64) -> Row {
    Row {
        bench: "store",
        workload: workload.into(),
        store: "embedded".into(),
        concurrency: 1,
        unit,
        per_s,
        p50_us: millis * 1000.0,
        p99_us: millis * 1000.0,
        ..Row::default()
    }
}
