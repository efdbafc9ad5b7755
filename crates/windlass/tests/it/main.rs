//! The executable as people use it.
#![expect(clippy::unwrap_used, reason = "this is a test from end to end")]

mod bench;
mod examples;
mod plan;
mod readme;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn windlass(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_windlass")).args(args).current_dir(root()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
