//! Jobs on the embedded store: the port's methods, each one piece of work for the writer or one look at what is
//! committed. What a job becomes is core's to say; where it stands and what it costs is said here.
//!
//! A job's record stands at its place: while it lives, in its queue, under its tenant, by priority, time and order of
//! submission; once it has ended, by status and time. Its id leads there. A claim writes one record, at the place
//! where it was read; the end moves it. What the writer knows besides is the [`index`].

mod ask;
mod claimed;
pub(crate) mod feed;
pub(crate) mod index;
mod lane;
mod list;
mod open;
mod purge;
mod record;
mod step;
mod submit;
mod turn;

pub(crate) use open::open;

use async_trait::async_trait;
use windlass_core::id::JobId;
use windlass_core::job::limit::{Rule, Scope};
use windlass_core::job::rules::{Asked, JobAsk};
use windlass_core::job::{Asker, Job, NewJob};
use windlass_core::port::job::{Ended, JobFilter, Jobs, QueueView, Submitted, Turn, Turned};
use windlass_core::port::{Cursor, Each, Mark, Page, PortError};
use windlass_core::time::Ms;

use crate::state::list::{check_batch, check_limit};
use crate::tx::Records as _;
use crate::{Embedded, key};

#[async_trait]
impl Jobs for Embedded {
    async fn submit(&self, groups: &[Vec<NewJob>]) -> Each<Vec<Submitted>> {
        check_batch(groups.iter().map(Vec::len).sum::<usize>().max(groups.len()))?;
        let mut drafts = Vec::with_capacity(groups.len());
        for group in groups {
            let group: Result<Vec<_>, _> = group.iter().map(submit::Draft::new).collect();
            drafts.push(group?.into_iter().collect::<Result<Vec<_>, _>>());
        }
        let ahead = self.ahead_ms;
        self.writer
            .write(move |tx| {
                tx.with_jobs(|tx, index| {
                    let now = tx.now(ahead);
                    let taken = drafts.into_iter().map(|group| match group {
                        Ok(group) => index.submit(tx, group, now),
                        Err(refusal) => Ok(Err(refusal)),
                    });
                    Ok(taken.collect::<Result<_, _>>()?)
                })
            })
            .await
    }

    async fn turn(&self, turns: &[Turn]) -> Result<Vec<Turned>, PortError> {
        check_batch(turns.len())?;
        let turns = turns.iter().map(turn::Prepared::new).collect::<Result<Vec<_>, _>>()?;
        let ahead = self.ahead_ms;
        // A claim that a power loss takes back is delivered again, under a higher fence; a heartbeat likewise.
        let taken: Vec<turn::Taken> = self
            .writer
            .write_lightly(move |tx| {
                tx.with_jobs(|tx, index| {
                    let now = tx.now(ahead);
                    Ok(turns.into_iter().map(|turn| index.turn(tx, turn, now)).collect::<Result<_, _>>()?)
                })
            })
            .await?;
        self.writer.read(|read| {
            let whole = taken.into_iter().map(|turn| {
                let turn::Taken { settled, beaten, claimed, next, at } = turn;
                let claimed = claimed.into_iter().map(|kept| kept.whole(read)).collect::<Result<_, _>>()?;
                Ok(Turned { settled, beaten, claimed, next, at })
            });
            whole.collect()
        })
    }

    async fn ask(&self, jobs: &[JobId], ask: JobAsk, asker: &Asker) -> Each<Asked> {
        check_batch(jobs.len())?;
        let (jobs, asker, ahead) = (jobs.to_vec(), asker.clone(), self.ahead_ms);
        self.writer
            .write(move |tx| {
                tx.with_jobs(|tx, index| {
                    // The store's clock judges.
                    let asker = Asker { at: tx.now(ahead), ..asker };
                    Ok(jobs.iter().map(|id| index.ask(tx, id, ask, &asker)).collect::<Result<_, _>>()?)
                })
            })
            .await
    }

    async fn load(&self, jobs: &[JobId]) -> Result<Vec<Option<Job>>, PortError> {
        check_batch(jobs.len())?;
        self.writer.read(|read| {
            let load = |id| Ok(step::find(read, id)?.map(|kept| kept.whole(read)).transpose()?);
            jobs.iter().map(load).collect()
        })
    }

    async fn list(&self, filter: &JobFilter, after: Option<&Cursor>, limit: u32) -> Result<Page<Job>, PortError> {
        check_limit(limit)?;
        self.writer.read(|read| list::list(read, filter, after, limit))
    }

    async fn queues(&self, after: Option<&Cursor>, limit: u32) -> Result<Page<QueueView>, PortError> {
        check_limit(limit)?;
        let (after, ahead) = (after.cloned(), self.ahead_ms);
        let queues = move |tx: &mut crate::tx::Tx<'_>| {
            tx.with_jobs(|tx, index| index.queues(tx, after.as_ref(), limit, tx.now(ahead)))
        };
        self.writer.write(queues).await
    }

    async fn set_rules(&self, rules: &[Rule]) -> Result<(), PortError> {
        check_batch(rules.len())?;
        let rules = rules.to_vec();
        self.writer.write(move |tx| tx.with_jobs(|tx, index| Ok(index.set_rules(tx, rules)?))).await
    }

    async fn rules(&self, scopes: &[Scope]) -> Result<Vec<Rule>, PortError> {
        check_batch(scopes.len())?;
        self.writer.read(|read| {
            let rules: Result<Vec<_>, _> = scopes.iter().map(|scope| read.record(&key::job_rule(scope))).collect();
            Ok(rules?.into_iter().flatten().collect())
        })
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.writer.changed(&self.writer.job_mark, since, wait_ms).await
    }

    async fn ended(&self, since: Mark, wait_ms: u64) -> Result<Ended, PortError> {
        self.writer.changed(&self.writer.ended_mark, since, wait_ms).await?;
        Ok(self.writer.feed.since(since))
    }

    async fn sweep(&self, limit: u32) -> Result<u32, PortError> {
        let ahead = self.ahead_ms;
        self.writer.write(move |tx| tx.with_jobs(|tx, index| Ok(index.sweep(tx, limit, tx.now(ahead))?))).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        self.writer.write(move |tx| tx.with_jobs(|tx, index| Ok(index.purge(tx, before, limit)?))).await
    }
}
