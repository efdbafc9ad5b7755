//! `windlass instance …`.

use std::process::ExitCode;

use clap::Subcommand;
use windlass_engine::clock::{Clock as _, SystemClock};

use super::ops::Limit;
use super::remote::Remote;
use super::show::at;

#[derive(Subcommand)]
pub(crate) enum Instance {
    /// Instances on the server's store: those that run, and those that are gone and not yet forgotten.
    List(Limit),
}

pub(super) async fn run(remote: &Remote, what: Instance) -> anyhow::Result<ExitCode> {
    let Remote { client, screen } = remote;
    let Instance::List(limit) = what;
    let page = remote.pages(limit.limit, |limit, after| async move { client.instances(limit, after.as_deref()).await });
    let now = SystemClock.now();
    screen.list(&page.await?, &["instance", "stands", "up since", "lease until"], |one| {
        let stands = if one.until > now { "up" } else { "gone" };
        vec![one.id.to_string(), stands.to_owned(), at(one.since), at(one.until)]
    });
    Ok(ExitCode::SUCCESS)
}
