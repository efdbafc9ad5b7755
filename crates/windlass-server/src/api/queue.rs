//! Queues, and the limits of queues and tenants.

use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_core::by::{By, Reason};
use windlass_core::id::QueueName;
use windlass_core::job::Asker;
use windlass_core::job::limit::{Limits, Rule, Scope};

use crate::call::{Answer, Call, List, kept, ok};
use crate::problem::Problem;
use crate::schema::{Name, Text};
use crate::view::job::{Asker as AskerView, Queue};

pub(crate) async fn list(call: Call) -> Answer {
    call.who.for_everybody("the list of queues")?;
    let (after, limit) = call.page()?;
    let page = call.queues().queues(after.as_ref(), limit).await?;
    let items = page.items.iter().filter(|view| call.who.sees_queue(&view.queue)).map(Queue::from);
    ok(&List::new(items.collect(), page.next))
}

/// What is set for a queue or a tenant.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Bounds<'a> {
    /// Jobs that run at once, at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    running: Option<u32>,
    /// Jobs that wait, at most: further ones are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<u32>,
    /// Nothing of it is claimed since.
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<AskerView<'a>>,
}

/// What to set. What is left out stays as it is; `null` takes a bound away.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SetBounds {
    #[serde(default, deserialize_with = "some")]
    #[schemars(with = "Option<u32>")]
    running: Option<Option<u32>>,
    #[serde(default, deserialize_with = "some")]
    #[schemars(with = "Option<u32>")]
    waiting: Option<Option<u32>>,
    /// Whether anything of it may be claimed; of a tenant, see freeze.
    hold: Option<bool>,
    #[schemars(with = "Option<Name>")]
    by: Option<By>,
    #[schemars(with = "Option<Text>")]
    reason: Option<Reason>,
    #[serde(default)]
    dry_run: bool,
}

fn some<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Option<u32>>, D::Error> {
    Option::<u32>::deserialize(from).map(Some)
}

impl Call {
    fn scope(&self) -> Result<Scope, Problem> {
        if self.path.iter().any(|(name, _)| name == "tenant") {
            return Ok(Scope::Tenant(self.tenant()?));
        }
        let queue: QueueName = self.part("queue")?;
        match self.who.sees_queue(&queue) {
            true => Ok(Scope::Queue(queue)),
            false => Err(Problem::not_found(format!("queue {queue}"))),
        }
    }

    async fn rule(&self, scope: Scope) -> Result<Rule, Problem> {
        let found = self.queues().rules(std::slice::from_ref(&scope)).await?.pop();
        Ok(found.unwrap_or(Rule { scope, limits: Limits::NONE, held: None }))
    }
}

fn shown(rule: &Rule) -> Bounds<'_> {
    let Limits { running, waiting } = rule.limits;
    Bounds { running, waiting, held: rule.held.as_ref().map(AskerView::from) }
}

pub(crate) async fn limits(call: Call) -> Answer {
    let scope = call.scope()?;
    if matches!(scope, Scope::Queue(_)) {
        call.who.for_everybody("a queue's limits")?;
    }
    ok(&shown(&call.rule(scope).await?))
}

pub(crate) async fn set_limits(call: Call) -> Answer {
    let scope = call.scope()?;
    call.who.for_everybody("setting limits")?;
    let SetBounds { running, waiting, hold, by, reason, dry_run } = call.json()?;
    if hold.is_some() && matches!(scope, Scope::Tenant(_)) {
        return Err(Problem::misfit("a tenant is held by freezing it").pointer("/hold"));
    }
    let caller = call.caller(by, reason, dry_run)?;
    let what = async {
        let mut rule = call.rule(scope).await?;
        rule.limits.running = running.unwrap_or(rule.limits.running);
        rule.limits.waiting = waiting.unwrap_or(rule.limits.waiting);
        match hold {
            Some(true) if rule.held.is_none() => {
                let (by, reason) = (caller.by.clone(), caller.reason.clone());
                rule.held = Some(Asker { by, reason, at: call.shared.clock.now() });
            }
            Some(false) => rule.held = None,
            _ => {}
        }
        if !caller.dry_run {
            call.queues().set_rules(std::slice::from_ref(&rule)).await?;
        }
        kept(&shown(&rule))
    };
    call.once(&caller, StatusCode::OK, what).await
}
