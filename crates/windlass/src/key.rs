//! `windlass key`: API keys, in the file that the settings name.

#![expect(clippy::print_stderr, clippy::print_stdout, reason = "this is where the program talks to people")]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use windlass_core::by::By;
use windlass_core::id::{QueueName, TenantId};
use windlass_core::time::Ms;
use windlass_core::time::duration::parse_ms;
use windlass_engine::clock::{Clock as _, SystemClock};
use windlass_server::auth::Role;
use windlass_server::auth::keys::{self, Key, NewKey};

use crate::settings::Settings;

/// API keys. They are in a file beside the server, which reads it again when it changes.
#[derive(Args)]
pub struct Keys {
    /// The file; what the setting server.keys says unless given.
    #[arg(long, global = true, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Make a key. It is shown once, on stdout, and kept as a hash.
    Create(Create),
    /// Every key, without the keys.
    List {
        /// One JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// Take a key away.
    Revoke {
        /// Its name or its id.
        which: String,
    },
}

#[derive(Args)]
struct Create {
    /// Who gets it: the `by` of what is done with it.
    name: By,
    /// viewer, worker, operator or admin.
    #[arg(long)]
    role: Role,
    /// Only for this tenant; may be given again.
    #[arg(long = "tenant", value_name = "TENANT")]
    tenants: Vec<TenantId>,
    /// Only for this queue; may be given again.
    #[arg(long = "queue", value_name = "QUEUE")]
    queues: Vec<QueueName>,
    /// Until when it is good: a time (2027-01-01T00:00:00Z) or a duration from now (90d).
    #[arg(long, value_name = "WHEN")]
    expires: Option<String>,
}

/// Carries it out: 0 when done, 1 when there is no such key.
pub fn run(keys: Keys, settings: &Settings) -> anyhow::Result<ExitCode> {
    let named = keys.file.or_else(|| settings.server.keys_file());
    let file = named.context("no keys file: give --file FILE, or set [server] keys")?;
    match keys.what {
        What::Create(new) => {
            let now = SystemClock.now();
            let Create { name, role, tenants, queues, expires } = new;
            let expires = expires.map(|when| until(&when, now)).transpose()?;
            let (tenants, queues) = (tenants.into_iter().collect(), queues.into_iter().collect());
            let token = keys::create(&file, NewKey { name, role, tenants, queues, expires }, now)?;
            println!("{token}");
            eprintln!("This is the only time the key is shown. Use it as: Authorization: Bearer {}…", &token[..6]);
            Ok(ExitCode::SUCCESS)
        }
        What::List { json } => {
            for key in keys::list(&file)? {
                show(&key, json)?;
            }
            Ok(ExitCode::SUCCESS)
        }
        What::Revoke { which } => match keys::revoke(&file, &which)? {
            true => Ok(ExitCode::SUCCESS),
            false => {
                eprintln!("windlass: there is no key {which}; windlass key list shows them");
                Ok(ExitCode::FAILURE)
            }
        },
    }
}

fn until(when: &str, now: Ms) -> anyhow::Result<Ms> {
    let at = parse_ms(when).map(|ms| now.plus(ms)).or_else(|| Ms::parse(when).filter(|_| when.contains('-')));
    at.with_context(|| {
        format!("--expires {when:?}: write a time such as 2027-01-01T00:00:00Z, or a duration such as 90d")
    })
}

fn show(key: &Key, json: bool) -> anyhow::Result<()> {
    let texts = |list: Vec<String>| if list.is_empty() { "all".to_owned() } else { list.join(",") };
    let tenants: Vec<_> = key.tenants.iter().map(ToString::to_string).collect();
    let queues: Vec<_> = key.queues.iter().map(ToString::to_string).collect();
    let expires = key.expires.map(|at| at.to_string());
    if json {
        let role = key.role.name();
        let line = serde_json::json!({"id": key.id, "name": key.name, "role": role, "tenants": tenants, "queues": queues,
            "created": key.created.to_string(), "expires": expires});
        println!("{line}");
        return Ok(());
    }
    println!(
        "{:<14} {:<20} {:<9} tenants {:<16} queues {:<16} expires {}",
        key.id,
        key.name.to_string(),
        key.role.name(),
        texts(tenants),
        texts(queues),
        expires.as_deref().unwrap_or("never")
    );
    Ok(())
}
