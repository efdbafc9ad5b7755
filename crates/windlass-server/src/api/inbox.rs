//! What waits for a person.

use axum::http::StatusCode;
use windlass_engine::query::inbox::Item as Waiting;

use crate::call::{Answer, Call, ok};
use crate::problem::Problem;
use crate::view::plan::{Inbox, Item};

pub(crate) async fn list(call: Call) -> Answer {
    let (items, more) = call.engine().inbox().await?;
    let mut seen = Vec::with_capacity(items.len());
    for item in items {
        if is_seen(&call, &item).await? {
            seen.push(Item::from(item));
        }
    }
    ok(&Inbox { items: seen, more })
}

async fn is_seen(call: &Call, item: &Waiting) -> Result<bool, Problem> {
    if call.who.tenants.is_none() {
        return Ok(true);
    }
    match (&item.tenant, &item.plan) {
        (Some(tenant), _) => Ok(call.who.sees(tenant)),
        (None, Some(plan)) => match call.own_tasks(plan).await {
            Ok(_) => Ok(true),
            Err(problem) if problem.status() == StatusCode::NOT_FOUND => Ok(false),
            Err(problem) => Err(problem),
        },
        (None, None) => Ok(false),
    }
}
