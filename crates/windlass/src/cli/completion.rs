//! `windlass completion`: scripts for shells.

use clap::{Args, Command};
use clap_complete::Shell;

#[derive(Args)]
pub(super) struct Completion {
    /// Which shell.
    pub(super) shell: Shell,
}

pub(super) fn run(which: &Completion, mut command: Command, to: &mut dyn std::io::Write) {
    let mut to = to;
    clap_complete::generate(which.shell, &mut command, "windlass", &mut to);
}
