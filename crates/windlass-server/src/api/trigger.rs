//! Triggers.

use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_core::by::{By, Reason};
use windlass_core::id::{TenantId, TriggerId};
use windlass_core::json::Json;
use windlass_core::port::trigger::TriggerFilter;
use windlass_core::trigger::schedule::{Misfire, Schedule, UPCOMING_MAX};
use windlass_core::trigger::target::{Operation, Subject, Target, Verb};
use windlass_core::trigger::{self, Overlap, Recovery, TriggerSpec, TriggerStatus};

use super::job::{Pauses, bits_of, given};
use crate::call::{Answer, Call, List, kept, ok};
use crate::problem::Problem;
use crate::schema::{Any, Id, Name, Object, Text, Time};
use crate::view::trigger::{Note, Trigger};

/// A trigger to be saved.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SaveTrigger {
    /// {"at": time}, {"after": "90s"}, {"every": "5m", "from": time?} or {"cron": "0 9 * * mon-fri", "zone": "Europe/Berlin"}.
    #[schemars(with = "Object")]
    schedule: Schedule,
    /// {"job": {…}}, {"plan": {…}}, {"operation": {…}} or {"http": {…}}.
    #[schemars(with = "Object")]
    target: Target,
    #[schemars(with = "Any")]
    #[serde(default, deserialize_with = "given")]
    payload: Option<Json>,
    #[schemars(with = "Option<Id>")]
    tenant: Option<TenantId>,
    /// "once", "skip", "catch_up" or {"catch_up": {"max": 20}}.
    #[schemars(with = "Any")]
    #[serde(default)]
    misfire: Misfire,
    /// "auto" or "held".
    #[schemars(with = "String")]
    #[serde(default)]
    recovery: Recovery,
    /// "allow" or "skip".
    #[schemars(with = "String")]
    #[serde(default)]
    overlap: Overlap,
    #[serde(default = "three")]
    #[schemars(range(max = 1000))]
    max_retries: u32,
    #[serde(default)]
    backoff: Pauses,
    #[schemars(with = "Option<Name>")]
    by: Option<By>,
    #[schemars(with = "Option<Text>")]
    reason: Option<Reason>,
    #[serde(default)]
    dry_run: bool,
}

fn three() -> u32 {
    3
}

pub(crate) async fn create(call: Call) -> Answer {
    save(call, None).await
}

pub(crate) async fn replace(call: Call) -> Answer {
    let id: TriggerId = call.part("trigger")?;
    save(call, Some(id)).await
}

async fn save(call: Call, id: Option<TriggerId>) -> Answer {
    let body: SaveTrigger = call.json()?;
    let spec = TriggerSpec {
        schedule: body.schedule,
        target: body.target,
        payload: body.payload,
        tenant: body.tenant,
        misfire: body.misfire,
        recovery: body.recovery,
        overlap: body.overlap,
        max_retries: body.max_retries,
        backoff: body.backoff.into(),
    };
    call.own_target(&spec).await?;
    let caller = call.caller(body.by, body.reason, body.dry_run)?;
    let status = if id.is_none() && !caller.dry_run { StatusCode::CREATED } else { StatusCode::OK };
    // Under a key, a new one is always called the same: made twice, it is one.
    let id = match (id, &caller.key) {
        (None, Some(key)) => {
            let name = format!("t-{:032x}", bits_of(key, 0));
            Some(name.parse().map_err(|_| Problem::misfit(format!("{name} is no trigger id")))?)
        }
        (id, _) => id,
    };
    let what = async {
        // Another tenant's is neither there nor to be overwritten.
        if let Some(id) = id.as_ref().filter(|_| call.who.tenants.is_some())
            && call.engine().triggers()?.get(id).await.is_ok()
        {
            call.visible_trigger(id).await?;
        }
        kept(&Trigger::from(&call.engine().triggers()?.save(id, spec, &caller).await?))
    };
    call.once(&caller, status, what).await
}

impl Call {
    /// A trigger that is this key's to see.
    async fn visible_trigger(&self, id: &TriggerId) -> Result<trigger::Trigger, Problem> {
        let trigger = self.engine().triggers()?.get(id).await?;
        match self.who.sees_maybe(trigger.spec.tenant.as_ref()) {
            true => Ok(trigger),
            false => Err(Problem::not_found(format!("trigger {id}"))),
        }
    }
}

pub(crate) async fn list(call: Call) -> Answer {
    let (after, limit) = call.page()?;
    let statuses = call.words("status", &TriggerStatus::ALL, TriggerStatus::name)?;
    let filter = TriggerFilter { tenant: call.given("tenant")?, statuses, waiting: call.flag("waiting")? };
    let page = call.engine().triggers()?.list(&filter, after.as_ref(), limit).await?;
    let items = page.items.iter().filter(|one| call.who.sees_maybe(one.spec.tenant.as_ref())).map(Trigger::from);
    ok(&List::new(items.collect(), page.next))
}

pub(crate) async fn get(call: Call) -> Answer {
    ok(&Trigger::from(&call.visible_trigger(&call.part("trigger")?).await?))
}

pub(crate) async fn notes(call: Call) -> Answer {
    let id: TriggerId = call.part("trigger")?;
    call.visible_trigger(&id).await?;
    let notes = call.engine().triggers()?.notes(&id).await?;
    ok(&List::whole(notes.iter().map(Note::from).collect()))
}

/// A trigger that is gone.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Removed {
    removed: bool,
}

pub(crate) async fn remove(call: Call) -> Answer {
    let id: TriggerId = call.part("trigger")?;
    let caller = call.operation()?;
    let what = async {
        call.visible_trigger(&id).await?;
        let removed = caller.dry_run || call.engine().triggers()?.remove(&id).await?;
        match removed {
            true => kept(&Removed { removed }),
            false => Err(Problem::not_found(format!("trigger {id}"))),
        }
    };
    call.once(&caller, StatusCode::OK, what).await
}

pub(crate) async fn operate(call: Call) -> Answer {
    let id: TriggerId = call.part("trigger")?;
    let caller = call.operation()?;
    let what = async {
        call.visible_trigger(&id).await?;
        let triggers = call.engine().triggers()?;
        let trigger = match call.verb() {
            "fire" => triggers.fire(&id, &caller).await?,
            "skip" => triggers.skip(&id, &caller).await?,
            "pause" => triggers.pause(&id, &caller).await?,
            _ => triggers.resume(&id, &caller).await?,
        };
        kept(&Trigger::from(&trigger))
    };
    call.once(&caller, StatusCode::OK, what).await
}

/// A schedule to look at. What else belongs to a trigger may be sent along, and is passed over.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "the rest of a trigger is taken, so that a file can be previewed as it is")]
pub(crate) struct Preview {
    #[schemars(with = "Object")]
    schedule: Schedule,
    /// How many times.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 1000))]
    n: usize,
    #[schemars(with = "Any")]
    target: Option<Json>,
    #[schemars(with = "Any")]
    payload: Option<Json>,
    #[schemars(with = "Any")]
    tenant: Option<Json>,
    #[schemars(with = "Any")]
    misfire: Option<Json>,
    #[schemars(with = "Any")]
    recovery: Option<Json>,
    #[schemars(with = "Any")]
    overlap: Option<Json>,
    #[schemars(with = "Any")]
    max_retries: Option<Json>,
    #[schemars(with = "Any")]
    backoff: Option<Json>,
}

fn ten() -> usize {
    10
}

pub(crate) async fn preview(call: Call) -> Answer {
    let Preview { schedule, n, .. } = call.json()?;
    if n == 0 || n > UPCOMING_MAX {
        return Err(Problem::misfit(format!("{n} is not within 1 to {UPCOMING_MAX}")).pointer("/n"));
    }
    // Only the schedule is looked at.
    let nothing = Operation { verb: Verb::Pause, on: Subject::Plan("-".parse().map_err(|_| Problem::misfit("-"))?) };
    let spec = TriggerSpec {
        schedule,
        target: Target::Operation(nothing),
        payload: None,
        tenant: None,
        misfire: Misfire::default(),
        recovery: Recovery::default(),
        overlap: Overlap::default(),
        max_retries: 0,
        backoff: Pauses::default().into(),
    };
    ok(&List::whole(call.engine().triggers()?.preview(&spec, n).into_iter().map(Time).collect()))
}
