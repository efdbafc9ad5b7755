//! `windlass queue …`.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use windlass_core::id::QueueName;

use super::ops::{Limit, Operation};
use super::remote::Remote;
use super::show::{at, maybe};
use crate::client::SetLimits;

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
    /// Jobs that run at once, at most; `none` is no bound.
    #[arg(long, value_name = "N", value_parser = bound)]
    running: Option<Bound>,
    /// Jobs that wait, at most: further ones are refused; `none` is no bound.
    #[arg(long, value_name = "N", value_parser = bound)]
    waiting: Option<Bound>,
    /// Whether nothing of it is claimed.
    #[arg(long, value_name = "YES", value_parser = clap::value_parser!(bool))]
    hold: Option<bool>,
    #[command(flatten)]
    operation: Operation,
}

/// A number, or none.
#[derive(Clone, Copy)]
struct Bound(Option<u32>);

fn bound(text: &str) -> Result<Bound, String> {
    match text {
        "none" => Ok(Bound(None)),
        _ => text.parse().map(|n| Bound(Some(n))).map_err(|_| "expected a whole number or none".to_owned()),
    }
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
            let now = client.limits(&args.queue).await?;
            if args.running.is_none() && args.waiting.is_none() && args.hold.is_none() {
                screen.one(&now, |limits| {
                    let none = || "no bound".to_owned();
                    vec![
                        ("queue", args.queue.to_string()),
                        ("running", limits.running.map_or_else(none, |n| n.to_string())),
                        ("waiting", limits.waiting.map_or_else(none, |n| n.to_string())),
                        (
                            "held",
                            maybe(limits.held.as_ref().map(|held| format!("by {} since {}", held.by, at(held.at)))),
                        ),
                    ]
                });
                return Ok(ExitCode::SUCCESS);
            }
            // What is not said stays as it is.
            let limits = SetLimits {
                running: args.running.map_or(now.running, |Bound(n)| n),
                waiting: args.waiting.map_or(now.waiting, |Bound(n)| n),
                hold: args.hold.unwrap_or(now.held.is_some()),
            };
            let answer = client.set_limits(&args.queue, &limits, &args.operation.ask()).await?;
            screen.told(&answer.json, &format!("the limits of queue {} are set", args.queue));
        }
    }
    Ok(ExitCode::SUCCESS)
}
