//! Tasks, by their id or as the latest of their tenant.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use windlass_core::by::{By, Reason};
use windlass_core::id::{PlanId, StageName, TenantId};
use windlass_core::json::Json;
use windlass_core::port::state::{Filter, Row};
use windlass_core::task::Cause;
use windlass_core::task::command::{Command, Retry, RetryFrom};
use windlass_core::task::status::TaskStatus;
use windlass_engine::command::Caller;
use windlass_engine::command::task::{Order, Which};

use crate::call::{Answer, Call, List, bad_parameter, ok};
use crate::problem::Problem;
use crate::schema::{Any, Id, Name, Text};
use crate::view::event::Event;
use crate::view::plan::Why;
use crate::view::task::{Checkpoint, Done, Task, TaskDetail};

/// Which tasks to list.
pub(crate) struct Tasks {
    pub(crate) plan: Option<PlanId>,
    pub(crate) tenant: Option<TenantId>,
    statuses: Vec<TaskStatus>,
    interrupted: bool,
}

impl Tasks {
    pub(crate) fn asked(call: &Call) -> Result<Tasks, Problem> {
        Ok(Tasks {
            plan: call.given("plan")?,
            tenant: call.given("tenant")?,
            statuses: call.words("status", &TaskStatus::ALL, TaskStatus::name)?,
            interrupted: call.flag("interrupted")?,
        })
    }
}

pub(crate) async fn list(call: Call) -> Answer {
    let tasks = Tasks::asked(&call)?;
    list_tasks(&call, tasks).await
}

pub(crate) async fn list_tasks(call: &Call, asked: Tasks) -> Answer {
    let (after, limit) = call.page()?;
    let Tasks { plan, mut tenant, statuses, interrupted } = asked;
    if let Some(tenant) = &tenant {
        call.own_tenant(tenant)?;
    }
    // A key of one tenant is spared reading everybody's.
    if let (None, Some(tenants)) = (&tenant, &call.who.tenants)
        && tenants.len() == 1
    {
        tenant = tenants.first().cloned();
    }
    let filter = Filter::Tasks { plan, tenant, statuses: statuses.into_iter().collect(), interrupted };
    let page = call.engine().list(&filter, after.as_ref(), limit).await?;
    let items = page.items.iter().filter_map(|row| match row {
        Row::Task(row) if call.who.sees(&row.task.tenant) => Some(Task::from(&**row)),
        _ => None,
    });
    ok(&List::new(items.collect(), page.next))
}

impl Call {
    /// The task that the path names; another tenant's is not there.
    async fn which(&self) -> Result<Which, Problem> {
        let which = match self.path.iter().any(|(name, _)| name == "tenant") {
            true => Which::Tenant(self.part("tenant")?),
            false => Which::Task(self.part("task")?),
        };
        self.own_task(&which).await?;
        Ok(which)
    }
}

pub(crate) async fn get(call: Call) -> Answer {
    // Before waiting: what is not there is said at once.
    let which = call.which().await?;
    let wait_ms = call.wait_ms()?;
    if wait_ms > 0 {
        let _place = call.waiting()?;
        tokio::select! { biased;
            () = call.shared.stopped() => {}
            waited = call.engine().wait_task(&which, Duration::from_millis(wait_ms)) => { waited?; }
        }
    }
    ok(&TaskDetail::from(&call.engine().view_task(&which).await?))
}

pub(crate) async fn checkpoint(call: Call) -> Answer {
    let which = call.which().await?;
    let view = call.engine().view_task(&which).await?;
    let none = || Problem::not_found(format!("a checkpoint of task {}", view.task.id));
    ok(&Checkpoint::from(view.checkpoint.as_ref().ok_or_else(none)?))
}

pub(crate) async fn history(call: Call) -> Answer {
    let which = call.which().await?;
    let events = call.engine().task_history(&which).await?;
    ok(&List::whole(events.iter().map(Event::from).collect()))
}

pub(crate) async fn why(call: Call) -> Answer {
    let which = call.which().await?;
    ok(&Why::from(call.engine().why_task(&which).await?))
}

/// A retry.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RetryTask {
    #[schemars(with = "Option<Name>")]
    by: Option<By>,
    #[schemars(with = "Option<Text>")]
    reason: Option<Reason>,
    #[serde(default)]
    dry_run: bool,
    /// Where to begin: "checkpoint" (after the last completed stage), "start", or {"stage": "name"}.
    #[serde(default)]
    from: Begin,
    /// What its stages work with from now on.
    #[schemars(with = "Any")]
    config: Option<Json>,
    /// What becomes of a checkpoint that is not valid: "refuse", or "restart" from the first stage.
    #[serde(default)]
    on_invalid: OnInvalid,
    /// Also when a newer task of the tenant has started; needs a reason.
    #[serde(default)]
    force: bool,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Begin {
    #[default]
    Checkpoint,
    Start,
    Stage(#[schemars(with = "Id")] StageName),
}

#[derive(Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnInvalid {
    #[default]
    Refuse,
    Restart,
}

/// A rollback.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RollbackTask {
    #[schemars(with = "Option<Name>")]
    by: Option<By>,
    #[schemars(with = "Option<Text>")]
    reason: Option<Reason>,
    #[serde(default)]
    dry_run: bool,
    /// Also when a newer task of the tenant has started; needs a reason.
    #[serde(default)]
    force: bool,
}

/// Passing over a stage.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SkipStage {
    #[schemars(with = "Option<Name>")]
    by: Option<By>,
    #[schemars(with = "Option<Text>")]
    reason: Option<Reason>,
    #[serde(default)]
    dry_run: bool,
    /// It must be this one.
    #[schemars(with = "Option<Id>")]
    stage: Option<StageName>,
}

pub(crate) async fn operate(call: Call) -> Answer {
    let (command, caller) = match call.verb() {
        "pause" => (Command::Pause(Cause::Person), call.operation()?),
        "resume" => (Command::Resume, call.operation()?),
        "cancel" => (Command::Cancel(Cause::Person), call.operation()?),
        "approve" => (Command::Approve, call.operation()?),
        "reject" => (Command::Reject, call.operation()?),
        other => return Err(bad_parameter("verb", format!("{other} is no operation"))),
    };
    carry_out(&call, command, None, caller).await
}

pub(crate) async fn retry(call: Call) -> Answer {
    let RetryTask { by, reason, dry_run, from, config, on_invalid, force } = call.json()?;
    let from = match from {
        Begin::Checkpoint => RetryFrom::Checkpoint,
        Begin::Start => RetryFrom::Start,
        Begin::Stage(stage) => RetryFrom::Stage(stage),
    };
    let retry = Retry { from, restart_if_invalid: on_invalid == OnInvalid::Restart, force };
    let caller = call.caller(by, reason, dry_run)?;
    carry_out(&call, Command::Retry(retry), config, caller).await
}

pub(crate) async fn rollback(call: Call) -> Answer {
    let RollbackTask { by, reason, dry_run, force } = call.json()?;
    let caller = call.caller(by, reason, dry_run)?;
    carry_out(&call, Command::Rollback { force }, None, caller).await
}

pub(crate) async fn skip_stage(call: Call) -> Answer {
    let SkipStage { by, reason, dry_run, stage } = call.json()?;
    let caller = call.caller(by, reason, dry_run)?;
    carry_out(&call, Command::SkipStage(stage), None, caller).await
}

async fn carry_out(call: &Call, command: Command, config: Option<Json>, caller: Caller) -> Answer {
    let which = call.which().await?;
    let done = call.engine().task(&Order { which, command, config }, &caller).await?;
    ok(&Done::from(&done))
}
