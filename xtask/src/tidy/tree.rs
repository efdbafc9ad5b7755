//! The repository in memory: paths with `/` between their parts, and the text of what is text.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};

/// Folders that are not the project's own work.
const SKIPPED: &[&str] = &[".git", "target"];

pub(super) struct Tree {
    files: BTreeMap<String, Option<String>>,
}

impl Tree {
    pub(super) fn read(root: &Path) -> Result<Self> {
        let mut files = BTreeMap::new();
        let mut folders = vec![(root.to_path_buf(), String::new())];
        while let Some((folder, prefix)) = folders.pop() {
            let entries = std::fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
            for entry in entries {
                let entry = entry.with_context(|| format!("cannot list {}", folder.display()))?;
                let name = entry.file_name().to_string_lossy().into_owned();
                let path = format!("{prefix}{name}");
                let kind = entry.file_type().with_context(|| format!("cannot look at {path}"))?;
                if kind.is_dir() {
                    if !SKIPPED.contains(&name.as_str()) {
                        folders.push((entry.path(), format!("{path}/")));
                    }
                } else if kind.is_file() && !SKIPPED.contains(&name.as_str()) {
                    let bytes = std::fs::read(entry.path()).with_context(|| format!("cannot read {path}"))?;
                    files.insert(path, String::from_utf8(bytes).ok());
                }
            }
        }
        Ok(Self { files })
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), Some((*text).to_owned()))).collect();
        Self { files }
    }

    /// Every text file with its path, in the order of paths.
    pub(super) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    pub(super) fn rust(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(|(path, _)| path.ends_with(".rs"))
    }

    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    /// Whether there is a file of that path, or a folder with something in it.
    pub(super) fn holds(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty() || self.files.contains_key(path) || self.files.keys().any(|file| file.starts_with(&folder))
    }
}

/// Whether a Rust file holds tests and nothing else.
pub(super) fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

#[cfg(test)]
mod tests;
