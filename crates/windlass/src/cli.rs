//! The command line. Data goes to stdout, the rest to stderr.

#![expect(clippy::print_stderr, clippy::print_stdout, reason = "this is where the program talks to people")]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::bench;
use crate::settings::Settings;

/// Work for many tenants, stage by stage, that never loses its place.
#[derive(Parser)]
#[command(version, after_help = "Documentation: README.md and docs/. Every error code has a page in docs/errors/.")]
struct Cli {
    /// Settings in TOML; windlass.example.toml has them all.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start the server.
    Up(crate::up::Up),
    /// API keys: create, list, revoke.
    Key(crate::key::Keys),
    /// Plan files.
    #[command(subcommand)]
    Plan(Plan),
    /// Measure this machine and this program.
    #[command(subcommand)]
    Bench(Bench),
}

#[derive(Subcommand)]
enum Plan {
    /// Check a plan file (YAML, TOML or JSON) without running anything.
    Check {
        /// The file.
        file: PathBuf,
    },
}

#[derive(Subcommand)]
enum Bench {
    /// Boundary commits, locks, loads, lists, and reopening after a kill.
    Store(BenchStore),
    /// Whole plans through the engine: stages a second, overhead of a stage, store calls, memory, pause.
    Plan(BenchPlan),
    /// Jobs: submissions, burn-downs, submit to result, tenants beside each other.
    Jobs(BenchPlan),
    /// Triggers: what is due among many that are not, claims, claimed and completed.
    Triggers(BenchPlan),
    /// What `bench store` kills.
    #[command(hide = true)]
    Child(bench::reopen::Child),
    /// Another instance of `bench plan`.
    #[command(hide = true)]
    Instance,
}

#[derive(Args)]
struct BenchStore {
    /// A folder for the store's data; a temporary one unless given. It must be empty or absent.
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
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
    /// How the figures are printed.
    #[arg(short, long, value_enum, default_value = "table")]
    output: Output,
}

#[derive(Args)]
struct BenchPlan {
    /// The store to measure; an embedded one in a temporary folder unless given. What it holds stays.
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Seconds instead of a minute: less of everything.
    #[arg(long)]
    quick: bool,
    /// Only the workloads whose name holds this; the machine's limit is always measured.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Compare this many instances, each in its own process, with one; 2 on a server unless given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16))]
    instances: Option<u32>,
    /// Exit with 3 when a bar is missed.
    #[arg(long)]
    strict: bool,
    /// How the figures are printed.
    #[arg(short, long, value_enum, default_value = "table")]
    output: Output,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people.
    Table,
    /// One object per line.
    Json,
}

/// Runs the command line: 0 when all is well, 1 when something failed, 2 when the call was wrong,
/// 3 when a strict bench missed a bar.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("windlass: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    #[expect(clippy::disallowed_methods, reason = "the one place where the environment is read")]
    let settings = Settings::load(cli.config.as_deref(), |name| std::env::var(name).ok())?;
    match cli.command {
        Command::Up(up) => crate::up::run(up, settings),
        Command::Key(keys) => crate::key::run(keys, &settings),
        Command::Plan(Plan::Check { file }) => check(&file),
        Command::Bench(Bench::Child(child)) => bench::reopen::child(&child, &settings).map(|()| ExitCode::SUCCESS),
        Command::Bench(Bench::Instance) => bench::plan::instance(&settings).map(|()| ExitCode::SUCCESS),
        Command::Bench(Bench::Store(args)) => {
            let scale = if args.quick { bench::Scale::QUICK } else { bench::Scale::FULL };
            let scale = bench::Scale { tasks: args.tasks.unwrap_or(scale.tasks), ..scale };
            let rows = bench::store::run(
                args.folder.as_deref(),
                scale,
                args.only.as_deref(),
                &settings,
                &mut show(args.output),
            )?;
            Ok(judged(&rows, args.strict))
        }
        Command::Bench(Bench::Plan(args)) => {
            let scale = if args.quick { bench::plan::Scale::QUICK } else { bench::plan::Scale::FULL };
            let url = args.store.as_deref().map(str::parse).transpose().context("--store")?;
            let setup = bench::plan::Setup {
                url: url.as_ref(),
                scale,
                only: args.only.as_deref(),
                instances: args.instances,
                config: cli.config.as_deref(),
                settings: &settings,
            };
            let rows = bench::plan::run(setup, &mut show(args.output))?;
            Ok(judged(&rows, args.strict))
        }
        Command::Bench(Bench::Jobs(args)) => {
            let scale = if args.quick { bench::jobs::Scale::QUICK } else { bench::jobs::Scale::FULL };
            let url = args.store.as_deref().map(str::parse).transpose().context("--store")?;
            let rows = bench::jobs::run(url.as_ref(), scale, args.only.as_deref(), &settings, &mut show(args.output))?;
            Ok(judged(&rows, args.strict))
        }
        Command::Bench(Bench::Triggers(args)) => {
            use bench::triggers::{Scale, run};
            let scale = if args.quick { Scale::QUICK } else { Scale::FULL };
            let url = args.store.as_deref().map(str::parse).transpose().context("--store")?;
            let rows = run(url.as_ref(), scale, args.only.as_deref(), &settings, &mut show(args.output))?;
            Ok(judged(&rows, args.strict))
        }
    }
}

fn show(output: Output) -> impl FnMut(&bench::Row) {
    move |row| match output {
        Output::Table => println!("{row}"),
        Output::Json => println!("{}", row.json()),
    }
}

fn judged(rows: &[bench::Row], strict: bool) -> ExitCode {
    let missed = rows.iter().filter(|row| row.pass == Some(false)).count();
    let judged = rows.iter().filter(|row| row.pass.is_some()).count();
    eprintln!("{} of {judged} bars passed", judged - missed);
    if missed > 0 && strict { ExitCode::from(3) } else { ExitCode::SUCCESS }
}

fn check(file: &std::path::Path) -> anyhow::Result<ExitCode> {
    use windlass_core::plan::file::{Format, parse};
    let format = Format::from_path(file)
        .with_context(|| format!("{}: the name must end in .yaml, .yml, .toml or .json", file.display()))?;
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    match parse(&text, format) {
        Ok(plan) => {
            let tasks = match plan.tasks.len() {
                1 => "1 task".to_owned(),
                n => format!("{n} tasks"),
            };
            println!("{}: plan {} with {tasks} is valid", file.display(), plan.name);
            Ok(ExitCode::SUCCESS)
        }
        Err(problems) => {
            println!("{problems}");
            eprintln!("windlass: {} is not a valid plan", file.display());
            Ok(ExitCode::FAILURE)
        }
    }
}
