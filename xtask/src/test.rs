//! `cargo xtask test`: what the README, the build server and a newcomer run. Quick refusals come first; steps that
//! share build artefacts follow each other.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::servers::Servers;
use crate::step::{Cmd, shown};
use crate::{setup, tidy};

/// From a clean clone, on two cores.
const BUDGET: Duration = Duration::from_secs(45 * 60);

/// What lets a process end itself at a write; the release step is without it.
pub(crate) const FAULT: &str = "windlass/fault";

struct Step {
    name: &'static str,
    what: &'static str,
    work: Work,
}

enum Work {
    Run(Cmd),
    /// With the servers that tests want.
    RunServed(Cmd),
    Tidy,
}

const STEPS: &[Step] = &[
    Step {
        name: "fmt",
        what: "the layout of the source is rustfmt's",
        work: Work::Run(Cmd::new(&["cargo", "fmt", "--all", "--check"])),
    },
    Step { name: "tidy", what: "the house rules hold", work: Work::Tidy },
    Step {
        name: "clippy",
        what: "no lint speaks up",
        work: Work::Run(Cmd::new(&[
            "cargo",
            "clippy",
            "--workspace",
            "--all-targets",
            "--features",
            FAULT,
            "--",
            "-D",
            "warnings",
        ])),
    },
    Step {
        name: "doc",
        what: "the documentation builds and its links lead somewhere",
        work: Work::Run(Cmd::with_env(
            &[("RUSTDOCFLAGS", "-D warnings")],
            &["cargo", "doc", "--workspace", "--no-deps", "--document-private-items"],
        )),
    },
    // The test of the README's commands runs the release build. Built here, it has both cores and no test's time-out.
    Step {
        name: "release",
        what: "the product builds the way the README runs it",
        work: Work::Run(Cmd::new(&["cargo", "build", "--release"])),
    },
    Step {
        name: "doctest",
        what: "the examples in the documentation run",
        work: Work::Run(Cmd::new(&["cargo", "test", "--workspace", "--features", FAULT, "--doc", "--quiet"])),
    },
    // Last: what it counts is what the run is remembered by.
    Step {
        name: "nextest",
        what: "every test of every crate",
        work: Work::RunServed(Cmd::new(&[
            "cargo",
            "nextest",
            "run",
            "--workspace",
            "--features",
            FAULT,
            "--no-fail-fast",
        ])),
    },
];

pub(crate) fn names() -> Vec<&'static str> {
    STEPS.iter().map(|step| step.name).collect()
}

pub(crate) fn run(root: &Path, only: Option<&str>) -> Result<()> {
    let steps = chosen(only)?;
    let begun = Instant::now();
    let mut times = Vec::new();

    eprintln!("==> set-up: what the steps need is here");
    let names: Vec<_> = steps.iter().map(|step| step.name).collect();
    setup::run(root, &names).context("set-up failed")?;
    times.push(("set-up", begun.elapsed()));

    for step in steps {
        eprintln!("==> {}: {}", step.name, step.what);
        let start = Instant::now();
        let done = match &step.work {
            Work::Run(cmd) => cmd.run(root),
            Work::RunServed(cmd) => served(root, cmd),
            Work::Tidy => tidy::run(root),
        };
        times.push((step.name, start.elapsed()));
        // Said at once as well: a run that somebody ends early still shows where its time went.
        eprintln!("    {} in {}", if done.is_ok() { "done" } else { "failed" }, shown(start.elapsed()));
        if let Err(error) = done {
            eprint!("{}", report(&times, begun.elapsed()));
            bail!("step `{}` failed: {error:#}\nrepeat it alone: cargo xtask test --only {}", step.name, step.name);
        }
    }
    eprint!("{}", report(&times, begun.elapsed()));
    Ok(())
}

/// The servers of the whole run; they end here, whether the tests passed or not.
fn served(root: &Path, cmd: &Cmd) -> Result<()> {
    let servers = Servers::start()?;
    cmd.run_with(root, servers.env())
}

/// The steps named in `only`, in the order of [`STEPS`]; all of them without it.
fn chosen(only: Option<&str>) -> Result<Vec<&'static Step>> {
    let Some(only) = only else { return Ok(STEPS.iter().collect()) };
    let wanted: Vec<&str> = only.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    if wanted.is_empty() {
        bail!("--only names no step; the steps are: {}", names().join(", "));
    }
    for name in &wanted {
        if !names().contains(name) {
            bail!("there is no step `{name}`; the steps are: {}", names().join(", "));
        }
    }
    Ok(STEPS.iter().filter(|step| wanted.contains(&step.name)).collect())
}

fn report(times: &[(&str, Duration)], total: Duration) -> String {
    let mut text = String::from("\n");
    for (name, time) in times {
        text += &format!("{name:>10}  {:>8}\n", shown(*time));
    }
    let percent = total.as_secs_f64() / BUDGET.as_secs_f64() * 100.0;
    text += &format!("{:>10}  {:>8}, {percent:.0} % of the budget of {}\n", "total", shown(total), shown(BUDGET));
    if total > BUDGET {
        text += "warning: over budget; find the step that grew before adding to it\n";
    }
    text
}

#[cfg(test)]
mod tests;
