//! Commands as values: what is run, how it is shown so that a person can repeat it, and how long it took.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// A program, its arguments and what it needs in its environment beyond ours.
#[derive(Clone, Copy)]
pub(crate) struct Cmd {
    pub(crate) env: &'static [(&'static str, &'static str)],
    pub(crate) argv: &'static [&'static str],
}

impl Cmd {
    pub(crate) const fn new(argv: &'static [&'static str]) -> Self {
        Self { env: &[], argv }
    }

    pub(crate) const fn with_env(env: &'static [(&'static str, &'static str)], argv: &'static [&'static str]) -> Self {
        Self { env, argv }
    }

    /// The line that repeats this command in a shell.
    pub(crate) fn line(&self) -> String {
        let env = self.env.iter().map(|(name, value)| format!("{name}={}", quoted(value)));
        let argv = self.argv.iter().map(|word| quoted(word));
        env.chain(argv).collect::<Vec<_>>().join(" ")
    }

    /// Runs it. All it says is progress to us, so its stdout joins our stderr.
    pub(crate) fn run(&self, root: &Path) -> Result<()> {
        self.run_with(root, Vec::new())
    }

    /// Runs it with more in its environment that is known only now.
    pub(crate) fn run_with(&self, root: &Path, env: Vec<(&str, String)>) -> Result<()> {
        eprintln!("    $ {}", self.line());
        let mut command = self.command(root)?;
        command.envs(env);
        command.stdout(std::io::stderr());
        let status = command.status().with_context(|| format!("cannot start `{}`", self.line()))?;
        ensure!(status.success(), "`{}` ended with {status}", self.line());
        Ok(())
    }

    /// Whether it runs and succeeds, in silence.
    pub(crate) fn succeeds(&self, root: &Path) -> bool {
        let Ok(mut command) = self.command(root) else { return false };
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    }

    /// What it writes to stdout; its stderr stays on the terminal.
    pub(crate) fn read(&self, root: &Path) -> Result<String> {
        eprintln!("    $ {}", self.line());
        let output = self
            .command(root)?
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("cannot start `{}`", self.line()))?;
        ensure!(output.status.success(), "`{}` ended with {}", self.line(), output.status);
        String::from_utf8(output.stdout).with_context(|| format!("`{}` did not write UTF-8", self.line()))
    }

    fn command(&self, root: &Path) -> Result<Command> {
        let (program, args) = self.argv.split_first().context("a command without a program")?;
        let mut command = Command::new(program);
        command.args(args).envs(self.env.iter().copied()).current_dir(root);
        Ok(command)
    }
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:+".contains(c);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{word}'") }
}

/// `1m 05s`, `12.3s`: a time for people.
pub(crate) fn shown(time: Duration) -> String {
    let s = time.as_secs();
    if s >= 60 { format!("{}m {:02}s", s / 60, s % 60) } else { format!("{:.1}s", time.as_secs_f64()) }
}

#[cfg(test)]
mod tests;
