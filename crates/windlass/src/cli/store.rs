//! `windlass doctor`, `migrate`, `schema` and `purge`: what is done to a store itself, not through a server.

use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use windlass_engine::clock::{Clock as _, SystemClock};

use super::show::{Output, Screen};
use super::{exit, note, say};
use crate::doctor::{Finding, Level};
use crate::open::{StoreUrl, examine, open, pending};
use crate::settings::Settings;

/// Records that one call removes, at most.
const PURGE_MAX: u32 = 1_000;

#[derive(Args)]
pub(crate) struct Store {
    /// The store; what the settings say unless given.
    #[arg(long, value_name = "URL")]
    store: Option<String>,
}

#[derive(Subcommand)]
pub(crate) enum Schema {
    /// Print the SQL that makes the tables.
    Dump {
        /// Which kind of store: postgres or mysql.
        #[arg(default_value = "postgres", value_parser = ["postgres", "mysql"])]
        kind: String,
    },
}

impl Store {
    fn url(&self, settings: &Settings) -> anyhow::Result<StoreUrl> {
        match &self.store {
            Some(text) => text.parse().context("--store"),
            None => settings.store_url(),
        }
    }
}

pub(super) async fn doctor(which: &Store, settings: &Settings, output: Output) -> anyhow::Result<ExitCode> {
    let url = which.url(settings)?;
    note(&format!("looking at {url}"));
    let found = examine(&url, settings).await;
    match output {
        Output::Json => {
            for one in &found {
                let level = one.level.to_string().to_lowercase();
                say(&serde_json::json!({ "what": one.what, "level": level, "found": one.found, "mend": one.mend })
                    .to_string());
            }
        }
        Output::Table => {
            let row = |one: &Finding| vec![one.what.to_owned(), one.level.to_string(), one.found.clone()];
            Screen::new(output, true).table(&["what", "is", "found"], found.iter().map(row).collect());
            for one in found.iter().filter(|one| one.mend.is_some()) {
                note(&format!("{}: {}", one.what, one.mend.as_deref().unwrap_or_default()));
            }
        }
    }
    match found.iter().any(|one| one.level == Level::Bad) {
        true => Ok(exit::MISSED.into()),
        false => Ok(ExitCode::SUCCESS),
    }
}

pub(super) async fn migrate(which: &Store, mut settings: Settings) -> anyhow::Result<ExitCode> {
    let url = which.url(&settings)?;
    let before = pending(&url).await?;
    settings.postgres.migrate = true;
    settings.mysql.migrate = true;
    drop(open(&url, &settings).await?);
    for (number, name) in &before {
        say(&format!("applied {number} {name}"));
    }
    note(if before.is_empty() { "nothing was to be migrated" } else { "the layout is up to date" });
    Ok(ExitCode::SUCCESS)
}

pub(super) fn schema(what: &Schema) -> ExitCode {
    let Schema::Dump { kind } = what;
    let sql = match kind.as_str() {
        "mysql" => windlass_store_mysql::schema(),
        _ => windlass_store_postgres::schema(),
    };
    say(sql.trim_end());
    ExitCode::SUCCESS
}

/// Removes what is over, as the janitor of a server does, only at once.
pub(super) async fn purge(which: &Store, settings: &Settings) -> anyhow::Result<ExitCode> {
    let stores = open(&which.url(settings)?, settings).await?;
    let now = SystemClock.now();
    let (plans, jobs) = (now.minus(settings.engine.retention_ms), now.minus(settings.jobs.retention_ms));
    let triggers = now.minus(settings.triggers.retention_ms);
    let mut gone = [0_u64; 4];
    loop {
        let round = [
            stores.state.purge(plans, PURGE_MAX).await?,
            stores.jobs.purge(jobs, PURGE_MAX).await?,
            stores.triggers.purge(triggers, PURGE_MAX).await?,
            stores.locks.purge(plans, PURGE_MAX).await?,
        ];
        if round == [0; 4] {
            break;
        }
        gone.iter_mut().zip(round).for_each(|(sum, n)| *sum += u64::from(n));
    }
    let [state, jobs, triggers, locks] = gone;
    say(&format!("removed {state} records of plans, {jobs} jobs, {triggers} triggers, {locks} locks"));
    Ok(ExitCode::SUCCESS)
}
