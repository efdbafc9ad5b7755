//! The `windlass` executable.

use std::process::ExitCode;

fn main() -> ExitCode {
    windlass::cli::main()
}
