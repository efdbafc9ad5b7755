//! `windlass demo`, as people see it: what it is, a live view, and what to type next.

use std::process::ExitCode;

use super::remote::Remote;
use super::show::Output;
use super::{Global, note, variable, watch};
use crate::demo::{self, Demo, NAME, Running};
use crate::settings::Settings;

pub(super) async fn run(demo: Demo, mut global: Global, settings: Settings) -> anyhow::Result<ExitCode> {
    let running = demo::start(demo, settings).await?;
    global.server = Some(running.url());
    (global.key, global.output) = (None, Output::Table);
    let remote = Remote::new(&global, variable)?;
    note(&format!("windlass listens on {} (documents: {}/docs)", running.url(), running.url()));
    note(match running.fresh {
        true => "a plan over 12 tenants begins; a worker and a trigger are there, too",
        false => "what was here before is here again; nothing moves by itself",
    });
    let plan = NAME.parse()?;
    let told = tokio::select! {
        seen = watch::run(&remote, &plan) => {
            seen?;
            next(&running);
            demo::until_told().await
        }
        told = demo::until_told() => told,
    };
    told?;
    note("stopping");
    Ok(running.stop().await)
}

fn next(running: &Running) {
    let windlass = std::env::current_exe().ok().and_then(|path| {
        let here = std::env::current_dir().ok()?;
        Some(path.strip_prefix(&here).unwrap_or(&path).display().to_string())
    });
    let windlass = windlass.unwrap_or_else(|| "windlass".to_owned());
    let server = match running.url().as_str() {
        crate::client::DEFAULT_SERVER => String::new(),
        url => format!("export WINDLASS_SERVER={url}\n  "),
    };
    note(&format!(
        "
Nothing moves any more without a person. In another terminal:

  {server}alias windlass={windlass}
  windlass inbox                                  # what waits for a person
  windlass why --tenant fern                      # why it does not move, and what is possible
  windlass task retry --tenant fern --wait        # only what was not done is done
  windlass task approve --tenant juniper --wait   # say yes
  windlass plan show demo

Ctrl-C ends it. With --dir FOLDER it can be killed at any moment and started again."
    ));
}
