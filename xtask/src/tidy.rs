//! `cargo xtask tidy`: house rules that no compiler checks. Each check is a function from the tree to the problems it
//! found in it; each has a test that shows it refusing.

mod arrows;
mod errors;
mod features;
mod links;
mod rust;
mod scenarios;
mod settings;
mod size;
mod tree;
mod words;

use std::fmt;
use std::path::Path;

use anyhow::{Result, bail};

use tree::Tree;

struct Check {
    name: &'static str,
    run: fn(&Tree) -> Vec<Problem>,
}

const CHECKS: &[Check] = &[
    Check { name: "crate arrows", run: arrows::check },
    Check { name: "file sizes", run: size::check },
    Check { name: "scenario list", run: scenarios::check },
    Check { name: "error pages", run: errors::check },
    Check { name: "settings", run: settings::check },
    Check { name: "features", run: features::check },
    Check { name: "words", run: words::check },
    Check { name: "links", run: links::check },
];

/// What is wrong, where, and what to do about it.
#[derive(Debug, PartialEq, Eq)]
struct Problem {
    at: String,
    what: String,
    fix: String,
}

impl Problem {
    fn new(at: impl Into<String>, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { at: at.into(), what: what.into(), fix: fix.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n    to do: {}", self.at, self.what, self.fix)
    }
}

pub(crate) fn run(root: &Path) -> Result<()> {
    let tree = Tree::read(root)?;
    let mut count = 0;
    for check in CHECKS {
        let problems = (check.run)(&tree);
        eprintln!("    {}: {}", check.name, if problems.is_empty() { "ok" } else { "refused" });
        for problem in &problems {
            println!("{problem}");
        }
        count += problems.len();
    }
    if count > 0 {
        bail!("tidy refuses the tree: {count} to put right");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
