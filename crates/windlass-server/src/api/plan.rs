//! Plans.

use std::time::Duration;

use axum::http::StatusCode;
use windlass_core::id::PlanId;
use windlass_core::plan::PlanStatus;
use windlass_core::plan::file::{self, Format};
use windlass_core::port::state::{Filter, Row};
use windlass_engine::command::plan::Verb;

use super::scope::tally;
use super::task::{Tasks, list_tasks};
use crate::call::{Answer, Call, List, json, ok};
use crate::problem::Problem;
use crate::view::event::Event;
use crate::view::plan::{Created, Plan, PlanDetail, Why};
use crate::view::task::Done;

pub(crate) async fn create(call: Call) -> Answer {
    let format = match call.media_type().as_deref() {
        Some("application/json") => Format::Json,
        Some("application/yaml" | "application/x-yaml" | "text/yaml") => Format::Yaml,
        Some("application/toml" | "text/toml") => Format::Toml,
        _ => return Err(Problem::media_type("send application/yaml, application/toml or application/json")),
    };
    let text = std::str::from_utf8(&call.body).map_err(|_| Problem::not_json("the plan is not UTF-8"))?;
    let file = file::parse(text, format)?;
    if !file.tasks.iter().all(|task| call.who.sees(&task.tenant)) {
        return Err(Problem::beyond("the plan has tasks of tenants that are not this key's"));
    }
    let caller = call.caller(call.given("by")?, call.given("reason")?, false)?;
    let created = call.engine().create(&file, call.flag("start")?, &caller).await?;
    let status = if caller.dry_run { StatusCode::OK } else { StatusCode::CREATED };
    json(status, &Created::new(&created, caller.dry_run))
}

pub(crate) async fn list(call: Call) -> Answer {
    let statuses = call.words("status", &PlanStatus::ALL, PlanStatus::name)?;
    let (after, limit) = call.page()?;
    let page = call.engine().list(&Filter::Plans { statuses }, after.as_ref(), limit).await?;
    let mut items = Vec::with_capacity(page.items.len());
    for row in &page.items {
        let Row::Plan(row) = row else { continue };
        match call.own_tasks(&row.plan.id).await {
            Ok(None) => items.push(Plan::from(&row.plan)),
            Ok(Some(own)) => items.push(Plan::from(&row.plan).with_tasks(tally(&own).total())),
            Err(problem) if problem.status() == StatusCode::NOT_FOUND => {}
            Err(problem) => return Err(problem),
        }
    }
    ok(&List::new(items, page.next))
}

pub(crate) async fn get(call: Call) -> Answer {
    let plan: PlanId = call.part("plan")?;
    let wait_ms = call.wait_ms()?;
    // Before waiting: what is not there is said at once.
    call.own_tasks(&plan).await?;
    if wait_ms > 0 {
        let _place = call.waiting()?;
        tokio::select! { biased;
            () = call.shared.stopped() => {}
            waited = call.engine().wait_plan(&plan, Duration::from_millis(wait_ms)) => { waited?; }
        }
    }
    let view = call.engine().view_plan(&plan).await?;
    let own = call.own_tasks(&plan).await?;
    ok(&PlanDetail::new(&view, &own.map_or(view.tally, |own| tally(&own))))
}

pub(crate) async fn tasks(call: Call) -> Answer {
    let plan: PlanId = call.part("plan")?;
    // Where there is nothing of the key's own, there is no plan.
    if call.own_tasks(&plan).await?.is_none() {
        call.engine().view_plan(&plan).await?;
    }
    let mut tasks = Tasks::asked(&call)?;
    tasks.plan = Some(plan);
    list_tasks(&call, tasks).await
}

pub(crate) async fn history(call: Call) -> Answer {
    let plan: PlanId = call.part("plan")?;
    let limited = call.own_tasks(&plan).await?.is_some();
    let events = call.engine().plan_history(&plan).await?;
    let shown = |event| if limited { Event::from(event).bare() } else { Event::from(event) };
    ok(&List::whole(events.iter().map(shown).collect()))
}

pub(crate) async fn why(call: Call) -> Answer {
    let plan: PlanId = call.part("plan")?;
    let limited = call.own_tasks(&plan).await?.is_some();
    let mut why = Why::from(call.engine().why_plan(&plan).await?);
    if limited {
        // The text counts everybody's tasks.
        (why.text, why.possible) = (format!("the plan is {}; ask why of your own tasks", why.cause), Vec::new());
    }
    ok(&why)
}

pub(crate) async fn operate(call: Call) -> Answer {
    let plan: PlanId = call.part("plan")?;
    let verb = match call.verb() {
        "start" => Verb::Start,
        "pause" => Verb::Pause,
        "resume" => Verb::Resume,
        _ => Verb::Cancel,
    };
    let caller = call.operation()?;
    call.whole_plan(&plan).await?;
    ok(&Done::from(&call.engine().plan(&plan, verb, &caller).await?))
}
