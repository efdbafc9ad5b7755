//! The command line. Data goes to stdout, the rest to stderr; what the exit code means is in `exit.rs`.

mod bench;
mod check;
mod completion;
mod demo;
mod exit;
mod inbox;
mod instance;
mod job;
mod limits;
mod live;
mod lock;
mod ops;
mod plan;
mod progress;
mod queue;
mod reference;
mod remote;
mod show;
mod store;
mod task;
mod tenant;
mod trigger;
mod watch;
mod worker;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory as _, Parser, Subcommand};

use crate::settings::Settings;
use remote::Remote;
use show::Output;

/// Work for many tenants, stage by stage, that never loses its place.
#[derive(Parser)]
#[command(name = "windlass", version, disable_help_subcommand = true, max_term_width = 100)]
#[command(help_template = format!("{{about}}\n\n{{usage-heading}} {{usage}}\n\n{COMMANDS}\n\n{{options}}\n\n{AFTER}"))]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// All commands on one screen; each says more of itself. A test sees that none is missing.
const COMMANDS: &str = "  up, demo       Start the server; the same with something to look at
  plan, task     Create, watch and steer plans; steer one tenant's work
  inbox, why     What waits for a person; why something does not move
  tenant, lock   Freeze and limit tenants; see tenant locks, and take one away
  job, queue     Submit jobs and wait for them; queues and their limits
  worker         Run a program for every job of a queue
  trigger        Schedules: at these times, do that
  key            API keys: create, list, revoke
  instance, doctor, migrate, schema, purge   Who runs; look after the store
  bench, completion                          Measure; complete what is typed in a shell";

const AFTER: &str = "Next: `windlass inbox` says what waits for you, `windlass COMMAND --help` what a command does.\n\
                     Pages: docs/cli.md (every command, exit codes), docs/first-plan.md, docs/errors/ (every code).";

const EVERYWHERE: &str = "Options of every command";

/// What every command may be told.
#[derive(Args)]
pub(crate) struct Global {
    /// The server [environment: WINDLASS_SERVER; default: http://127.0.0.1:7800].
    #[arg(long, global = true, value_name = "URL", help_heading = EVERYWHERE)]
    server: Option<String>,
    /// An API key; better given as WINDLASS_KEY, where other users do not see it.
    #[arg(long, global = true, value_name = "KEY", help_heading = EVERYWHERE)]
    key: Option<String>,
    /// How answers are printed: table or json [default: table].
    #[arg(short, long, global = true, value_enum, value_name = "FORM", help_heading = EVERYWHERE)]
    #[arg(default_value = "table", hide_default_value = true, hide_possible_values = true)]
    output: Output,
    /// Settings in TOML, for commands that open a store.
    #[arg(long, global = true, value_name = "FILE", help_heading = EVERYWHERE)]
    config: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// Start the server.
    Up(crate::up::Up),
    /// A server with something to look at: twelve tenants, a failure, an approval.
    Demo(crate::demo::Demo),
    #[command(flatten)]
    Ask(Ask),
    /// API keys: create, list, revoke.
    Key(crate::key::Keys),
    /// Whether the store can be reached and is as it should be, and how to mend it.
    Doctor(store::Store),
    /// Bring the store's layout up to date.
    Migrate(store::Store),
    /// The SQL of stores that have tables.
    #[command(subcommand)]
    Schema(store::Schema),
    /// Remove what is over its retention, at once. An embedded store must not be in use.
    Purge(store::Store),
    /// Measure this machine and this program.
    #[command(subcommand)]
    Bench(bench::Bench),
    /// A completion script for a shell, to stdout.
    Completion(completion::Completion),
}

/// Everything that is a call of the server.
#[derive(Subcommand)]
enum Ask {
    /// Create, start, pause, resume, cancel, list and watch plans; check plan files.
    #[command(subcommand)]
    Plan(plan::Plan),
    /// Steer one tenant's work: retry, approve, pause, roll back, …
    #[command(subcommand)]
    Task(task::Task),
    /// Freeze a tenant, so that nothing of it moves, and unfreeze it; limit its jobs.
    #[command(subcommand)]
    Tenant(tenant::Tenant),
    /// Tenant locks: who holds whom, and taking one away.
    #[command(subcommand)]
    Lock(lock::Lock),
    /// Submit jobs, wait for them, cancel and requeue them.
    #[command(subcommand)]
    Job(job::Job),
    /// Queues and their limits.
    #[command(subcommand)]
    Queue(queue::Queue),
    /// Schedules: at these times, do that.
    #[command(subcommand)]
    Trigger(trigger::Trigger),
    /// Who runs on the server's store.
    #[command(subcommand)]
    Instance(instance::Instance),
    /// What waits for a person.
    Inbox,
    /// Why a plan or a task is not moving, and what to do.
    Why(inbox::Why),
    /// Run a program for every job of a queue.
    Worker(worker::Worker),
}

/// Runs the command line.
pub fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => exit::explain(&error),
    }
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let Cli { global, command } = cli;
    match command {
        Command::Up(what) => crate::up::run(what, settings(&global)?),
        Command::Demo(what) => {
            let settings = settings(&global)?;
            runtime()?.block_on(demo::run(what, global, settings))
        }
        // The one that needs no server.
        Command::Ask(Ask::Plan(plan::Plan::Check { file })) => check::run(&file),
        Command::Ask(what) => runtime()?.block_on(ask(&Remote::new(&global, variable)?, what)),
        Command::Key(what) => crate::key::run(what, &settings(&global)?),
        Command::Doctor(which) => runtime()?.block_on(store::doctor(&which, &settings(&global)?, global.output)),
        Command::Migrate(which) => runtime()?.block_on(store::migrate(&which, settings(&global)?)),
        Command::Purge(which) => runtime()?.block_on(store::purge(&which, &settings(&global)?)),
        Command::Schema(what) => Ok(store::schema(&what)),
        Command::Bench(what) => bench::run(what, global.output, global.config.as_deref(), &settings(&global)?),
        Command::Completion(which) => {
            completion::run(&which, Cli::command(), &mut std::io::stdout());
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn ask(remote: &Remote, what: Ask) -> anyhow::Result<ExitCode> {
    match what {
        Ask::Plan(what) => plan::run(remote, what).await,
        Ask::Task(what) => task::run(remote, what).await,
        Ask::Tenant(what) => tenant::run(remote, what).await,
        Ask::Lock(what) => lock::run(remote, what).await,
        Ask::Job(what) => job::run(remote, what).await,
        Ask::Queue(what) => queue::run(remote, what).await,
        Ask::Trigger(what) => trigger::run(remote, what).await,
        Ask::Instance(what) => instance::run(remote, what).await,
        Ask::Inbox => inbox::run(remote).await,
        Ask::Why(what) => inbox::why(remote, &what).await,
        Ask::Worker(what) => worker::run(remote, what).await,
    }
}

fn settings(global: &Global) -> anyhow::Result<Settings> {
    Settings::load(global.config.as_deref(), variable)
}

#[expect(clippy::disallowed_methods, reason = "the one place where the environment is read")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

/// Data. A reader that has seen enough, as `head`, ends the program quietly.
fn say(line: &str) {
    if writeln!(std::io::stdout(), "{line}").is_err() {
        std::process::exit(0);
    }
}

/// The rest.
fn note(line: &str) {
    // Nobody to tell it to is nobody to tell.
    drop(writeln!(std::io::stderr(), "{line}"));
}

/// The reference of the command line, as it is kept in `docs/cli.md`.
#[must_use]
pub fn reference() -> String {
    reference::page(Cli::command())
}

#[cfg(test)]
mod tests;
