//! `windlass job …`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use windlass_core::id::{JobId, QueueName, TenantId};
use windlass_core::job::JobStatus;
use windlass_core::json::Json;
use windlass_core::time::Ms;

use super::exit::{self, Wrong};
use super::note;
use super::ops::{Limit, Operation, Wait};
use super::plan::word;
use super::remote::{Remote, span};
use super::show::{at, maybe, short};
use super::task::json_file;
use crate::client::{Answer, JobSpec, Jobs, view};

#[derive(Subcommand)]
pub(crate) enum Job {
    /// Submit a job; prints its id.
    Submit(Submit),
    /// One job as it stands.
    Get {
        /// The job's id.
        job: JobId,
    },
    /// Wait for a job's end; prints its result.
    Wait {
        /// The job's id.
        job: JobId,
        /// How long, at most.
        #[arg(long, value_name = "TIME", default_value = "1d", value_parser = span)]
        timeout: Duration,
    },
    /// Jobs: live ones first, then FAILED, CANCELLED, COMPLETED.
    List {
        #[command(flatten)]
        filter: Filter,
        #[command(flatten)]
        limit: Limit,
    },
    /// Cancel a job, or with filters all that fit: one that waits is CANCELLED, one that runs is asked to end.
    Cancel(Steer),
    /// Put a dead job back to work, or with filters all that fit.
    Requeue(Steer),
}

#[derive(Args)]
pub(crate) struct Submit {
    /// The queue.
    queue: QueueName,
    /// The payload, as JSON.
    #[arg(conflicts_with = "file")]
    payload: Option<String>,
    /// A file with the payload; - is stdin.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// For whom.
    #[arg(long, value_name = "TENANT")]
    tenant: Option<TenantId>,
    /// Higher ones go first among the jobs of a tenant, -128 to 127.
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    priority: i8,
    /// Not before this time (RFC 3339).
    #[arg(long, value_name = "TIME", value_parser = moment, conflicts_with = "delay")]
    run_at: Option<Ms>,
    /// Not before so long from now.
    #[arg(long, value_name = "TIME", value_parser = written)]
    delay: Option<String>,
    /// How often it is tried.
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// How long one attempt may take.
    #[arg(long, value_name = "TIME", value_parser = written)]
    timeout: Option<String>,
    /// As long as a job with this key is stored, the same key is the same job.
    #[arg(long = "job-key", value_name = "KEY")]
    job_key: Option<String>,
    /// Only say whether it would be taken.
    #[arg(long)]
    dry_run: bool,
    /// The same submission under the same key is one job, as long as it is stored.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    #[command(flatten)]
    wait: Wait,
}

#[derive(Args, Clone)]
pub(crate) struct Filter {
    /// In this queue.
    #[arg(long, value_name = "QUEUE")]
    queue: Option<QueueName>,
    /// Of this tenant.
    #[arg(long, value_name = "TENANT")]
    tenant: Option<TenantId>,
    /// Standing here, divided by commas: PENDING, RUNNING, COMPLETED, FAILED, CANCELLED.
    #[arg(long, value_name = "STATUS", value_delimiter = ',', value_parser = status)]
    status: Vec<JobStatus>,
}

#[derive(Args)]
pub(crate) struct Steer {
    /// The job's id.
    #[arg(required_unless_present_any = ["queue", "tenant", "status"], conflicts_with_all = ["queue", "tenant", "status"])]
    job: Option<JobId>,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    operation: Operation,
}

fn status(text: &str) -> Result<JobStatus, String> {
    word(text, &JobStatus::ALL, JobStatus::name)
}

pub(super) fn moment(text: &str) -> Result<Ms, String> {
    Ms::parse(text).ok_or_else(|| format!("{text:?} is no time; write 2026-12-24T18:00:00Z"))
}

/// A duration that the server reads; checked here, so that a mistake is one of the call.
fn written(text: &str) -> Result<String, String> {
    span(text).map(|_| text.to_owned())
}

pub(super) async fn run(remote: &Remote, what: Job) -> anyhow::Result<ExitCode> {
    let Remote { client, screen } = remote;
    match what {
        Job::Submit(args) => submit(remote, args).await,
        Job::Get { job } => {
            screen.one(&client.job(job, Duration::ZERO).await?, card);
            Ok(ExitCode::SUCCESS)
        }
        Job::Wait { job, timeout } => wait(remote, job, timeout).await,
        Job::List { filter, limit } => {
            let page = remote.pages(limit.limit, |limit, after| {
                let Filter { queue, tenant, status } = filter.clone();
                let which = Jobs { queue, tenant, statuses: status, limit, after };
                async move { client.jobs(&which).await }
            });
            screen.list(&page.await?, &["job", "queue", "tenant", "status", "attempt", "submitted", "note"], row);
            Ok(ExitCode::SUCCESS)
        }
        Job::Cancel(args) => steer(remote, args, true).await,
        Job::Requeue(args) => steer(remote, args, false).await,
    }
}

async fn submit(remote: &Remote, args: Submit) -> anyhow::Result<ExitCode> {
    let payload = match (&args.payload, &args.file) {
        (Some(text), _) => Json::parse(text)
            .map_err(|error| Wrong(format!("the payload is not JSON ({error}); a text is written '\"so\"'")))?,
        (None, Some(file)) => json_file(file)?,
        (None, None) => Json::null(),
    };
    let spec = JobSpec {
        queue: args.queue,
        payload,
        tenant: args.tenant,
        priority: args.priority,
        run_at: args.run_at,
        delay: args.delay,
        max_attempts: args.max_attempts,
        timeout: args.timeout,
        key: args.job_key,
    };
    if args.dry_run {
        remote.client.check_job(&spec).await?;
        remote.screen.told(&Json::parse(r#"{"dryRun":true}"#)?, "dry run: it would be submitted");
        return Ok(ExitCode::SUCCESS);
    }
    let ask = crate::client::Ask { key: args.idempotency_key, ..crate::client::Ask::default() };
    let submitted = remote.client.submit_with(&spec, &ask).await?;
    if submitted.existing {
        note("it was there before, under the same key");
    }
    match args.wait.wait {
        Some(limit) => wait(remote, submitted.id, limit).await,
        None => {
            remote.screen.told(&submitted.json, &submitted.id.to_string());
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The result to stdout, so that it can be read on; an error to stderr.
async fn wait(remote: &Remote, job: JobId, limit: Duration) -> anyhow::Result<ExitCode> {
    let Some(ended) = remote.client.handle(job).wait(Some(limit)).await? else {
        note(&format!("job {job}: the time is over; it goes on"));
        return Ok(exit::TIME_OVER.into());
    };
    let Answer { view: found, json } = &ended;
    match (&found.result, &found.error) {
        (Some(result), _) => {
            remote.screen.told(json, result.as_str());
            Ok(ExitCode::SUCCESS)
        }
        (None, error) => {
            remote.screen.told(json, &found.status.to_string());
            note(&format!("job {job} is {}{}", found.status, maybe(error.as_ref().map(|error| format!(": {error}")))));
            Ok(exit::ENDED_BADLY.into())
        }
    }
}

async fn steer(remote: &Remote, args: Steer, cancel: bool) -> anyhow::Result<ExitCode> {
    let Remote { client, screen } = remote;
    let ask = args.operation.ask();
    if let Some(job) = args.job {
        let asked = match cancel {
            true => client.cancel_job(job, &ask).await?,
            false => client.requeue_job(job, &ask).await?,
        };
        let text = match asked.answer.as_str() {
            "requested" => "it runs, and is asked to end".to_owned(),
            "ended" => format!("it had ended: {}", maybe(asked.status)),
            answer => answer.to_owned(),
        };
        screen.told(&asked.json, &format!("job {job}: {text}"));
        return Ok(ExitCode::SUCCESS);
    }
    let Filter { queue, tenant, status } = args.filter;
    let which = Jobs { queue, tenant, statuses: status, limit: None, after: None };
    let bulk = match cancel {
        true => client.cancel_jobs(&which, &ask).await?,
        false => client.requeue_jobs(&which, &ask).await?,
    };
    let verb = if cancel { "cancelled" } else { "requeued" };
    let would = if ask.dry_run { "would be " } else { "" };
    screen.told(&bulk.json, &format!("{} jobs {would}{verb}", bulk.count));
    if bulk.more {
        note("there are more that fit; give it again");
    }
    Ok(ExitCode::SUCCESS)
}

fn row(job: &view::Job) -> Vec<String> {
    let attempt = format!("{}/{}", job.attempt, job.max_attempts);
    let (id, queue, tenant) = (job.id.to_string(), job.queue.to_string(), maybe(job.tenant.as_ref()));
    let about = maybe(job.error.as_ref().map(|error| short(&error.to_string(), 50)));
    vec![id, queue, tenant, job.status.to_string(), attempt, at(job.submitted_at), about]
}

fn card(job: &view::Job) -> Vec<(&'static str, String)> {
    vec![
        ("job", job.id.to_string()),
        ("queue", job.queue.to_string()),
        ("tenant", maybe(job.tenant.as_ref())),
        ("status", job.status.to_string()),
        ("attempt", format!("{} of {}", job.attempt, job.max_attempts)),
        ("payload", maybe(job.payload.as_ref())),
        ("result", maybe(job.result.as_ref())),
        ("error", maybe(job.error.as_ref())),
        ("worker", maybe(job.worker.as_ref())),
        ("submitted", at(job.submitted_at)),
        ("started", maybe(job.started_at.map(at))),
        ("ended", maybe(job.completed_at.map(at))),
    ]
}
