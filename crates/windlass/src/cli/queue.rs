//! `windlass queue …`.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use windlass_core::id::QueueName;

use super::limits::{self, Bounds};
use super::ops::{Limit, Operation};
use super::remote::Remote;
use super::show::{at, maybe};

#[derive(Subcommand)]
pub(crate) enum Queue {
    /// Queues: what waits, what runs, and whether a worker is there.
    List(Limit),
    /// Show what bounds a queue; with an option, set it.
    Limits(Limits),
}

#[derive(Args)]
pub(crate) struct Limits {
    /// The queue.
    queue: QueueName,
    #[command(flatten)]
    bounds: Bounds,
    /// Whether nothing of it is claimed.
    #[arg(long, value_name = "YES", value_parser = clap::value_parser!(bool))]
    hold: Option<bool>,
    #[command(flatten)]
    operation: Operation,
}

pub(super) async fn run(remote: &Remote, what: Queue) -> anyhow::Result<ExitCode> {
    let Remote { client, screen } = remote;
    match what {
        Queue::List(limit) => {
            let page =
                remote.pages(limit.limit, |limit, after| async move { client.queues(limit, after.as_deref()).await });
            screen.list(&page.await?, &["queue", "waiting", "running", "oldest since", "worker"], |queue| {
                let worker = if queue.worker_until.is_some() { "yes" } else { "no" };
                let (waiting, running) = (queue.waiting.to_string(), queue.running.to_string());
                vec![queue.queue.to_string(), waiting, running, maybe(queue.oldest.map(at)), worker.to_owned()]
            });
        }
        Queue::Limits(args) => {
            if args.bounds.is_empty() && args.hold.is_none() {
                let now = client.limits(&args.queue).await?;
                limits::show(remote, "queue", args.queue.as_str(), &now);
                return Ok(ExitCode::SUCCESS);
            }
            let ask = args.operation.ask();
            let answer = client.set_limits(&args.queue, &args.bounds.set(args.hold), &ask).await?;
            let word = if ask.dry_run { "would be" } else { "are" };
            screen.told(&answer.json, &format!("the limits of queue {} {word} set", args.queue));
        }
    }
    Ok(ExitCode::SUCCESS)
}
