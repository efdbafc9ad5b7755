//! Triggers: write, steer, ask.

use reqwest::Method;
use serde::Serialize;
use windlass_core::id::TriggerId;
use windlass_core::json::Json;
use windlass_core::time::Ms;
use windlass_core::trigger::TriggerSpec;
use windlass_core::trigger::schedule::Schedule;

use super::send::Call;
use super::{Answer, Ask, Client, Error, Page, view};

impl Client {
    /// Saves a trigger under `id`, or under a new one.
    pub async fn save_trigger(
        &self,
        id: Option<&TriggerId>,
        spec: &TriggerSpec,
        ask: &Ask,
    ) -> Result<Answer<view::Trigger>, Error> {
        match id {
            Some(id) => self.operation(Method::PUT, format!("v1/triggers/{id}"), ask, spec).await,
            None => self.operation(Method::POST, "v1/triggers".to_owned(), ask, spec).await,
        }
    }

    /// A trigger as it stands.
    pub async fn trigger(&self, id: &TriggerId) -> Result<Answer<view::Trigger>, Error> {
        self.call(Call::get(format!("v1/triggers/{id}"))).await
    }

    /// A page of triggers.
    pub async fn triggers(&self, limit: Option<u32>, after: Option<&str>) -> Result<Page<view::Trigger>, Error> {
        self.page(Call::get("v1/triggers").with("limit", limit).with("after", after)).await
    }

    /// What happened to a trigger, newest last.
    pub async fn notes(&self, id: &TriggerId) -> Result<Page<view::Note>, Error> {
        self.page(Call::get(format!("v1/triggers/{id}/notes"))).await
    }

    /// `fire`, `skip`, `pause` or `resume`.
    pub async fn do_trigger(&self, id: &TriggerId, verb: &str, ask: &Ask) -> Result<Answer<view::Trigger>, Error> {
        self.operation(Method::POST, format!("v1/triggers/{id}/{verb}"), ask, ()).await
    }

    /// Removes a trigger.
    pub async fn remove_trigger(&self, id: &TriggerId, ask: &Ask) -> Result<Answer<Json>, Error> {
        self.operation(Method::DELETE, format!("v1/triggers/{id}"), ask, ()).await
    }

    /// When a schedule would fire if it were saved now: its next `n` times.
    pub async fn preview(&self, schedule: &Schedule, n: u32) -> Result<Vec<Ms>, Error> {
        #[derive(Serialize)]
        struct Body<'a> {
            schedule: &'a Schedule,
            n: u32,
        }
        let call = Call::bare(Method::POST, "v1/triggers/preview").json(&Body { schedule, n })?;
        let page: Page<view::Moment> = self.page(call).await?;
        Ok(page.items.into_iter().map(|moment| moment.view.0).collect())
    }
}
