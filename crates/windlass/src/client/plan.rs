//! Plans: create, steer, ask.

use std::time::Duration;

use reqwest::Method;
use tokio::time::Instant;
use windlass_core::id::PlanId;
use windlass_core::plan::PlanStatus;
use windlass_core::plan::file::Format;
use windlass_core::task::status::TaskStatus;

use super::send::Call;
use super::{Answer, Ask, Client, Error, Page, Tasks, view};

/// In which language a plan is written.
pub type PlanFormat = Format;

/// What can be done to a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the operations of a plan")]
pub enum PlanVerb {
    Start,
    Pause,
    Resume,
    Cancel,
}

impl PlanVerb {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            PlanVerb::Start => "start",
            PlanVerb::Pause => "pause",
            PlanVerb::Resume => "resume",
            PlanVerb::Cancel => "cancel",
        }
    }
}

/// Which plans to list, the newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plans {
    /// Standing here; empty is anywhere.
    pub statuses: Vec<PlanStatus>,
    /// On a page, at most.
    pub limit: Option<u32>,
    /// After this place.
    pub after: Option<String>,
}

/// How long one call waits for a plan.
const LOOK: Duration = Duration::from_secs(30);
/// An answer that comes this long before the end of its wait came early.
const EARLY: Duration = Duration::from_millis(50);

impl Client {
    /// Creates a plan, and starts it if asked to.
    pub async fn create_plan(
        &self,
        text: &str,
        format: PlanFormat,
        start: bool,
        ask: &Ask,
    ) -> Result<Answer<view::Created>, Error> {
        let ask = self.signed(ask);
        let kind = match format {
            Format::Yaml => "application/yaml",
            Format::Toml => "application/toml",
            Format::Json => "application/json",
        };
        // The body is the plan: who and why go beside it.
        let call = Call::write(Method::POST, "v1/plans", ask.key.as_ref()).flag("start", start);
        let call = call.flag("dryRun", ask.dry_run).with("by", ask.by).with("reason", ask.reason);
        self.call(call.text(kind, text.to_owned())).await
    }

    /// A plan as it stands.
    pub async fn plan(&self, plan: &PlanId) -> Result<Answer<view::Plan>, Error> {
        self.call(Call::get(format!("v1/plans/{plan}"))).await
    }

    /// Waits until the plan has ended, or nothing of it moves any more unless a person says so; at most `limit`. `None`
    /// when the time is over.
    pub async fn wait_for_plan(
        &self,
        plan: &PlanId,
        limit: Option<Duration>,
    ) -> Result<Option<Answer<view::Plan>>, Error> {
        let end = limit.map(|limit| Instant::now() + limit);
        loop {
            let left = end.map_or(LOOK, |end| end.saturating_duration_since(Instant::now())).min(LOOK);
            let began = Instant::now();
            let call = Call::get(format!("v1/plans/{plan}")).waiting(left);
            let found: Answer<view::Plan> = self.call(call).await?;
            // The server answers before the time is over when the plan rests, and when it stops itself.
            let early = began.elapsed() + EARLY < left;
            if found.status.is_final() || (early && found.may_rest()) {
                return Ok(Some(found));
            }
            if end.is_some_and(|end| Instant::now() >= end) {
                return Ok(None);
            }
        }
    }

    /// A page of plans.
    pub async fn plans(&self, which: &Plans) -> Result<Page<view::Plan>, Error> {
        let call = Call::get("v1/plans").with("status", listed(&which.statuses, PlanStatus::name));
        self.page(call.with("limit", which.limit).with("after", which.after.as_ref())).await
    }

    /// A page of a plan's tasks, in their order.
    pub async fn tasks_of(&self, plan: &PlanId, which: &Tasks) -> Result<Page<view::Task>, Error> {
        self.page(which.ask(Call::get(format!("v1/plans/{plan}/tasks")))).await
    }

    /// What happened to a plan, oldest first.
    pub async fn plan_history(&self, plan: &PlanId) -> Result<Page<view::Event>, Error> {
        self.page(Call::get(format!("v1/plans/{plan}/history"))).await
    }

    /// Why a plan is not moving.
    pub async fn why_plan(&self, plan: &PlanId) -> Result<Answer<view::Why>, Error> {
        self.call(Call::get(format!("v1/plans/{plan}/why"))).await
    }

    /// Does something to a plan.
    pub async fn do_plan(&self, plan: &PlanId, verb: PlanVerb, ask: &Ask) -> Result<Answer<view::Done>, Error> {
        self.operation(Method::POST, format!("v1/plans/{plan}/{}", verb.name()), ask, ()).await
    }

    /// What waits for a person.
    pub async fn inbox(&self) -> Result<Page<view::Item>, Error> {
        self.page(Call::get("v1/inbox")).await
    }
}

/// Statuses as a query names them.
pub(super) fn listed<S: Copy>(statuses: &[S], name: impl Fn(S) -> &'static str) -> Option<String> {
    let names: Vec<_> = statuses.iter().map(|status| name(*status)).collect();
    (!names.is_empty()).then(|| names.join(","))
}

impl Tasks {
    pub(super) fn ask(&self, call: Call) -> Call {
        call.with("plan", self.plan.as_ref())
            .with("tenant", self.tenant.as_ref())
            .with("status", listed(&self.statuses, TaskStatus::name))
            .flag("interrupted", self.interrupted)
            .with("limit", self.limit)
            .with("after", self.after.as_ref())
    }
}
