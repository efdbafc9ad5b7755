//! `windlass plan …`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use windlass_core::id::{PlanId, TenantId};
use windlass_core::plan::PlanStatus;
use windlass_core::task::status::TaskStatus;

use super::ops::{Limit, Operation, Wait};
use super::remote::{Kind, Remote};
use super::show::{at, maybe, short};
use super::{check, exit, note, progress, watch};
use crate::client::{PlanVerb, Plans, Tasks, view};

#[derive(Subcommand)]
pub(crate) enum Plan {
    /// Create a plan from a file (YAML, TOML or JSON; - is stdin), and start it if asked to.
    Create(Create),
    /// Check a plan file without a server.
    Check {
        /// The file.
        file: PathBuf,
    },
    /// Hand out its tasks.
    Start(Steer),
    /// Hand out no more tasks, and pause what runs at its next boundary.
    Pause(Steer),
    /// Go on; also what moves an interrupted plan.
    Resume(Steer),
    /// End it: what waits now, what runs at its next boundary.
    Cancel(Steer),
    /// Plans, the newest first.
    List {
        /// Only those that stand here, divided by commas: READY, RUNNING, PAUSED, COMPLETED, FAILED, CANCELLED.
        #[arg(long, value_name = "STATUS", value_delimiter = ',', value_parser = plan_status)]
        status: Vec<PlanStatus>,
        #[command(flatten)]
        limit: Limit,
    },
    /// One plan, and how far it is.
    Show {
        /// The plan's id.
        plan: PlanId,
    },
    /// A plan's tasks.
    Tasks {
        /// The plan's id.
        plan: PlanId,
        /// Only those that stand here, divided by commas: PENDING, RUNNING, PAUSED, FAILED, …
        #[arg(long, value_name = "STATUS", value_delimiter = ',', value_parser = task_status)]
        status: Vec<TaskStatus>,
        /// Only this tenant's.
        #[arg(long, value_name = "TENANT")]
        tenant: Option<TenantId>,
        #[command(flatten)]
        limit: Limit,
    },
    /// What happened to a plan.
    History {
        /// The plan's id.
        plan: PlanId,
    },
    /// A live view until nothing moves any more: tasks, stages, time left, and what waits for whom.
    Watch {
        /// The plan's id.
        plan: PlanId,
    },
}

#[derive(Args)]
pub(crate) struct Create {
    /// The file.
    file: PathBuf,
    /// Start it with it.
    #[arg(long)]
    start: bool,
    #[command(flatten)]
    operation: Operation,
    #[command(flatten)]
    wait: Wait,
}

#[derive(Args)]
pub(crate) struct Steer {
    /// The plan's id.
    plan: PlanId,
    #[command(flatten)]
    operation: Operation,
    #[command(flatten)]
    wait: Wait,
}

pub(super) fn plan_status(text: &str) -> Result<PlanStatus, String> {
    word(text, &PlanStatus::ALL, PlanStatus::name)
}

pub(super) fn task_status(text: &str) -> Result<TaskStatus, String> {
    word(text, &TaskStatus::ALL, TaskStatus::name)
}

/// One of the known words, in whatever case.
pub(super) fn word<T: Copy>(text: &str, all: &[T], name: impl Fn(T) -> &'static str) -> Result<T, String> {
    let found = all.iter().copied().find(|one| name(*one).eq_ignore_ascii_case(text));
    found.ok_or_else(|| {
        let known: Vec<_> = all.iter().map(|one| name(*one)).collect();
        match windlass_core::plan::file::nearest::nearest(text, &known) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("expected one of {}", known.join(", ")),
        }
    })
}

pub(super) async fn run(remote: &Remote, what: Plan) -> anyhow::Result<ExitCode> {
    let Remote { client, screen } = remote;
    match what {
        Plan::Create(args) => create(remote, args).await,
        Plan::Check { file } => check::run(&file),
        Plan::Start(args) => steer(remote, PlanVerb::Start, args).await,
        Plan::Pause(args) => steer(remote, PlanVerb::Pause, args).await,
        Plan::Resume(args) => steer(remote, PlanVerb::Resume, args).await,
        Plan::Cancel(args) => steer(remote, PlanVerb::Cancel, args).await,
        Plan::List { status, limit } => {
            let page = remote.pages(limit.limit, |limit, after| {
                let which = Plans { statuses: status.clone(), limit, after };
                async move { client.plans(&which).await }
            });
            screen.list(&page.await?, &["plan", "status", "tasks", "created", "ended"], |plan| {
                let (id, status) = (plan.id.to_string(), plan.status.to_string());
                vec![id, status, plan.tasks.to_string(), at(plan.created_at), maybe(plan.ended_at.map(at))]
            });
            Ok(ExitCode::SUCCESS)
        }
        Plan::Show { plan } => {
            let answer = remote.known(client.plan(&plan).await, Kind::Plan, plan.as_str()).await?;
            screen.one(&answer, card);
            Ok(ExitCode::SUCCESS)
        }
        Plan::Tasks { plan, status, tenant, limit } => {
            let page = remote.pages(limit.limit, |limit, after| {
                let (statuses, tenant, plan) = (status.clone(), tenant.clone(), plan.clone());
                let which = Tasks { statuses, tenant, limit, after, ..Tasks::default() };
                async move { client.tasks_of(&plan, &which).await }
            });
            let page = remote.known(page.await, Kind::Plan, plan.as_str()).await?;
            screen.list(&page, TASK_HEADS, task_row);
            Ok(ExitCode::SUCCESS)
        }
        Plan::History { plan } => {
            let page = remote.known(client.plan_history(&plan).await, Kind::Plan, plan.as_str()).await?;
            screen.list(&page, EVENT_HEADS, event_row);
            Ok(ExitCode::SUCCESS)
        }
        Plan::Watch { plan } => {
            remote.known(client.plan(&plan).await, Kind::Plan, plan.as_str()).await?;
            watch::run(remote, &plan).await
        }
    }
}

async fn create(remote: &Remote, args: Create) -> anyhow::Result<ExitCode> {
    let (text, format) = check::read(&args.file)?;
    let ask = args.operation.ask();
    let created = remote.client.create_plan(&text, format, args.start, &ask).await?;
    let tasks = created.task_count.unwrap_or(created.tasks.len() as u32);
    let how = match (ask.dry_run, created.started) {
        (true, _) => "would be created",
        (false, true) => "is created and started",
        (false, false) => "is created; start it with `windlass plan start`",
    };
    remote.screen.told(&created.json, &format!("plan {} with {tasks} tasks {how}", created.plan));
    match args.wait.wait {
        Some(limit) if created.started && !ask.dry_run => wait(remote, &created.plan, limit).await,
        _ => Ok(ExitCode::SUCCESS),
    }
}

async fn steer(remote: &Remote, verb: PlanVerb, args: Steer) -> anyhow::Result<ExitCode> {
    let Steer { plan, operation, wait: Wait { wait: limit } } = args;
    let ask = operation.ask();
    let done = remote.known(remote.client.do_plan(&plan, verb, &ask).await, Kind::Plan, plan.as_str()).await?;
    let text = match ask.dry_run {
        true => format!("dry run: plan {} would be {}", done.plan, done.state),
        false => format!("plan {} is {}", done.plan, done.state),
    };
    remote.screen.told(&done.json, &text);
    match limit {
        Some(limit) if !ask.dry_run => wait(remote, &plan, limit).await,
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Waits for a plan, with a bar for people, and says how it ended.
pub(super) async fn wait(remote: &Remote, plan: &PlanId, limit: Duration) -> anyhow::Result<ExitCode> {
    let bar = progress::follow(remote.clone(), plan.clone());
    let ended = remote.client.wait_for_plan(plan, Some(limit)).await;
    bar.end().await;
    let Some(ended) = ended? else {
        note(&format!("plan {plan}: the time is over; it goes on"));
        return Ok(exit::TIME_OVER.into());
    };
    note(&format!("plan {plan} is {}: {}", ended.status, counts(&ended.tally)));
    Ok(verdict(&ended))
}

/// What the end of a wait means for whoever waited.
pub(super) fn verdict(plan: &view::Plan) -> ExitCode {
    match plan.status {
        PlanStatus::Completed => ExitCode::SUCCESS,
        PlanStatus::Failed | PlanStatus::Cancelled => exit::ENDED_BADLY.into(),
        _ => {
            note("it waits for a person: `windlass inbox` says for what");
            exit::WAITS.into()
        }
    }
}

pub(super) fn counts(tally: &view::Tally) -> String {
    let all: Vec<_> = tally.iter().map(|(status, n)| format!("{n} {status}")).collect();
    all.join(", ")
}

fn card(plan: &view::Plan) -> Vec<(&'static str, String)> {
    let status = match plan.interrupted {
        true => format!("{} (interrupted: nobody conducts it; `windlass plan resume {}`)", plan.status, plan.id),
        false if plan.cancelled && !plan.status.is_final() => format!("{} (being cancelled)", plan.status),
        false => plan.status.to_string(),
    };
    vec![
        ("plan", plan.id.to_string()),
        ("status", status),
        ("tasks", format!("{} ({})", plan.tasks, counts(&plan.tally))),
        ("at once", plan.max_concurrency.to_string()),
        ("created", at(plan.created_at)),
        ("started", maybe(plan.started_at.map(at))),
        ("ended", maybe(plan.ended_at.map(at))),
    ]
}

pub(super) const TASK_HEADS: &[&str] = &["task", "tenant", "status", "stages", "note"];

pub(super) fn task_row(task: &view::Task) -> Vec<String> {
    let stages = format!("{}/{}", task.completed, task.stages);
    vec![task.id.to_string(), task.tenant.to_string(), task.status.to_string(), stages, short(&remark(task), 60)]
}

/// What a person should know about a task that does not simply run.
pub(super) fn remark(task: &view::Task) -> String {
    use windlass_core::task::Cause;
    let held = task.hold.as_ref().map(|hold| hold.cause);
    match (task.status, held, &task.failure) {
        _ if task.interrupted => "interrupted".to_owned(),
        (TaskStatus::Paused, Some(Cause::Approval), _) => "an approval is wanted".to_owned(),
        (TaskStatus::Cancelled, Some(Cause::Conflict), _) => "skipped: its tenant was locked".to_owned(),
        (TaskStatus::Paused | TaskStatus::Cancelled, _, _) => {
            let hold = task.hold.as_ref();
            let by = maybe(hold.and_then(|hold| hold.by.as_ref()).map(|by| format!("by {by}")));
            let reason = maybe(hold.and_then(|hold| hold.reason.as_ref()).map(|reason| format!(": {reason}")));
            format!("{by}{reason}")
        }
        (TaskStatus::Failed | TaskStatus::RollbackFailed, _, Some(failure)) => {
            format!("{}: {}", failure.stage, failure.message)
        }
        (TaskStatus::Running, _, _) if task.pause_requested => "pausing".to_owned(),
        _ => String::new(),
    }
}

pub(super) const EVENT_HEADS: &[&str] = &["at", "event", "by", "about"];

pub(super) fn event_row(event: &view::Event) -> Vec<String> {
    vec![at(event.at), event.kind.clone(), maybe(event.by.as_ref()), short(&about(event), 80)]
}

/// What an event says beside its name, in a few words.
pub(super) fn about(event: &view::Event) -> String {
    let data: serde_json::Value = event.data.to().unwrap_or_default();
    let text = |pointer: &str| data.pointer(pointer).and_then(serde_json::Value::as_str).map(str::to_owned);
    let stage = text("/stage").or_else(|| text("/at/stage"));
    let message = text("/failure/message").or_else(|| text("/message"));
    let reason = event.reason.as_ref().map(ToString::to_string);
    let parts: Vec<String> = [stage, message, reason].into_iter().flatten().collect();
    parts.join(": ")
}
