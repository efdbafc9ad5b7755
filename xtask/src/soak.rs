//! `cargo xtask soak`: the campaigns that are too long for every change. The tests are the same ones; `WINDLASS_SOAK`
//! tells them to go on for longer (1,000 kills instead of 100, more seeds).

use std::path::Path;
use std::time::Instant;

use anyhow::Result;

use crate::servers::Servers;
use crate::setup;
use crate::step::{Cmd, shown};
use crate::test::FAULT;

/// Campaigns are known by their names.
const CAMPAIGNS: &str =
    "test(soak) | test(crash) | test(random) | test(simulation) | test(stopped_holder) | test(faults)";

/// Processes that end themselves: no release build can, so these run as they do in `cargo xtask test`.
const KILLS: &str = "test(kill_points)";

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

const SOAK_KILLS: Cmd = Cmd::with_env(
    &[("WINDLASS_SOAK", "1")],
    &[
        "cargo",
        "nextest",
        "run",
        "--package",
        "windlass",
        "--features",
        FAULT,
        "--profile",
        "soak",
        "--no-fail-fast",
        "--no-tests",
        "fail",
        "-E",
        KILLS,
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

const LIST_KILLS: Cmd = Cmd::new(&[
    "cargo",
    "nextest",
    "list",
    "--package",
    "windlass",
    "--features",
    FAULT,
    "--profile",
    "soak",
    "--message-format",
    "oneline",
    "-E",
    KILLS,
]);

pub(crate) fn run(root: &Path) -> Result<()> {
    setup::NEXTEST.meet(root)?;
    setup::MARIADB.meet(root)?;
    setup::POSTGRES.meet(root)?;
    setup::REDIS.meet(root)?;
    let campaigns = LIST.read(root)? + &LIST_KILLS.read(root)?;
    let begun = Instant::now();
    let servers = Servers::start()?;
    // One that fails does not keep the other from running.
    let done = [SOAK, SOAK_KILLS].map(|campaign| campaign.run_with(root, servers.env()));
    for line in campaigns.lines().filter(|line| !line.is_empty()) {
        println!("{line}");
    }
    eprintln!("{} campaigns in {}", campaigns.lines().count(), shown(begun.elapsed()));
    done.into_iter().collect()
}
