//! Jobs on Redis: the port's methods. What workers say and claim in one call is one script, and so is what a caller
//! submits. The rules are core's, written out in `script/jobs.lua`.

pub(crate) mod feed;
pub(crate) mod held;
mod list;
mod record;
mod submit;
mod turn;

use async_trait::async_trait;
use redis::Value;
use windlass_core::id::JobId;
use windlass_core::job::limit::{Limits, Rule, Scope};
use windlass_core::job::rules::{Asked, JobAsk};
use windlass_core::job::{Asker, Job, JobStatus, NewJob};
use windlass_core::port::job::{Ended, JobFilter, Jobs, QueueView, Submitted, Turn, Turned};
use windlass_core::port::{BATCH_MAX, Cursor, Each, Mark, Page, PortError, Refusal};
use windlass_core::time::Ms;

use crate::Redis;
use crate::error::corrupt;
use crate::page::{check_batch, check_limit};
use crate::reply::{array, number, parts, text};
use crate::script;
use crate::state::step::json;
use crate::wake::Port;

#[async_trait]
impl Jobs for Redis {
    async fn submit(&self, groups: &[Vec<NewJob>]) -> Each<Vec<Submitted>> {
        check_batch(groups.len().max(groups.iter().map(Vec::len).sum()))?;
        submit::submit(&self.inner, groups).await
    }

    async fn turn(&self, turns: &[Turn]) -> Result<Vec<Turned>, PortError> {
        turns.iter().try_for_each(Turn::check)?;
        let speaks: usize = turns.iter().map(|turn| turn.settle.len() + turn.beat.len()).sum();
        let wants: u64 = turns.iter().flat_map(|turn| &turn.want).map(|(_, n)| u64::from(*n)).sum();
        check_batch(turns.len().max(speaks))?;
        if wants > BATCH_MAX as u64 {
            return Err(PortError::Invalid(format!("{wants} jobs wanted in one call; at most {BATCH_MAX} are given")));
        }
        turn::turn(&self.inner, turns).await
    }

    async fn ask(&self, jobs: &[JobId], ask: JobAsk, asker: &Asker) -> Each<Asked> {
        check_batch(jobs.len())?;
        let word = match ask {
            JobAsk::Cancel => "cancel",
            JobAsk::Requeue => "requeue",
        };
        // The store's clock says when: the text around it is made here.
        let asker = json(&Asker { at: Ms::ZERO, ..asker.clone() })?;
        let (head, tail) = asker.rsplit_once('0').ok_or_else(|| corrupt("an asker", "it has no time"))?;
        let mut call = self.inner.script(&script::ASK).arg((word, head, tail, jobs.len()));
        jobs.iter().for_each(|job| call.push(job.to_string()));
        let answers = parts(self.inner.call(&call).await?)?;
        jobs.iter().zip(answers).map(|(job, answer)| asked(*job, answer)).collect()
    }

    async fn load(&self, jobs: &[JobId]) -> Result<Vec<Option<Job>>, PortError> {
        check_batch(jobs.len())?;
        record::load(&self.inner, jobs).await
    }

    async fn list(&self, filter: &JobFilter, after: Option<&Cursor>, limit: u32) -> Result<Page<Job>, PortError> {
        check_limit(limit)?;
        list::list(&self.inner, filter, after, limit).await
    }

    async fn queues(&self, after: Option<&Cursor>, limit: u32) -> Result<Page<QueueView>, PortError> {
        check_limit(limit)?;
        list::queues(&self.inner, after, limit).await
    }

    async fn set_rules(&self, rules: &[Rule]) -> Result<(), PortError> {
        check_batch(rules.len())?;
        let mut call = self.inner.script(&script::SET_RULES).arg(rules.len());
        for rule in rules {
            let nothing = rule.limits == Limits::NONE && rule.held.is_none();
            let text = if nothing { String::new() } else { json(rule)? };
            let queue = if let Scope::Queue(queue) = &rule.scope { queue.as_str() } else { "" };
            call.push((field(&rule.scope), text, queue));
        }
        self.inner.call(&call).await.map(drop)
    }

    async fn rules(&self, scopes: &[Scope]) -> Result<Vec<Rule>, PortError> {
        check_batch(scopes.len())?;
        if scopes.is_empty() {
            return Ok(Vec::new());
        }
        let mut cmd = redis::cmd("HMGET");
        cmd.arg(self.inner.keys.one("rules"));
        scopes.iter().for_each(|scope| _ = cmd.arg(field(scope)));
        let texts = array(self.inner.link.ask(&cmd).await?)?.into_iter().filter(|text| *text != Value::Nil);
        texts.map(|rule| serde_json::from_str(&text(rule)?).map_err(|error| corrupt("a rule", error))).collect()
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.inner.changed(Port::Jobs, since, wait_ms).await
    }

    async fn ended(&self, since: Mark, wait_ms: u64) -> Result<Ended, PortError> {
        self.inner.wake.ended(&self.inner.link, &self.inner.keys, since, wait_ms).await
    }

    async fn sweep(&self, limit: u32) -> Result<u32, PortError> {
        number(self.inner.call(&self.inner.script(&script::SWEEP).arg(limit)).await?)
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        let call = self.inner.script(&script::PURGE_JOBS).arg((before.get(), limit));
        number(self.inner.call(&call).await?)
    }

    /// One connection carries them all.
    fn in_order(&self) -> bool {
        true
    }

    /// All that a script writes is kept until its end, and what fits into a processor's cache is written sooner.
    fn claims_best(&self) -> u32 {
        128
    }
}

/// Where a rule is kept.
fn field(scope: &Scope) -> String {
    match scope {
        Scope::Queue(queue) => format!("queue:{queue}"),
        Scope::Tenant(tenant) => format!("tenant:{tenant}"),
        Scope::EachTenant => "each".to_owned(),
    }
}

fn asked(job: JobId, answer: Value) -> Result<Result<Asked, Refusal>, PortError> {
    if let Value::Array(_) = answer {
        return refusal(job, answer, "FAILED").map(Err);
    }
    Ok(Ok(match text(answer)?.as_str() {
        "cancelled now" => Asked::Cancelled,
        "requested" => Asked::Requested,
        "requeued" => Asked::Requeued,
        ended => Asked::Ended(status(ended)?),
    }))
}

/// As it is stored, in lower case.
fn status(text: &str) -> Result<JobStatus, PortError> {
    let found = JobStatus::ALL.into_iter().find(|status| status.name().eq_ignore_ascii_case(text));
    found.ok_or_else(|| corrupt("a status", text))
}

/// Why something about a job was refused, as scripts say it.
fn refusal(job: JobId, answer: Value, expected: &str) -> Result<Refusal, PortError> {
    use windlass_core::fence::Fence;
    let parts = &mut parts(answer)?;
    Ok(match parts.text()?.as_str() {
        "NotFound" => Refusal::NotFound(format!("job {job}")),
        "OpReused" => Refusal::OpReused,
        "Stale" => Refusal::Stale { given: Fence(parts.parse()?), stored: Fence(parts.parse()?) },
        "State" => Refusal::State { status: status(&parts.text()?)?.name(), expected: expected.to_owned() },
        "TimedOut" => Refusal::TimedOut { timeout_ms: parts.number()? },
        "Full" => {
            let scope = match parts.text()?.as_str() {
                "queue" => Scope::Queue(parts.parse()?),
                _ => Scope::Tenant(parts.parse()?),
            };
            Refusal::Full { scope, limit: parts.number()? }
        }
        other => return Err(corrupt("an answer", other)),
    })
}
