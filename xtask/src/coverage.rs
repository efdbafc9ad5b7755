//! `cargo xtask coverage`: how many lines the tests reach, per crate and over all. Test code is not counted: it would only
//! flatter the figure.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::servers::Servers;
use crate::setup::{LLVM_COV, LLVM_TOOLS, MARIADB, NEXTEST, POSTGRES, REDIS, TARPAULIN};
use crate::step::Cmd;
use crate::test::FAULT;

const PERCENT_MIN: f64 = 80.0;

/// The contract's scenarios are test code that happens to be a crate.
const NOT_COUNTED: &str = "windlass-conformance";

/// The most exact tool, where the toolchain's own LLVM can be had.
const WITH_LLVM_COV: Cmd = Cmd::new(&[
    "cargo",
    "llvm-cov",
    "nextest",
    "--workspace",
    "--exclude",
    "xtask",
    "--features",
    FAULT,
    "--json",
    "--summary-only",
    "--output-path",
    "target/coverage/llvm-cov.json",
    // The README's commands run a build of their own, which would inherit the instruments.
    "-E",
    "not test(readme)",
]);

/// Reads the profiles without LLVM's tools; a distribution's `llvm-profdata` is too old for them.
const WITH_TARPAULIN: Cmd = Cmd::new(&[
    "cargo",
    "tarpaulin",
    "--workspace",
    "--exclude",
    "xtask",
    "--features",
    FAULT,
    "--engine",
    "llvm",
    "--follow-exec",
    "--skip-clean",
    "--timeout",
    "1200",
    "--target-dir",
    "target/coverage/build",
    "--out",
    "Json",
    "--output-dir",
    "target/coverage",
    "--",
    "--skip",
    "readme",
]);

#[derive(Default, Debug, PartialEq, Eq, Clone, Copy)]
struct Lines {
    covered: u64,
    all: u64,
}

impl Lines {
    fn add(&mut self, other: Lines) {
        self.covered += other.covered;
        self.all += other.all;
    }

    fn percent(self) -> f64 {
        self.covered as f64 * 100.0 / self.all.max(1) as f64
    }
}

pub(crate) fn run(root: &Path) -> Result<()> {
    std::fs::create_dir_all(root.join("target/coverage")).context("cannot make target/coverage")?;
    MARIADB.meet(root)?;
    POSTGRES.meet(root)?;
    REDIS.meet(root)?;
    let servers = Servers::start()?;
    let files = if LLVM_TOOLS.is_there(root) {
        NEXTEST.meet(root)?;
        LLVM_COV.meet(root)?;
        WITH_LLVM_COV.run_with(root, servers.env())?;
        from_llvm_cov(&json(&root.join("target/coverage/llvm-cov.json"))?)?
    } else {
        eprintln!("    the component llvm-tools cannot be had here, measuring with cargo-tarpaulin");
        TARPAULIN.meet(root)?;
        WITH_TARPAULIN.run_with(root, servers.env())?;
        from_tarpaulin(&json(&root.join("target/coverage/tarpaulin-report.json"))?)?
    };
    let crates = by_crate(root, &files);
    if total(&crates).all == 0 {
        bail!("no line of any crate was measured");
    }
    print!("{}", table(&crates));
    let percent = total(&crates).percent();
    if percent < PERCENT_MIN {
        bail!("{percent:.1} % of the lines are covered, {PERCENT_MIN:.0} % is the least");
    }
    Ok(())
}

fn json(path: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))
}

type Files = Vec<(PathBuf, Lines)>;

fn from_llvm_cov(report: &Value) -> Result<Files> {
    let files = report.pointer("/data/0/files").and_then(Value::as_array).context("a report without files")?;
    let one = |file: &Value| {
        let path = file.get("filename")?.as_str()?.into();
        let number = |name| file.pointer(name)?.as_u64();
        Some((path, Lines { covered: number("/summary/lines/covered")?, all: number("/summary/lines/count")? }))
    };
    files.iter().map(|file| one(file).context("a report whose files are not understood")).collect()
}

fn from_tarpaulin(report: &Value) -> Result<Files> {
    let files = report.get("files").and_then(Value::as_array).context("a report without files")?;
    let one = |file: &Value| {
        let parts = file.get("path")?.as_array()?;
        let path = parts.iter().filter_map(Value::as_str).collect();
        let number = |name| file.get(name)?.as_u64();
        Some((path, Lines { covered: number("covered")?, all: number("coverable")? }))
    };
    files.iter().map(|file| one(file).context("a report whose files are not understood")).collect()
}

/// The lines of `crates/NAME/src`, without test code.
fn by_crate(root: &Path, files: &[(PathBuf, Lines)]) -> BTreeMap<String, Lines> {
    let mut crates: BTreeMap<String, Lines> = BTreeMap::new();
    for (path, lines) in files {
        let path = path.strip_prefix(root).unwrap_or(path).to_string_lossy();
        let Some((name, inner)) = path.strip_prefix("crates/").and_then(|rest| rest.split_once('/')) else { continue };
        if inner.starts_with("src/") && !inner.ends_with("/tests.rs") && !inner.contains("/tests/") {
            crates.entry(name.to_owned()).or_default().add(*lines);
        }
    }
    crates
}

fn total(crates: &BTreeMap<String, Lines>) -> Lines {
    let mut total = Lines::default();
    crates.iter().filter(|(name, _)| *name != NOT_COUNTED).for_each(|(_, lines)| total.add(*lines));
    total
}

fn table(crates: &BTreeMap<String, Lines>) -> String {
    let row = |name: &str, lines: Lines, note: &str| {
        format!("{name:<26} {:>6} of {:>6} lines  {:>5.1} %{note}\n", lines.covered, lines.all, lines.percent())
    };
    let mut text = String::new();
    for (name, lines) in crates.iter().filter(|(_, lines)| lines.all > 0) {
        text += &row(name, *lines, if name == NOT_COUNTED { "  (test code, not counted)" } else { "" });
    }
    text + &row("total", total(crates), "")
}

#[cfg(test)]
mod tests;
