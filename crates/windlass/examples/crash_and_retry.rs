//! A crash and what comes after it. This program starts itself as a child that carries out a plan on a store in a folder,
//! and kills it with SIGKILL in the middle of the second of three stages. Then it opens the same store: nothing has
//! moved, and nothing does until a person says so.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command as Process, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use windlass::Windlass;
use windlass::core::event::Fact;
use windlass::core::id::StageName;
use windlass::core::task::command::{Command, Retry, RetryFrom};
use windlass::engine::command::Caller;
use windlass::engine::command::task::{Order, Which};
use windlass::engine::stage::{Told, Trouble};
use windlass::engine::{Options, query::view::TaskView};

const PLAN: &str = "
plan: switch
id: switch-1
stages:
  - { name: write-config, handler: work }
  - { name: switch, handler: work }
  - { name: sign-off, handler: work }
tasks:
  - tenant: acme
";

/// What the child says when it is to be killed.
const IN_THE_MIDDLE: &str = "in the middle of switch";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    if let Some(folder) = std::env::args().nth(1) {
        return child(Path::new(&folder)).await;
    }
    let folder = tempfile::tempdir()?;
    crash(folder.path())?;
    retry(folder.path()).await
}

/// An instance that is thought dead two seconds after its last sign of life; 30 unless said otherwise.
fn options() -> Options {
    Options { lease_ms: 2_000, beat_ms: 500, ..Options::default() }
}

fn url(folder: &Path) -> String {
    format!("embedded:{}", folder.join("store").display())
}

/// Carries the plan out until the second stage, and stays there.
async fn child(folder: &Path) -> anyhow::Result<()> {
    let work = |told: Told, _| async move {
        println!("child: {} runs", told.stage);
        if told.stage.as_str() == "switch" {
            println!("{IN_THE_MIDDLE}");
            std::future::pending::<()>().await;
        }
        Ok(None)
    };
    let windlass = Windlass::builder().store(url(folder)).options(options()).handler("work", work).start().await?;
    windlass.submit(PLAN, &Caller::new("zoe".parse()?)).await?;
    std::future::pending().await
}

/// Starts the child, and kills it when it says that it is in the middle of its second stage.
fn crash(folder: &Path) -> anyhow::Result<()> {
    let mut child = Process::new(std::env::current_exe()?).arg(folder).stdout(Stdio::piped()).spawn()?;
    let said = BufReader::new(child.stdout.take().context("the child says nothing")?);
    for line in said.lines() {
        let line = line?;
        if line == IN_THE_MIDDLE {
            break;
        }
        println!("{line}");
    }
    child.kill()?; // SIGKILL: the child does not learn of it
    println!("child: {}", child.wait()?);
    Ok(())
}

async fn retry(folder: &Path) -> anyhow::Result<()> {
    let ran = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&ran);
    let work = move |told: Told, _| {
        log.lock().unwrap_or_else(PoisonError::into_inner).push(format!(
            "{} under key {}",
            told.stage,
            told.idempotency_key()
        ));
        std::future::ready(Ok::<_, Trouble>(None))
    };
    let windlass = Windlass::builder().store(url(folder)).options(options()).handler("work", work).start().await?;
    let acme = Which::Tenant("acme".parse()?);

    // The lease of the dead instance runs out; then the task reads interrupted. Nothing is written for that.
    let found = windlass.view_task(&acme).await?;
    show("found", &found);
    let after = loop {
        let view = windlass.view_task(&acme).await?;
        if view.interrupted {
            break view;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    show("after its lease", &after);
    println!("nothing has moved: {}", found.task == after.task && found.checkpoint == after.checkpoint);
    for item in windlass.inbox().await?.0 {
        println!("inbox: {:?}: {}", item.kind, item.text);
    }
    let why = windlass.why_task(&acme).await?;
    println!("why: {}; possible now: {}", why.cause, why.possible.join(", "));

    // First what would happen, then that it happens.
    let from = Retry { from: RetryFrom::Checkpoint, restart_if_invalid: false, force: false };
    let order = Order { which: acme.clone(), command: Command::Retry(from), config: None };
    let zoe = Caller::new("zoe".parse()?).because("the machine is back".parse()?);
    let done = windlass.task(&order, &Caller { dry_run: true, ..zoe.clone() }).await?;
    println!("a retry would run {}", names(&done.preview.map(|preview| preview.stages).unwrap_or_default()));
    let done = windlass.task(&order, &zoe).await?;
    let ended = windlass.wait(&done.plan, Duration::from_secs(30)).await?.context("it takes too long")?;
    println!("the plan is {}", ended.plan.status);
    for stage in ran.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        println!("ran here: {stage}");
    }
    for event in windlass.task_history(&acme).await? {
        let stage = match &event.fact {
            Fact::StageStarted(at) | Fact::StageCompleted { at, .. } => at.stage.as_str(),
            _ => "",
        };
        println!("{:>2} {} {stage}", event.seq, event.fact.name());
    }
    windlass.stop().await;
    Ok(())
}

fn show(when: &str, view: &TaskView) {
    let done = view.checkpoint.as_ref().map(|checkpoint| names(&checkpoint.completed_stages)).unwrap_or_default();
    let lock = if view.lock.is_some() { "held" } else { "free" };
    let how = if view.interrupted { ", interrupted" } else { "" };
    println!("{when}: {}{how}; done: {done}; the tenant's lock is {lock}", view.task.status);
}

fn names(stages: &[StageName]) -> String {
    stages.iter().map(StageName::as_str).collect::<Vec<_>>().join(", ")
}
