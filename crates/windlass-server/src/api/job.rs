//! Jobs: submit, look, wait, cancel, requeue.

use std::time::Duration;

use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest as _, Sha256};
use windlass_core::by::{By, Reason};
use windlass_core::id::{JobId, QueueName, TenantId};
use windlass_core::job::rules::{Asked, JobAsk};
use windlass_core::job::{self, Backoff, JobStatus, When};
use windlass_core::json::Json;
use windlass_core::port::job::{JobFilter, Submitted};
use windlass_core::port::{Cursor, PortError};
use windlass_engine::command::IdempotencyKey;

use crate::call::{Answer, Call, List, decode, json, kept, ok};
use crate::options::JOBS_MAX;
use crate::problem::Problem;
use crate::schema::{Any, Id, Name, Span, Text, Time, Uuid};
use crate::view::job::Job;

/// A job to be submitted.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewJob {
    #[schemars(with = "Id")]
    queue: QueueName,
    /// What for; at most 1 MiB.
    #[schemars(with = "Any")]
    #[serde(default, deserialize_with = "given")]
    payload: Option<Json>,
    #[schemars(with = "Option<Id>")]
    tenant: Option<TenantId>,
    /// Higher ones go first among the jobs of a tenant in a queue.
    #[serde(default)]
    priority: i8,
    /// Not before this moment.
    run_at: Option<Time>,
    /// Not before so long from now.
    delay: Option<Span>,
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1000))]
    max_attempts: u32,
    #[serde(default)]
    backoff: Pauses,
    /// How long one attempt may take.
    timeout: Option<Span>,
    /// As long as a job with it is stored, the same key is the same job, within its tenant and queue.
    #[schemars(length(min = 1, max = 256))]
    key: Option<String>,
}

/// Pauses between attempts: doubled from one to the next, up to the maximum.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Pauses {
    first_ms: u64,
    max_ms: u64,
}

impl Default for Pauses {
    fn default() -> Self {
        let Backoff { first_ms, max_ms } = Backoff::default();
        Pauses { first_ms, max_ms }
    }
}

impl From<Pauses> for Backoff {
    fn from(pauses: Pauses) -> Backoff {
        Backoff { first_ms: pauses.first_ms, max_ms: pauses.max_ms }
    }
}

fn one() -> u32 {
    1
}

/// A `null` that was given is a value, only an absent key is none.
pub(crate) fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(from).map(Some)
}

/// A job that was submitted.
#[derive(Serialize, JsonSchema)]
pub(crate) struct NewId {
    #[schemars(with = "Uuid")]
    id: JobId,
    /// It was there before: its key or the request's Idempotency-Key is known.
    existing: bool,
}

impl From<&Submitted> for NewId {
    fn from(submitted: &Submitted) -> NewId {
        NewId { id: submitted.id, existing: submitted.existing }
    }
}

/// One job or many.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used: a body is decoded by its first character")]
pub(crate) enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

pub(crate) async fn submit(call: Call) -> Answer {
    call.is_json()?;
    let many = call.body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    let jobs: Vec<NewJob> = if many { decode(&call.body)? } else { vec![decode(&call.body)?] };
    if jobs.is_empty() || jobs.len() > JOBS_MAX {
        return Err(Problem::misfit(format!("{} jobs; 1 to {JOBS_MAX} are taken at once", jobs.len())).pointer(""));
    }
    let key = call.idempotency_key()?;
    let place = |at| if many { format!("/{at}") } else { String::new() };
    let group = jobs.into_iter().enumerate();
    let group = group.map(|(at, job)| new_job(&call, job, key.as_ref(), at).map_err(|no| no.pointer(place(at))));
    let group = group.collect::<Result<Vec<_>, _>>()?;
    if call.flag("dryRun")? {
        group.iter().try_for_each(job::NewJob::check)?;
        return ok(&List::whole(Vec::<NewId>::new()));
    }
    let answer = call.queues().submit_groups(&[group]).await?.pop();
    let submitted = answer.ok_or_else(|| PortError::Corrupt("the store answered nothing".to_owned()))??;
    let ids: Vec<NewId> = submitted.iter().map(NewId::from).collect();
    let new = ids.iter().any(|id| !id.existing);
    let status = if new { StatusCode::CREATED } else { StatusCode::OK };
    match (many, &ids[..]) {
        (false, [id]) => json(status, id),
        _ => json(status, &ids),
    }
}

fn new_job(call: &Call, job: NewJob, key: Option<&IdempotencyKey>, at: usize) -> Result<job::NewJob, Problem> {
    if !call.who.sees_maybe(job.tenant.as_ref()) {
        return Err(Problem::beyond("a job must name one of this key's tenants"));
    }
    if !call.who.sees_queue(&job.queue) {
        return Err(Problem::beyond(format!("queue {} is not this key's", job.queue)));
    }
    let when = match (job.run_at, job.delay) {
        (None, None) => When::Now,
        (Some(at), None) => When::At(at.0),
        (None, Some(delay)) => When::In(delay.0),
        (Some(_), Some(_)) => return Err(Problem::misfit("runAt and delay exclude each other")),
    };
    Ok(job::NewJob {
        id: key.map_or_else(|| call.queues().new_id(), |key| id_of(key, at)),
        queue: job.queue,
        payload: job.payload,
        tenant: job.tenant,
        priority: job.priority,
        when,
        max_attempts: job.max_attempts,
        backoff: job.backoff.into(),
        timeout_ms: job.timeout.map(|span| span.0),
        key: job.key,
    })
}

/// A request that is repeated submits the same ids, and the store knows them again.
fn id_of(key: &IdempotencyKey, at: usize) -> JobId {
    JobId::random(bits_of(key, at))
}

/// What a key makes has the same name whenever it comes.
pub(crate) fn bits_of(key: &IdempotencyKey, at: usize) -> u128 {
    let mut sha = Sha256::new();
    for part in [&key.credential, &key.key] {
        sha.update((part.len() as u64).to_be_bytes());
        sha.update(part.as_bytes());
    }
    sha.update((at as u64).to_be_bytes());
    sha.finalize()[..16].iter().fold(0, |bits, byte| (bits << 8) | u128::from(*byte))
}

impl Call {
    pub(crate) fn sees_job(&self, job: &job::Job) -> bool {
        self.who.sees_maybe(job.tenant.as_ref()) && self.who.sees_queue(&job.queue)
    }

    /// A job that is this key's to see.
    async fn visible_job(&self, id: JobId) -> Result<job::Job, Problem> {
        let job = self.queues().get(id).await?;
        match self.sees_job(&job) {
            true => Ok(job),
            false => Err(Problem::not_found(format!("job {id}"))),
        }
    }
}

pub(crate) async fn get(call: Call) -> Answer {
    let id: JobId = call.part("job")?;
    let wait_ms = call.wait_ms()?;
    let mut job = call.visible_job(id).await?;
    if wait_ms > 0 && !job.status.is_ended() {
        let _place = call.waiting()?;
        let handle = call.queues().handle(id);
        tokio::select! { biased;
            () = call.shared.stopped() => {}
            waited = handle.wait(Some(Duration::from_millis(wait_ms))) => { waited?; }
        }
        job = call.visible_job(id).await?;
    }
    ok(&Job::from(&job))
}

pub(crate) async fn list(call: Call) -> Answer {
    let (after, limit) = call.page()?;
    let statuses = call.words("status", &JobStatus::ALL, JobStatus::name)?;
    let filter = JobFilter { queue: call.given("queue")?, tenant: call.given("tenant")?, statuses };
    let filter = narrowed(&call, filter);
    let page = call.queues().list(&filter, after.as_ref(), limit).await?;
    let items = page.items.iter().filter(|job| call.sees_job(job)).map(Job::from);
    ok(&List::new(items.collect(), page.next))
}

/// A key of one tenant or one queue is spared reading everybody's.
fn narrowed(call: &Call, filter: JobFilter) -> JobFilter {
    let only = |set: &std::collections::BTreeSet<TenantId>| set.first().filter(|_| set.len() == 1).cloned();
    let tenant = filter.tenant.or_else(|| call.who.tenants.as_ref().and_then(only));
    let only = |set: &std::collections::BTreeSet<QueueName>| set.first().filter(|_| set.len() == 1).cloned();
    let queue = filter.queue.or_else(|| call.who.queues.as_ref().and_then(only));
    JobFilter { queue, tenant, statuses: filter.statuses }
}

/// What became of a job.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AskedJob {
    #[schemars(with = "Uuid")]
    job: JobId,
    /// cancelled, requested (it runs, and its worker is told), ended (it had before) or requeued.
    answer: &'static str,
    /// Where one that had ended stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
}

pub(crate) async fn cancel(call: Call) -> Answer {
    ask(call, JobAsk::Cancel).await
}

pub(crate) async fn requeue(call: Call) -> Answer {
    ask(call, JobAsk::Requeue).await
}

async fn ask(call: Call, ask: JobAsk) -> Answer {
    let id: JobId = call.part("job")?;
    let caller = call.operation()?;
    let what = async {
        let job = call.visible_job(id).await?;
        let asked = match (caller.dry_run, ask) {
            (true, _) => foreseen(&job, ask)?,
            (false, JobAsk::Cancel) => call.queues().cancel(id, &caller).await?,
            (false, JobAsk::Requeue) => call.queues().requeue(id, &caller).await?,
        };
        let (answer, status) = match asked {
            Asked::Cancelled => ("cancelled", None),
            Asked::Requested => ("requested", None),
            Asked::Ended(status) => ("ended", Some(status.name())),
            Asked::Requeued => ("requeued", None),
        };
        kept(&AskedJob { job: id, answer, status })
    };
    call.once(&caller, StatusCode::OK, what).await
}

/// What asking would come to.
fn foreseen(job: &job::Job, ask: JobAsk) -> Result<Asked, Problem> {
    match (ask, job.status) {
        (JobAsk::Cancel, JobStatus::Pending) => Ok(Asked::Cancelled),
        (JobAsk::Cancel, JobStatus::Running) => Ok(Asked::Requested),
        (JobAsk::Cancel, status) => Ok(Asked::Ended(status)),
        (JobAsk::Requeue, JobStatus::Failed) => Ok(Asked::Requeued),
        (JobAsk::Requeue, status) => {
            Err(windlass_core::port::Refusal::State { status: status.name(), expected: "FAILED".to_owned() }.into())
        }
    }
}

/// Which jobs.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Which {
    #[schemars(with = "Option<Id>")]
    queue: Option<QueueName>,
    #[schemars(with = "Option<Id>")]
    tenant: Option<TenantId>,
    /// PENDING, RUNNING, COMPLETED, FAILED, CANCELLED; none means any that can be.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    status: Vec<JobStatus>,
}

/// The same, asked of many jobs.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct BulkAsk {
    filter: Which,
    /// Where an earlier call ended.
    after: Option<String>,
    #[schemars(with = "Option<Name>")]
    by: Option<By>,
    #[schemars(with = "Option<Text>")]
    reason: Option<Reason>,
    #[serde(default)]
    dry_run: bool,
}

/// What became of many jobs.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Bulk {
    /// Jobs that were changed.
    count: u32,
    /// Jobs that fit and stood elsewhere by then.
    left: u32,
    /// There may be more: ask again with `after`.
    more: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

pub(crate) async fn cancel_many(call: Call) -> Answer {
    ask_many(call, JobAsk::Cancel).await
}

pub(crate) async fn requeue_many(call: Call) -> Answer {
    ask_many(call, JobAsk::Requeue).await
}

async fn ask_many(call: Call, ask: JobAsk) -> Answer {
    let BulkAsk { filter, after, by, reason, dry_run } = call.json()?;
    let filter = JobFilter { queue: filter.queue, tenant: filter.tenant, statuses: filter.status };
    let filter = narrowed(&call, filter);
    let own = filter.tenant.as_ref().map_or(call.who.tenants.is_none(), |tenant| call.who.sees(tenant))
        && filter.queue.as_ref().map_or(call.who.queues.is_none(), |queue| call.who.sees_queue(queue));
    if !own {
        return Err(Problem::beyond("name one of this key's tenants or queues in the filter").pointer("/filter"));
    }
    let caller = call.caller(by, reason, dry_run)?;
    let what = async {
        let bulk = call.queues().ask_all(&filter, ask, after.map(Cursor).as_ref(), &caller).await?;
        let next = bulk.next.map(|cursor| cursor.0);
        kept(&Bulk { count: bulk.changed, left: bulk.left, more: next.is_some(), next })
    };
    call.once(&caller, StatusCode::OK, what).await
}
