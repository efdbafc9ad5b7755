//! `windlass inbox` and `windlass why`.

use std::process::ExitCode;

use clap::Args;
use windlass_core::id::TenantId;

use super::remote::{Kind, Remote};
use super::show::{Output, maybe, short};
use super::{note, say};
use crate::client::{Answer, Error, Which, view};

#[derive(Args)]
pub(crate) struct Why {
    /// A plan's or a task's id.
    #[arg(value_name = "PLAN|TASK", required_unless_present = "tenant", conflicts_with = "tenant")]
    id: Option<String>,
    /// Instead of an id: the tenant's latest task.
    #[arg(long, value_name = "TENANT")]
    tenant: Option<TenantId>,
}

pub(super) async fn run(remote: &Remote) -> anyhow::Result<ExitCode> {
    let page = remote.client.inbox().await?;
    if page.items.is_empty() && remote.screen.output == Output::Table {
        note("nothing waits for a person");
        return Ok(ExitCode::SUCCESS);
    }
    remote.screen.list(&page, &["what", "which", "tenant", "about", "next"], |item| {
        let which = item.task.as_ref().map(ToString::to_string);
        let which = which.or_else(|| item.plan.as_ref().map(ToString::to_string));
        let which = which.or_else(|| item.job.as_ref().map(ToString::to_string));
        let which = which.or_else(|| item.trigger.as_ref().map(ToString::to_string)).unwrap_or_default();
        let next = match &item.tenant {
            Some(tenant) if item.kind == "frozenTask" => format!("windlass tenant unfreeze {tenant}"),
            _ => next(&item.kind, &which),
        };
        vec![spaced(&item.kind), which, maybe(item.tenant.as_ref()), short(&item.text, 50), next]
    });
    Ok(ExitCode::SUCCESS)
}

/// What would settle it.
fn next(kind: &str, which: &str) -> String {
    match kind {
        "interruptedPlan" | "pausedPlan" => format!("windlass plan resume {which}"),
        "interruptedTask" | "failure" => format!("windlass task retry {which}"),
        "approval" => format!("windlass task approve {which}"),
        "pausedTask" => format!("windlass task resume {which}"),
        "failedRollback" => format!("windlass task rollback {which}"),
        "heldOccurrence" | "deadOccurrence" => format!("windlass trigger fire {which}"),
        "deadJob" => format!("windlass job requeue {which}"),
        _ => String::new(),
    }
}

/// `interruptedPlan` as people write it.
fn spaced(kind: &str) -> String {
    kind.chars().fold(String::new(), |mut text, c| {
        if c.is_uppercase() {
            text.push(' ');
        }
        text.extend(c.to_lowercase());
        text
    })
}

pub(super) async fn why(remote: &Remote, what: &Why) -> anyhow::Result<ExitCode> {
    let answer = match (&what.tenant, &what.id) {
        (Some(tenant), _) => {
            let answer = remote.client.why_task(&Which::Tenant(tenant.clone())).await;
            remote.known(answer, Kind::Tenant, tenant.as_str()).await?
        }
        (None, id) => {
            let id = id.as_deref().unwrap_or_default();
            remote.known(either(remote, id).await, Kind::Plan, id).await?
        }
    };
    match remote.screen.output {
        Output::Json => say(answer.json.as_str()),
        Output::Table => {
            say(&format!("{}: {}", spaced(&answer.cause), answer.text));
            if !answer.possible.is_empty() {
                say(&format!("possible now: {}", answer.possible.join(", ")));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The task of this id; if there is none, the plan.
async fn either(remote: &Remote, id: &str) -> Result<Answer<view::Why>, Error> {
    let bad = |error: windlass_core::id::BadId| Error::Setup(format!("{id:?} {error}"));
    match remote.client.why_task(&Which::Task(id.parse().map_err(bad)?)).await {
        Err(error) if error.status() == Some(404) => remote.client.why_plan(&id.parse().map_err(bad)?).await,
        answer => answer,
    }
}
