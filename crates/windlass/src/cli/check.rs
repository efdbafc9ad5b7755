//! `windlass plan check`: a plan file, without a server.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use windlass_core::plan::file::{Format, parse};

use super::{exit, note, say};

pub(super) fn run(file: &Path) -> anyhow::Result<ExitCode> {
    let (text, format) = read(file)?;
    match parse(&text, format) {
        Ok(plan) => {
            let tasks = match plan.tasks.len() {
                1 => "1 task".to_owned(),
                n => format!("{n} tasks"),
            };
            say(&format!("{}: plan {} with {tasks} is valid", file.display(), plan.name));
            Ok(ExitCode::SUCCESS)
        }
        Err(problems) => {
            say(&problems.to_string());
            note(&format!("windlass: {} is not a valid plan", file.display()));
            Ok(exit::FAILED.into())
        }
    }
}

/// A plan's text and how it is written. `-` is stdin, and YAML, of which JSON is a part.
pub(super) fn read(file: &Path) -> anyhow::Result<(String, Format)> {
    if file == Path::new("-") {
        return Ok((std::io::read_to_string(std::io::stdin()).context("cannot read stdin")?, Format::Yaml));
    }
    let format = Format::from_path(file)
        .with_context(|| format!("{}: the name must end in .yaml, .yml, .toml or .json", file.display()))?;
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok((text, format))
}
