//! `cargo xtask soak`: the campaigns that are too long for every change. The tests are the same ones; `WINDLASS_SOAK`
//! tells them to go on for longer (1,000 kills instead of 100, more seeds).

use std::path::Path;
use std::time::Instant;

use anyhow::Result;

use crate::postgres::Server;
use crate::setup;
use crate::step::{Cmd, shown};

/// Campaigns are known by their names.
const CAMPAIGNS: &str =
    "test(soak) | test(crash) | test(random) | test(simulation) | test(kill_points) | test(stopped_holder)";

const SOAK: Cmd = Cmd::with_env(
    &[("WINDLASS_SOAK", "1")],
    &[
        "cargo",
        "nextest",
        "run",
        "--release",
        "--workspace",
        "--exclude",
        "xtask",
        "--profile",
        "soak",
        "--no-fail-fast",
        "--no-tests",
        "fail",
        "-E",
        CAMPAIGNS,
    ],
);

const LIST: Cmd = Cmd::new(&[
    "cargo",
    "nextest",
    "list",
    "--release",
    "--workspace",
    "--exclude",
    "xtask",
    "--profile",
    "soak",
    "--message-format",
    "oneline",
    "-E",
    CAMPAIGNS,
]);

pub(crate) fn run(root: &Path) -> Result<()> {
    setup::NEXTEST.meet(root)?;
    setup::POSTGRES.meet(root)?;
    let campaigns = LIST.read(root)?;
    let begun = Instant::now();
    let server = Server::start()?;
    let done = SOAK.run_with(root, Some(server.env()));
    for line in campaigns.lines().filter(|line| !line.is_empty()) {
        println!("{line}");
    }
    eprintln!("{} campaigns in {}", campaigns.lines().count(), shown(begun.elapsed()));
    done
}
