//! `windlass trigger …`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use windlass_core::id::{QueueName, TenantId, TriggerId};
use windlass_core::json::Json;
use windlass_core::trigger::TriggerSpec;
use windlass_core::trigger::schedule::Schedule;

use super::exit::Wrong;
use super::ops::{Limit, Operation};
use super::remote::{Kind, Remote};
use super::show::{Output, at, maybe, short};
use super::{check, say};
use crate::client::view;

#[derive(Subcommand)]
pub(crate) enum Trigger {
    /// Create a trigger, or replace one: a schedule, and a job or a plan; or all of it from a JSON file.
    Create(Box<Create>),
    /// Triggers.
    List(Limit),
    /// One trigger.
    Show {
        /// The trigger's id.
        trigger: TriggerId,
    },
    /// Fire now: a recurring one once more, a single, held or dead one now.
    Fire(Steer),
    /// Leave out the occurrence that is held, dead or next.
    Skip(Steer),
    /// Nothing of it fires until it is resumed.
    Pause(Steer),
    /// It goes on.
    Resume(Steer),
    /// Remove a trigger.
    Remove(Steer),
    /// The next times of a schedule, without saving anything.
    Preview {
        #[command(flatten)]
        when: When,
        /// How many.
        #[arg(short, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
        n: u32,
    },
    /// What happened to a trigger: fired, missed, skipped, failed.
    Notes {
        /// The trigger's id.
        trigger: TriggerId,
    },
}

#[derive(Args)]
pub(crate) struct When {
    /// A cron expression, 5 or 6 fields, as in "0 9 * * mon-fri".
    #[arg(long, value_name = "FIELDS", group = "when")]
    cron: Option<String>,
    /// The time zone of --cron [default: UTC].
    #[arg(long, value_name = "ZONE", requires = "cron")]
    zone: Option<String>,
    /// Every so often, as in 5m.
    #[arg(long, value_name = "TIME", group = "when")]
    every: Option<String>,
    /// Once, at this time (RFC 3339).
    #[arg(long, value_name = "TIME", group = "when")]
    at: Option<String>,
    /// Once, so long from now.
    #[arg(long, value_name = "TIME", group = "when")]
    after: Option<String>,
}

#[derive(Args)]
pub(crate) struct Create {
    /// Its id; a new one unless given.
    #[arg(long, value_name = "TRIGGER")]
    id: Option<TriggerId>,
    /// A JSON file with the whole trigger, as docs/triggers.md shows it; - is stdin.
    #[arg(conflicts_with_all = ["when", "queue", "plan"])]
    file: Option<PathBuf>,
    #[command(flatten)]
    when: When,
    /// Submit a job to this queue.
    #[arg(long, value_name = "QUEUE", conflicts_with = "plan")]
    queue: Option<QueueName>,
    /// The job's payload, as JSON.
    #[arg(long, value_name = "JSON", requires = "queue")]
    payload: Option<String>,
    /// Create and start the plan of this file: YAML, TOML or JSON.
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// For whom.
    #[arg(long, value_name = "TENANT", conflicts_with = "file")]
    tenant: Option<TenantId>,
    #[command(flatten)]
    operation: Operation,
}

#[derive(Args)]
pub(crate) struct Steer {
    /// The trigger's id.
    trigger: TriggerId,
    #[command(flatten)]
    operation: Operation,
}

pub(super) async fn run(remote: &Remote, what: Trigger) -> anyhow::Result<ExitCode> {
    let Remote { client, screen } = remote;
    match what {
        Trigger::Create(args) => create(remote, &args).await?,
        Trigger::List(limit) => {
            let page =
                remote.pages(limit.limit, |limit, after| async move { client.triggers(limit, after.as_deref()).await });
            screen.list(&page.await?, &["trigger", "status", "schedule", "next", "target", "last made"], row);
        }
        Trigger::Show { trigger } => {
            let answer = remote.known(client.trigger(&trigger).await, Kind::Trigger, trigger.as_str()).await?;
            screen.one(&answer, card);
        }
        Trigger::Fire(args) => steer(remote, "fire", args).await?,
        Trigger::Skip(args) => steer(remote, "skip", args).await?,
        Trigger::Pause(args) => steer(remote, "pause", args).await?,
        Trigger::Resume(args) => steer(remote, "resume", args).await?,
        Trigger::Remove(Steer { trigger, operation }) => {
            let ask = operation.ask();
            let removed =
                remote.known(client.remove_trigger(&trigger, &ask).await, Kind::Trigger, trigger.as_str()).await?;
            let word = if ask.dry_run { "would be" } else { "is" };
            screen.told(&removed.json, &format!("trigger {trigger} {word} removed"));
        }
        Trigger::Preview { when, n } => {
            let times = client.preview(&when.schedule()?, n).await?;
            match screen.output {
                Output::Json => {
                    say(&serde_json::to_string(&times.iter().map(ToString::to_string).collect::<Vec<_>>())?)
                }
                Output::Table => times.iter().for_each(|time| say(&at(*time))),
            }
        }
        Trigger::Notes { trigger } => {
            let page = remote.known(client.notes(&trigger).await, Kind::Trigger, trigger.as_str()).await?;
            screen.list(&page, &["at", "occurrence", "what", "about"], |note| {
                let (what, about) = named(&note.what);
                vec![at(note.at), at(note.occurrence), what, short(&plain(&about), 60)]
            });
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl When {
    /// As a schedule is written in JSON.
    fn schedule(&self) -> anyhow::Result<Schedule> {
        let zone = || self.zone.clone().unwrap_or_else(|| "UTC".to_owned());
        let value = match (&self.cron, &self.every, &self.at, &self.after) {
            (Some(cron), ..) => serde_json::json!({ "cron": cron, "zone": zone() }),
            (_, Some(every), ..) => serde_json::json!({ "every": every }),
            (_, _, Some(at), _) => serde_json::json!({ "at": at }),
            (.., Some(after)) => serde_json::json!({ "after": after }),
            _ => return Err(Wrong("say when: --cron, --every, --at or --after".to_owned()).into()),
        };
        Ok(Schedule::from_value(&value).map_err(|error| Wrong(error.to_string()))?)
    }
}

async fn create(remote: &Remote, args: &Create) -> anyhow::Result<()> {
    let spec = spec(args)?;
    let ask = args.operation.ask();
    let saved = remote.client.save_trigger(args.id.as_ref(), &spec, &ask).await?;
    let word = if ask.dry_run { "would be saved" } else { "is saved" };
    let text = format!("trigger {} {word}; it fires at {}", saved.id, at(saved.trigger_at));
    remote.screen.told(&saved.json, &text);
    Ok(())
}

fn spec(args: &Create) -> anyhow::Result<TriggerSpec> {
    if let Some(file) = &args.file {
        let json = super::task::json_file(file)?;
        return json.to().with_context(|| format!("{} is no trigger", file.display()));
    }
    let target = match (&args.queue, &args.plan) {
        (Some(queue), _) => serde_json::json!({ "job": { "queue": queue } }),
        (None, Some(file)) => {
            let (text, format) = check::read(file)?;
            // A trigger keeps its plan as JSON, whatever it was written in.
            let json = windlass_core::plan::file::to_json(&text, format)
                .map_err(|problems| anyhow::anyhow!("{} is not a valid plan:\n{problems}", file.display()))?;
            serde_json::json!({ "plan": json })
        }
        (None, None) => {
            return Err(Wrong("say what: --queue, --plan, or a JSON file with the whole trigger".to_owned()).into());
        }
    };
    let payload = args.payload.as_deref().map(Json::parse).transpose();
    let payload = payload.map_err(|error| Wrong(format!("--payload is not JSON: {error}")))?;
    let mut value = serde_json::json!({ "schedule": args.when.schedule()?, "target": target });
    if let (Some(payload), Some(map)) = (payload, value.as_object_mut()) {
        map.insert("payload".to_owned(), payload.to()?);
    }
    if let (Some(tenant), Some(map)) = (&args.tenant, value.as_object_mut()) {
        map.insert("tenant".to_owned(), serde_json::to_value(tenant)?);
    }
    Ok(serde_json::from_str(&value.to_string())?)
}

async fn steer(remote: &Remote, verb: &str, args: Steer) -> anyhow::Result<()> {
    let Steer { trigger, operation } = args;
    let answer = remote.client.do_trigger(&trigger, verb, &operation.ask()).await;
    let done = remote.known(answer, Kind::Trigger, trigger.as_str()).await?;
    let text = match verb {
        "fire" => format!("trigger {trigger}: an occurrence of {} fires now", at(done.trigger_at)),
        "pause" => format!("trigger {trigger} is paused"),
        _ => format!("trigger {trigger}: next at {}", at(done.trigger_at)),
    };
    remote.screen.told(&done.json, &text);
    Ok(())
}

fn stands(trigger: &view::Trigger) -> String {
    match (&trigger.paused, trigger.held) {
        (Some(_), _) => "PAUSED".to_owned(),
        (None, true) => format!("{} (held)", trigger.status),
        (None, false) => trigger.status.to_string(),
    }
}

/// The schedule in a few letters.
fn schedule(trigger: &view::Trigger) -> String {
    let value = serde_json::to_value(&trigger.schedule).unwrap_or_default();
    let all: Vec<_> = value.as_object().into_iter().flatten().collect();
    let text: Vec<_> =
        all.iter().map(|(name, value)| format!("{name} {}", value.as_str().unwrap_or_default())).collect();
    text.join(" ")
}

fn target(trigger: &view::Trigger) -> String {
    let (kind, about) = named(&trigger.target);
    let about: serde_json::Value = about.to().unwrap_or_default();
    let detail = ["queue", "plan", "do", "url"].iter().find_map(|name| about.get(name)?.as_str().map(str::to_owned));
    format!("{kind} {}", detail.unwrap_or_default()).trim_end().to_owned()
}

fn made(trigger: &view::Trigger) -> String {
    maybe(trigger.made.as_ref().map(|made| {
        let (kind, what) = named(made);
        format!("{kind} {}", plain(&what))
    }))
}

/// The name and the content of a value that is a name, or an object of one.
fn named(json: &Json) -> (String, Json) {
    if let Ok(name) = json.to::<String>() {
        return (name, Json::null());
    }
    let map: BTreeMap<String, Json> = json.to().unwrap_or_default();
    map.into_iter().next().unwrap_or_else(|| (json.to_string(), Json::null()))
}

/// A text without its quotes, anything else as JSON, nothing as nothing.
fn plain(json: &Json) -> String {
    match json.to::<serde_json::Value>() {
        Ok(serde_json::Value::String(text)) => text,
        Ok(serde_json::Value::Null) => String::new(),
        _ => json.to_string(),
    }
}

fn row(trigger: &view::Trigger) -> Vec<String> {
    let next = if trigger.status.is_ended() { String::new() } else { at(trigger.trigger_at) };
    vec![trigger.id.to_string(), stands(trigger), schedule(trigger), next, target(trigger), made(trigger)]
}

fn card(trigger: &view::Trigger) -> Vec<(&'static str, String)> {
    vec![
        ("trigger", trigger.id.to_string()),
        ("occurrence of", maybe(trigger.parent.as_ref())),
        ("status", stands(trigger)),
        ("schedule", schedule(trigger)),
        ("occurrence", at(trigger.trigger_at)),
        ("target", target(trigger)),
        ("tenant", maybe(trigger.tenant.as_ref())),
        ("retries", trigger.retry_count.to_string()),
        ("last made", made(trigger)),
        ("error", maybe(trigger.error.as_ref())),
    ]
}
