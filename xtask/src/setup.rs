//! What a machine needs before the tests can run, and how to get it. A new need (a database server, say) is one more
//! entry in [`NEEDS`].

use std::path::Path;

use anyhow::{Context, Result};

use crate::step::Cmd;

/// One thing that must be there.
pub(crate) struct Need {
    name: &'static str,
    /// The steps of `cargo xtask test` that cannot run without it.
    steps: &'static [&'static str],
    /// Succeeds when it is there.
    probe: Cmd,
    /// Fetches it.
    prepare: Cmd,
    /// What a person does when fetching does not work.
    by_hand: &'static str,
}

pub(crate) const NEEDS: &[Need] = &[
    Need {
        name: "rustfmt",
        steps: &["fmt"],
        probe: Cmd::new(&["cargo", "fmt", "--version"]),
        prepare: Cmd::new(&["rustup", "component", "add", "rustfmt"]),
        by_hand: "install rustfmt with your Rust toolchain",
    },
    Need {
        name: "clippy",
        steps: &["clippy"],
        probe: Cmd::new(&["cargo", "clippy", "--version"]),
        prepare: Cmd::new(&["rustup", "component", "add", "clippy"]),
        by_hand: "install clippy with your Rust toolchain",
    },
    NEXTEST,
    MARIADB,
    POSTGRES,
    SCHEMATHESIS,
    REDIS,
];

pub(crate) const NEXTEST: Need = Need {
    name: "cargo-nextest",
    steps: &["nextest"],
    probe: Cmd::new(&["cargo", "nextest", "--version"]),
    // Without its updater and its probes it takes a fifth less time to build, and the set-up is part of the budget.
    prepare: Cmd::new(&["cargo", "install", "cargo-nextest", "--locked", "--no-default-features"]),
    by_hand: "install cargo-nextest and put it on the PATH",
};

pub(crate) const MARIADB: Need = Need {
    name: "MariaDB",
    steps: &["nextest"],
    probe: Cmd::new(&["sh", "-c", "command -v mariadbd && command -v mariadb-install-db && command -v mariadb"]),
    prepare: Cmd::with_env(
        &[("DEBIAN_FRONTEND", "noninteractive")],
        &[
            "sh",
            "-c",
            "apt-get install -y --no-install-recommends mariadb-server || \
             { apt-get update && apt-get install -y --no-install-recommends mariadb-server; }",
        ],
    ),
    by_hand: "install a MariaDB server of version 10.6 or newer; tests start their own, nothing has to run",
};

pub(crate) const POSTGRES: Need = Need {
    name: "PostgreSQL",
    steps: &["nextest"],
    probe: Cmd::new(&["sh", "-c", "command -v postgres || ls /usr/lib/postgresql/*/bin/postgres"]),
    // The lists of a fresh machine may be missing or old: then they are fetched first.
    prepare: Cmd::with_env(
        &[("DEBIAN_FRONTEND", "noninteractive")],
        &[
            "sh",
            "-c",
            "apt-get install -y --no-install-recommends postgresql || \
             { apt-get update && apt-get install -y --no-install-recommends postgresql; }",
        ],
    ),
    by_hand: "install a PostgreSQL server; tests start their own, nothing has to run",
};

pub(crate) const SCHEMATHESIS: Need = Need {
    name: "schemathesis",
    steps: &["nextest"],
    // It runs only where it was made: a folder that was moved does not do.
    probe: Cmd::new(&["sh", "-c", "\"${CARGO_TARGET_DIR:-target}/schemathesis/bin/schemathesis\" --version"]),
    // In a folder of its own beside what is built, so that nothing of the machine's Python changes.
    prepare: Cmd::new(&[
        "sh",
        "-c",
        "folder=\"${CARGO_TARGET_DIR:-target}/schemathesis\" && python3 -m venv --clear \"$folder\" && \
         \"$folder/bin/pip\" install -q schemathesis==4.32.5",
    ]),
    by_hand: "make a Python environment with schemathesis in target/schemathesis",
};

pub(crate) const REDIS: Need = Need {
    name: "Redis",
    steps: &["nextest"],
    probe: Cmd::new(&["sh", "-c", "command -v redis-server && command -v openssl"]),
    prepare: Cmd::with_env(
        &[("DEBIAN_FRONTEND", "noninteractive")],
        &[
            "sh",
            "-c",
            "apt-get install -y --no-install-recommends redis-server openssl || \
             { apt-get update && apt-get install -y --no-install-recommends redis-server openssl; }",
        ],
    ),
    by_hand: "install a Redis server of version 7 or newer, and openssl; tests start their own, nothing has to run",
};

pub(crate) const LLVM_TOOLS: Need = Need {
    name: "llvm-tools",
    steps: &[],
    // Without a file of the component to ask for, rustup itself is asked; a toolchain without rustup has no answer.
    probe: Cmd::new(&["rustup", "component", "add", "llvm-tools"]),
    prepare: Cmd::new(&["rustup", "component", "add", "llvm-tools"]),
    by_hand: "install the component llvm-tools of your Rust toolchain",
};

pub(crate) const LLVM_COV: Need = Need {
    name: "cargo-llvm-cov",
    steps: &[],
    probe: Cmd::new(&["cargo", "llvm-cov", "--version"]),
    prepare: Cmd::new(&["cargo", "install", "cargo-llvm-cov", "--locked"]),
    by_hand: "install cargo-llvm-cov and put it on the PATH",
};

pub(crate) const TARPAULIN: Need = Need {
    name: "cargo-tarpaulin",
    steps: &[],
    probe: Cmd::new(&["cargo", "tarpaulin", "--version"]),
    prepare: Cmd::new(&["cargo", "install", "cargo-tarpaulin", "--locked"]),
    by_hand: "install cargo-tarpaulin and put it on the PATH",
};

impl Need {
    pub(crate) fn is_there(&self, root: &Path) -> bool {
        self.probe.succeeds(root)
    }

    /// Makes it be there.
    pub(crate) fn meet(&self, root: &Path) -> Result<()> {
        if self.is_there(root) {
            return Ok(());
        }
        eprintln!("    {} is missing, fetching it", self.name);
        self.prepare.run(root).with_context(|| format!("{} is missing: {}", self.name, self.by_hand))
    }

    fn serves(&self, step: &str) -> bool {
        self.steps.contains(&step)
    }
}

/// Meets what the given steps need, and nothing else.
pub(crate) fn run(root: &Path, steps: &[&str]) -> Result<()> {
    NEEDS.iter().filter(|need| steps.iter().any(|step| need.serves(step))).try_for_each(|need| need.meet(root))
}

#[cfg(test)]
mod tests;
