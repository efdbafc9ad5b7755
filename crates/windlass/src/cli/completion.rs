//! `windlass completion`: scripts for shells.

use clap::{Args, Command};
use clap_complete::Shell;

#[derive(Args)]
pub(super) struct Completion {
    /// Which shell.
    shell: Shell,
}

pub(super) fn run(which: &Completion, mut command: Command) {
    clap_complete::generate(which.shell, &mut command, "windlass", &mut std::io::stdout());
}
