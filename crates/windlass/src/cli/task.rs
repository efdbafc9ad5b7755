//! `windlass task …`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use windlass_core::id::StageName;
use windlass_core::json::Json;
use windlass_core::task::status::TaskStatus;

use super::ops::{Operation, Target, Wait};
use super::plan::{EVENT_HEADS, event_row, remark};
use super::remote::{Kind, Remote};
use super::show::{at, maybe};
use super::{exit, note};
use crate::client::{RetryFrom, TaskVerb, Which, view};

/// How long the server is asked to wait in one call.
const WAIT: Duration = Duration::from_secs(30);

#[derive(Subcommand)]
pub(crate) enum Task {
    /// One task: where it stands, what holds it, what went wrong.
    Show(Target),
    /// Pause at the next boundary.
    Pause(Steer),
    /// Go on at the checkpoint.
    Resume(Steer),
    /// End it, at the next boundary if it runs.
    Cancel(Steer),
    /// Begin again after a failure or a crash, after the last completed stage unless told otherwise.
    Retry(Retry),
    /// Take back what was done.
    Rollback(Rollback),
    /// Say yes to an approval stage.
    Approve(Steer),
    /// Say no to an approval stage; the reason becomes the failure.
    Reject(Steer),
    /// Count the next stage as completed without running it.
    SkipStage(Steer),
    /// What happened to a task.
    History(Target),
    /// What a task has finished: where it would go on.
    Checkpoint(Target),
}

#[derive(Args)]
pub(crate) struct Steer {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    operation: Operation,
    #[command(flatten)]
    wait: Wait,
}

#[derive(Args)]
pub(crate) struct Retry {
    #[command(flatten)]
    steer: Steer,
    /// Begin at the first stage.
    #[arg(long, conflicts_with = "from_stage")]
    from_start: bool,
    /// Begin at this stage, which may not lie beyond the first that is not done.
    #[arg(long, value_name = "STAGE")]
    from_stage: Option<StageName>,
    /// A JSON file with what its stages work with from now on, as `config` in the plan.
    #[arg(long, value_name = "FILE")]
    new_config: Option<PathBuf>,
    /// Begin at the first stage if work cannot resume from the checkpoint.
    #[arg(long)]
    restart_if_invalid: bool,
    /// Also if a newer task of the tenant has started; needs --reason.
    #[arg(long, requires = "reason")]
    force: bool,
}

#[derive(Args)]
pub(crate) struct Rollback {
    #[command(flatten)]
    steer: Steer,
    /// Also if a newer task of the tenant has started; needs --reason.
    #[arg(long, requires = "reason")]
    force: bool,
}

pub(super) async fn run(remote: &Remote, what: Task) -> anyhow::Result<ExitCode> {
    match what {
        Task::Show(target) => show(remote, &target).await,
        Task::Pause(args) => steer(remote, &TaskVerb::Pause, args).await,
        Task::Resume(args) => steer(remote, &TaskVerb::Resume, args).await,
        Task::Cancel(args) => steer(remote, &TaskVerb::Cancel, args).await,
        Task::Approve(args) => steer(remote, &TaskVerb::Approve, args).await,
        Task::Reject(args) => steer(remote, &TaskVerb::Reject, args).await,
        Task::SkipStage(args) => steer(remote, &TaskVerb::SkipStage, args).await,
        Task::Rollback(args) => steer(remote, &TaskVerb::Rollback { force: args.force }, args.steer).await,
        Task::Retry(args) => {
            let from = match (args.from_start, args.from_stage) {
                (true, _) => RetryFrom::Start,
                (false, Some(stage)) => RetryFrom::Stage(stage),
                (false, None) => RetryFrom::Checkpoint,
            };
            let config = args.new_config.as_deref().map(json_file).transpose()?;
            let (restart_if_invalid, force) = (args.restart_if_invalid, args.force);
            steer(remote, &TaskVerb::Retry { from, config, restart_if_invalid, force }, args.steer).await
        }
        Task::History(target) => {
            let which = named(&target)?;
            let page = found(remote, remote.client.task_history(&which).await, &which).await?;
            remote.screen.list(&page, EVENT_HEADS, event_row);
            Ok(ExitCode::SUCCESS)
        }
        Task::Checkpoint(target) => {
            let which = named(&target)?;
            let answer = found(remote, remote.client.checkpoint(&which).await, &which).await?;
            remote.screen.one(&answer, |checkpoint| {
                let stages: Vec<_> = checkpoint.completed_stages.iter().map(ToString::to_string).collect();
                vec![
                    ("completed", stages.join(", ")),
                    ("last index", checkpoint.last_completed_stage_index.to_string()),
                    ("context", checkpoint.context_data.to_string()),
                    ("saved", at(checkpoint.saved_at)),
                    ("version", checkpoint.version.to_string()),
                    ("fence", checkpoint.fence.to_string()),
                    ("pass", checkpoint.pass.to_string()),
                ]
            });
            Ok(ExitCode::SUCCESS)
        }
    }
}

pub(super) fn json_file(path: &std::path::Path) -> anyhow::Result<Json> {
    let text = match path.as_os_str() == "-" {
        true => std::io::read_to_string(std::io::stdin()).context("cannot read stdin")?,
        false => std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?,
    };
    Json::parse(&text).with_context(|| format!("{} is not JSON", path.display()))
}

fn named(target: &Target) -> anyhow::Result<Which> {
    target.which().context("name a task, or --tenant")
}

/// The answer; or, if there is no such task, which one was probably meant.
async fn found<T>(remote: &Remote, answer: Result<T, crate::client::Error>, which: &Which) -> anyhow::Result<T> {
    match which {
        Which::Task(task) => remote.known(answer, Kind::Task, task.as_str()).await,
        Which::Tenant(tenant) => remote.known(answer, Kind::Tenant, tenant.as_str()).await,
    }
}

async fn show(remote: &Remote, target: &Target) -> anyhow::Result<ExitCode> {
    let which = named(target)?;
    let answer = found(remote, remote.client.task(&which).await, &which).await?;
    remote.screen.one(&answer, card);
    Ok(ExitCode::SUCCESS)
}

fn card(task: &view::Task) -> Vec<(&'static str, String)> {
    let attempt =
        task.attempt.as_ref().map(|attempt| format!("{} ({:?})", attempt.number, attempt.kind).to_lowercase());
    let lock = task.lock.as_ref().map(|lock| format!("task {} until {}", lock.task, at(lock.until)));
    let freeze = task.freeze.as_ref().map(|freeze| format!("by {} since {}", freeze.by, at(freeze.at)));
    vec![
        ("task", task.id.to_string()),
        ("tenant", task.tenant.to_string()),
        ("plan", task.plan.to_string()),
        ("status", task.status.to_string()),
        ("note", remark(task)),
        ("stages", format!("{} of {} done", task.completed, task.stages)),
        ("attempt", maybe(attempt)),
        ("retries", task.retries.to_string()),
        ("owner", maybe(task.owner.as_ref())),
        ("tenant lock", maybe(lock)),
        ("frozen", maybe(freeze)),
        ("saved", if task.durable { String::new() } else { "no: the store does not answer".to_owned() }),
        ("started", maybe(task.started_at.map(at))),
        ("ended", maybe(task.ended_at.map(at))),
    ]
}

async fn steer(remote: &Remote, verb: &TaskVerb, args: Steer) -> anyhow::Result<ExitCode> {
    let Steer { target, operation, wait: Wait { wait: limit } } = args;
    let (which, ask) = (named(&target)?, operation.ask());
    let done = found(remote, remote.client.do_task(&which, verb, &ask).await, &which).await?;
    let task = done.task.as_ref().map_or_else(|| which.to_string(), |task| format!("task {task}"));
    let mut text = match ask.dry_run {
        true => format!("dry run: {task} would be {}", done.state),
        false => format!("{task} is {}", done.state),
    };
    if let Some(preview) = &done.preview {
        let stages: Vec<_> = preview.stages.iter().map(ToString::to_string).collect();
        text += &format!("\nwould run: {}", if stages.is_empty() { "nothing".to_owned() } else { stages.join(", ") });
        text += &maybe(preview.lock.as_ref().map(|lock| format!("\ntenant lock: task {}", lock.task)));
    }
    text += &maybe(done.discarded.as_ref().map(|why| format!("\nthe checkpoint was discarded: {why}")));
    remote.screen.told(&done.json, &text);
    match (limit, &done.task) {
        (Some(limit), Some(task)) if !ask.dry_run => wait(remote, &Which::Task(task.clone()), limit).await,
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Waits until the task rests: the server answers then, or when it has waited as long as it lets anybody wait.
async fn wait(remote: &Remote, which: &Which, limit: Duration) -> anyhow::Result<ExitCode> {
    let end = tokio::time::Instant::now() + limit;
    loop {
        let left = end.saturating_duration_since(tokio::time::Instant::now());
        let task = remote.client.wait_task(which, left.min(WAIT)).await?;
        let control: serde_json::Value = task.json.to().unwrap_or_default();
        let asked = control.pointer("/control/start").is_some_and(|start| !start.is_null());
        let moves = matches!(task.status, TaskStatus::Pending | TaskStatus::Running | TaskStatus::RollingBack);
        if !asked && (!moves || task.interrupted) {
            note(&format!(
                "{which} is {}{}",
                task.status,
                maybe(Some(remark(&task)).filter(|text| !text.is_empty()).map(|text| format!(": {text}")))
            ));
            return Ok(match task.status {
                TaskStatus::Completed | TaskStatus::RolledBack => ExitCode::SUCCESS,
                TaskStatus::Failed | TaskStatus::Cancelled | TaskStatus::RollbackFailed => exit::ENDED_BADLY.into(),
                _ => exit::WAITS.into(),
            });
        }
        if tokio::time::Instant::now() >= end {
            note(&format!("{which}: the time is over; it goes on"));
            return Ok(exit::TIME_OVER.into());
        }
    }
}
