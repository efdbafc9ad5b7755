//! The worker protocol: everything a worker has to say and to ask for, in one request and one call of the store.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_core::fence::Fence;
use windlass_core::id::{JobId, QueueName, WorkerId};
use windlass_core::job::JobError;
use windlass_core::job::rules::Outcome;
use windlass_core::json::Json;
use windlass_core::port::Refusal;
use windlass_core::port::job::{Delivery, Turn, Turned};

use super::job::given;
use crate::call::{Answer, Call, bad_parameter, ok, within_wait};
use crate::problem::Problem;
use crate::schema::{Any, Id, Object, Span, Time, Uuid};
use crate::view::job::Job;

/// How long what is claimed stays a worker's, unless it says otherwise.
const LEASE_MS: u64 = 30_000;

/// What a worker says.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Claim {
    /// Who: a name of its own for every process.
    #[schemars(with = "Id")]
    worker: WorkerId,
    /// How many jobs it has room for; with several queues, in all.
    #[serde(default)]
    #[schemars(range(max = 1000))]
    max: u32,
    /// Which queues; only where the path names none.
    #[serde(default)]
    #[schemars(with = "Vec<Id>", length(max = 64))]
    queues: Vec<QueueName>,
    /// How long what it claims and what goes on stays its own.
    lease_ms: Option<u64>,
    /// The same, as a duration.
    lease: Option<Span>,
    /// How long to wait when there is nothing.
    wait: Option<Span>,
    /// What is done.
    #[serde(default)]
    complete: Vec<Complete>,
    /// What is not.
    #[serde(default)]
    fail: Vec<Fail>,
    /// What goes back to its queue; the attempt does not count.
    #[serde(default)]
    release: Vec<Held>,
    /// What goes on.
    #[serde(default)]
    heartbeat: Vec<Held>,
}

/// A job in a worker's hands.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Held {
    #[schemars(with = "Uuid")]
    job: JobId,
    /// As it was claimed with.
    fence: u64,
}

/// A job that is done.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Complete {
    #[schemars(with = "Uuid")]
    job: JobId,
    fence: u64,
    /// At most 1 MiB; `null` if nothing is given.
    #[schemars(with = "Any")]
    #[serde(default, deserialize_with = "given")]
    result: Option<Json>,
}

/// A job that failed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fail {
    #[schemars(with = "Uuid")]
    job: JobId,
    fence: u64,
    /// message, and optionally class, code, file, line, trace, previous.
    #[schemars(with = "Object")]
    error: JobError,
    /// Whether another attempt makes sense, if there is one left.
    #[serde(default = "yes")]
    retry: bool,
}

fn yes() -> bool {
    true
}

/// What came of it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Claimed<'a> {
    /// Jobs that are this worker's now.
    claimed: Vec<Job<'a>>,
    /// To complete, fail, release and heartbeat, in this order.
    answers: Vec<Each>,
    /// Jobs of the heartbeat whose end was asked for.
    #[schemars(with = "Vec<Uuid>")]
    cancel_requested: Vec<JobId>,
    /// When there may be something by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<Time>,
}

/// What came of one job.
#[derive(Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Each {
    job: String,
    /// It was taken.
    ok: bool,
    /// Where the job stands now.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    /// Until when it is this worker's.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_until: Option<Time>,
    /// Why it was not taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

impl Each {
    fn refused(job: JobId, refusal: Refusal) -> Each {
        let problem = Problem::from(refusal);
        let (code, detail) = (Some(problem.code().to_owned()), Some(problem.detail().to_owned()));
        Each { job: job.to_string(), code, detail, ..Each::default() }
    }
}

pub(crate) async fn claim_queue(call: Call) -> Answer {
    let queue: QueueName = call.part("queue")?;
    let claim: Claim = call.json()?;
    if !claim.queues.is_empty() {
        return Err(Problem::misfit("the path names the queue already").pointer("/queues"));
    }
    take(call, claim, vec![queue]).await
}

pub(crate) async fn claim_many(call: Call) -> Answer {
    let mut claim: Claim = call.json()?;
    let queues = std::mem::take(&mut claim.queues);
    take(call, claim, queues).await
}

async fn take(call: Call, claim: Claim, queues: Vec<QueueName>) -> Answer {
    call.who.for_everybody("claiming")?;
    if call.headers.contains_key("idempotency-key") {
        let why = "a claim takes no Idempotency-Key: jobs are handed out once, and what is said about one is known by its \
                   fence; send it again as it was, without the key";
        return Err(bad_parameter("Idempotency-Key", why));
    }
    if let Some(other) = queues.iter().find(|queue| !call.who.sees_queue(queue)) {
        return Err(Problem::beyond(format!("queue {other} is not this key's")));
    }
    let want = shares(queues, claim.max)?;
    let wait_ms =
        within_wait(claim.wait.map_or(0, |span| span.0)).map_err(|why| Problem::misfit(why).pointer("/wait"))?;
    let place = if wait_ms > 0 && !want.is_empty() { Some(call.waiting()?) } else { None };
    let lease_ms = claim.lease_ms.or(claim.lease.map(|span| span.0)).unwrap_or(LEASE_MS);
    let (settle, beat) = said(&call, claim.complete, claim.fail, claim.release, claim.heartbeat);
    call.own_deliveries(settle.iter().map(|(delivery, _)| delivery).chain(&beat)).await?;
    let about: Vec<JobId> =
        settle.iter().map(|(delivery, _)| delivery).chain(&beat).map(|delivery| delivery.job).collect();
    let turn = Turn { worker: claim.worker, lease_ms, settle, beat, want };
    let turned = call.queues().turn(turn, wait_ms).await?;
    drop(place);
    answer(turned, &about)
}

/// How many of each queue: as many in all as there is room for.
fn shares(queues: Vec<QueueName>, max: u32) -> Result<Vec<(QueueName, u32)>, Problem> {
    let n = u32::try_from(queues.len()).unwrap_or(u32::MAX);
    match max {
        0 => return Ok(Vec::new()),
        _ if max < n => {
            let why = format!("there is room for {max} jobs and there are {n} queues; ask for at least one of each");
            return Err(Problem::misfit(why).pointer("/max"));
        }
        _ => {}
    }
    let share = |at: u32| max / n + u32::from(at < max % n);
    Ok(queues.into_iter().zip(0..).map(|(queue, at)| (queue, share(at))).collect())
}

type Said = (Vec<(Delivery, Outcome)>, Vec<Delivery>);

fn said(call: &Call, complete: Vec<Complete>, fail: Vec<Fail>, release: Vec<Held>, beat: Vec<Held>) -> Said {
    let delivery = |job, fence| Delivery { job, fence: Fence(fence) };
    let done = complete
        .into_iter()
        .map(|one| (delivery(one.job, one.fence), Outcome::Completed(one.result.unwrap_or_else(Json::null))));
    let failed = fail.into_iter().map(|one| {
        let (error, retry, spread) = (Box::new(one.error), one.retry, call.queues().chance());
        (delivery(one.job, one.fence), Outcome::Failed { error, retry, spread })
    });
    let back = release.into_iter().map(|one| (delivery(one.job, one.fence), Outcome::Released));
    let beat = beat.into_iter().map(|one| delivery(one.job, one.fence)).collect();
    (done.chain(failed).chain(back).collect(), beat)
}

impl Call {
    /// Whoever is limited to queues answers for jobs of those only.
    async fn own_deliveries<'a>(&self, about: impl Iterator<Item = &'a Delivery>) -> Result<(), Problem> {
        if self.who.queues.is_none() {
            return Ok(());
        }
        for delivery in about {
            match self.queues().get(delivery.job).await {
                Ok(job) if self.who.sees_queue(&job.queue) => {}
                // What is not there is answered for itself.
                Err(windlass_engine::Error::Store(Refusal::NotFound(_))) => {}
                Ok(_) => return Err(Problem::not_found(format!("job {}", delivery.job))),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

fn answer(turned: Turned, about: &[JobId]) -> Answer {
    let mut answers = Vec::with_capacity(about.len());
    let mut cancel_requested = Vec::new();
    let settled = turned.settled.len();
    for (job, settled) in about.iter().zip(turned.settled) {
        answers.push(match settled {
            Ok(status) => Each { job: job.to_string(), ok: true, status: Some(status.name()), ..Each::default() },
            Err(refusal) => Each::refused(*job, refusal),
        });
    }
    for (job, beaten) in about[settled.min(about.len())..].iter().zip(turned.beaten) {
        answers.push(match beaten {
            Ok(beaten) => {
                if beaten.cancel {
                    cancel_requested.push(*job);
                }
                Each { job: job.to_string(), ok: true, lease_until: Some(Time(beaten.until)), ..Each::default() }
            }
            Err(refusal) => Each::refused(*job, refusal),
        });
    }
    let claimed = turned.claimed.iter().map(Job::from).collect();
    ok(&Claimed { claimed, answers, cancel_requested, next: turned.next.map(Time) })
}
