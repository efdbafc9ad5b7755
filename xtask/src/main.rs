//! The project's own tasks, run as `cargo xtask TASK`: everything that a newcomer and the build server do to the
//! repository is a task here and not a script beside it.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a terminal is what these tasks talk to")]

mod coverage;
mod mariadb;
mod postgres;
mod redis;
mod servers;
mod setup;
mod soak;
mod step;
mod test;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
usage: cargo xtask TASK

  test [--only STEP,STEP]  prepare the machine, then every check and every test
  tidy                     the checks that read the tree and compile nothing
  soak                     the long campaigns: more kills, more seeds, release build
  coverage                 line coverage per crate; fails below 80 %

Steps of `test`, in order: ";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        ["test"] => test::run(&root(), None),
        ["test", "--only", only] => test::run(&root(), Some(only)),
        ["tidy"] => tidy::run(&root()),
        ["soak"] => soak::run(&root()),
        ["coverage"] => coverage::run(&root()),
        ["help" | "--help" | "-h"] => {
            println!("{HELP}{}", test::names().join(", "));
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{HELP}{}", test::names().join(", "));
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The repository this program is run in. Cargo says which: a build folder may have come from another checkout.
fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let here = Path::new(&here);
    here.parent().unwrap_or(here).to_path_buf()
}
