//! Jobs on PostgreSQL: the port's methods. What workers and submitters do at the same time is one statement
//! together ([`crate::line`]); what needs the core's rules is judged by them on rows that were locked first (`judge`).

pub(crate) mod feed;
mod judge;
mod list;
pub(crate) mod ring;
mod row;
mod rule;
mod submit;
mod turn;

use async_trait::async_trait;
use windlass_core::id::JobId;
use windlass_core::job::limit::{Rule, Scope};
use windlass_core::job::rules::{Asked, JobAsk};
use windlass_core::job::{Asker, Job, NewJob};
use windlass_core::port::job::{Ended, JobFilter, Jobs, QueueView, Submitted, Turn, Turned};
use windlass_core::port::page::{check_batch, check_limit};
use windlass_core::port::{BATCH_MAX, Cursor, Each, Mark, Page, PortError};
use windlass_core::time::Ms;

use crate::cell::{Stamp, params};
use crate::line;
use crate::pool::Call;
use crate::wake::Port;
use crate::{Postgres, sql};

pub(crate) use submit::Submit;
pub(crate) use turn::Turns;

#[async_trait]
impl Jobs for Postgres {
    async fn submit(&self, groups: &[Vec<NewJob>]) -> Each<Vec<Submitted>> {
        check_batch(groups.len().max(groups.iter().map(Vec::len).sum()))?;
        line::carry(&self.inner, Submit(groups.to_vec())).await
    }

    async fn turn(&self, turns: &[Turn]) -> Result<Vec<Turned>, PortError> {
        turns.iter().try_for_each(Turn::check)?;
        let speaks: usize = turns.iter().map(|turn| turn.settle.len() + turn.beat.len()).sum();
        let wants: u64 = turns.iter().flat_map(|turn| &turn.want).map(|(_, n)| u64::from(*n)).sum();
        check_batch(turns.len().max(speaks))?;
        if wants > BATCH_MAX as u64 {
            return Err(PortError::Invalid(format!("{wants} jobs wanted in one call; at most {BATCH_MAX} are given")));
        }
        line::carry(&self.inner, Turns(turns.to_vec())).await
    }

    async fn ask(&self, jobs: &[JobId], ask: JobAsk, asker: &Asker) -> Each<Asked> {
        check_batch(jobs.len())?;
        let (jobs, asker) = (jobs.to_vec(), asker.clone());
        self.run(async move |inner| judge::asks(&inner, &jobs, ask, &asker).await).await
    }

    async fn load(&self, jobs: &[JobId]) -> Result<Vec<Option<Job>>, PortError> {
        check_batch(jobs.len())?;
        let jobs = jobs.to_vec();
        self.run(async move |inner| list::load(&inner.pool, &jobs).await).await
    }

    async fn list(&self, filter: &JobFilter, after: Option<&Cursor>, limit: u32) -> Result<Page<Job>, PortError> {
        check_limit(limit)?;
        let (filter, after) = (filter.clone(), after.cloned());
        self.run(async move |inner| list::list(&inner.pool, &filter, after.as_ref(), limit).await).await
    }

    async fn queues(&self, after: Option<&Cursor>, limit: u32) -> Result<Page<QueueView>, PortError> {
        check_limit(limit)?;
        let after = after.cloned();
        self.run(async move |inner| list::queues(&inner.pool, after.as_ref(), limit, inner.ahead_ms).await).await
    }

    async fn set_rules(&self, rules: &[Rule]) -> Result<(), PortError> {
        check_batch(rules.len())?;
        let rules = rules.to_vec();
        self.run(async move |inner| {
            rule::set(&inner.pool, &rules).await?;
            inner.wake.tell(Port::Jobs);
            Ok(())
        })
        .await
    }

    async fn rules(&self, scopes: &[Scope]) -> Result<Vec<Rule>, PortError> {
        check_batch(scopes.len())?;
        let scopes = scopes.to_vec();
        self.run(async move |inner| rule::load(&inner.pool, &scopes).await).await
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.inner.wake.changed(&self.inner.pool, Port::Jobs, since, wait_ms).await
    }

    async fn ended(&self, since: Mark, wait_ms: u64) -> Result<Ended, PortError> {
        self.inner.wake.ended(&self.inner.pool, &self.inner.feed, since, wait_ms).await
    }

    async fn sweep(&self, limit: u32) -> Result<u32, PortError> {
        self.run(async move |inner| judge::sweep(&inner, limit).await).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        self.run(async move |inner| {
            let call = Call::new(sql::PURGE_JOBS, params![Stamp(before), i64::from(limit), inner.ahead_ms]);
            inner.pool.query(&call).await.map(|gone| gone.len() as u32)
        })
        .await
    }
}
