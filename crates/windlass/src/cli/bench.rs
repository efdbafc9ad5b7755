//! `windlass bench`: measures this machine and this program.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Subcommand};

use super::exit;
use super::show::Output;
use crate::bench;
use crate::bench::instances::Setup;
use crate::open::StoreUrl;
use crate::settings::Settings;

#[derive(Subcommand)]
pub(super) enum Bench {
    /// Boundary commits, locks, loads, lists, and reopening after a kill.
    Store(BenchStore),
    /// Whole plans through the engine: stages a second, overhead of a stage, store calls, memory, pause.
    Plan(BenchSeveral),
    /// Jobs: submissions, burn-downs, submit to result, tenants beside each other.
    Jobs(BenchJobs),
    /// Triggers: what is due among many that are not, claims, claimed and completed.
    Triggers(BenchSeveral),
    /// The HTTP API of a server in a process of its own: jobs, plans, one task among a million, streams, start, size.
    Http(BenchSeveral),
    /// What `bench store` kills.
    #[command(hide = true)]
    Child(bench::reopen::Child),
    /// Another instance of `bench plan`, `bench jobs` and `bench triggers`.
    #[command(hide = true)]
    Instance {
        /// Of which.
        part: bench::instances::Part,
    },
}

#[derive(Args)]
pub(super) struct BenchStore {
    /// A folder for the store's data; a temporary one unless given. It must be empty or absent.
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Another store, without reopening. What it holds stays, and plans that nobody carries on are added: give it one of its own.
    #[arg(long, value_name = "URL", conflicts_with = "folder")]
    store: Option<String>,
    /// So many instances, over which callers are spread, each with its own connections; more than 1 on a server only.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16))]
    instances: Option<u32>,
    /// A few seconds instead of a few minutes: 20,000 tasks instead of 1,000,000.
    #[arg(long)]
    quick: bool,
    /// Tasks stored for loads, lists and reopening.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1_000..=10_000_000))]
    tasks: Option<u32>,
    /// Only the workloads whose name holds this; the machine's limits are always measured.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Exit with 3 when a bar is missed.
    #[arg(long)]
    strict: bool,
}

#[derive(Args)]
pub(super) struct BenchPlan {
    /// The store to measure; an embedded one in a temporary folder unless given. What it holds stays.
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Seconds instead of a minute: less of everything.
    #[arg(long)]
    quick: bool,
    /// Only the workloads whose name holds this; the machine's limit is always measured.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Exit with 3 when a bar is missed.
    #[arg(long)]
    strict: bool,
}

#[derive(Args)]
pub(super) struct BenchSeveral {
    #[command(flatten)]
    plan: BenchPlan,
    /// So many instances, each in its own process: compared with one, 2 on a server unless given; of `http`, servers that share the
    /// clients, 1 unless given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16))]
    instances: Option<u32>,
}

#[derive(Args)]
pub(super) struct BenchJobs {
    #[command(flatten)]
    several: BenchSeveral,
    /// Jobs of a burn-down, as many as another queue was given that it is compared with; 200,000 unless given, with --quick 5,000.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    jobs: Option<u32>,
}

pub(super) fn run(what: Bench, output: Output, config: Option<&Path>, settings: &Settings) -> anyhow::Result<ExitCode> {
    let how = How { output, config, settings };
    match what {
        Bench::Child(child) => bench::reopen::child(&child, settings).map(|()| ExitCode::SUCCESS),
        Bench::Instance { part } => {
            match part {
                bench::instances::Part::Plan => bench::plan::instance(settings)?,
                bench::instances::Part::Jobs => bench::jobs::instance(settings)?,
                bench::instances::Part::Triggers => bench::triggers::instance(settings)?,
            }
            Ok(ExitCode::SUCCESS)
        }
        Bench::Store(args) => {
            let scale = if args.quick { bench::Scale::QUICK } else { bench::Scale::FULL };
            let scale = bench::Scale { tasks: args.tasks.unwrap_or(scale.tasks), ..scale };
            let url = store(args.store.as_deref())?;
            let (only, instances) = (args.only.as_deref(), args.instances);
            let setup = Setup { url: url.as_ref(), scale, only, instances, config, settings };
            let rows = bench::store::run(args.folder.as_deref(), setup, &mut show(output))?;
            Ok(judged(&rows, args.strict))
        }
        Bench::Plan(args) => {
            several(&args, [bench::plan::Scale::FULL, bench::plan::Scale::QUICK], bench::plan::run, how)
        }
        Bench::Jobs(BenchJobs { several: args, jobs }) => {
            let scale = |scale: bench::jobs::Scale| bench::jobs::Scale { burn: jobs.unwrap_or(scale.burn), ..scale };
            several(&args, [bench::jobs::Scale::FULL, bench::jobs::Scale::QUICK].map(scale), bench::jobs::run, how)
        }
        Bench::Triggers(args) => {
            several(&args, [bench::triggers::Scale::FULL, bench::triggers::Scale::QUICK], bench::triggers::run, how)
        }
        Bench::Http(args) => {
            several(&args, [bench::http::Scale::FULL, bench::http::Scale::QUICK], bench::http::run, how)
        }
    }
}

/// How a bench is run, whichever it is.
#[derive(Clone, Copy)]
struct How<'a> {
    output: Output,
    config: Option<&'a Path>,
    settings: &'a Settings,
}

fn store(url: Option<&str>) -> anyhow::Result<Option<StoreUrl>> {
    url.map(str::parse).transpose().context("--store")
}

type Run<Scale> = fn(Setup<'_, Scale>, &mut dyn FnMut(&bench::Row)) -> anyhow::Result<Vec<bench::Row>>;

/// A bench with several instances.
fn several<Scale>(
    args: &BenchSeveral,
    [full, quick]: [Scale; 2],
    run: Run<Scale>,
    How { output, config, settings }: How<'_>,
) -> anyhow::Result<ExitCode> {
    let BenchSeveral { plan: args, instances } = args;
    let url = store(args.store.as_deref())?;
    let scale = if args.quick { quick } else { full };
    let only = args.only.as_deref();
    let setup = Setup { url: url.as_ref(), scale, only, instances: *instances, config, settings };
    Ok(judged(&run(setup, &mut show(output))?, args.strict))
}

fn show(output: Output) -> impl FnMut(&bench::Row) {
    move |row| match output {
        Output::Table => super::say(&row.to_string()),
        Output::Json => super::say(&row.json()),
    }
}

fn judged(rows: &[bench::Row], strict: bool) -> ExitCode {
    let missed = rows.iter().filter(|row| row.pass == Some(false)).count();
    let judged = rows.iter().filter(|row| row.pass.is_some()).count();
    super::note(&format!("{} of {judged} bars passed", judged - missed));
    if missed > 0 && strict { exit::MISSED.into() } else { ExitCode::SUCCESS }
}
