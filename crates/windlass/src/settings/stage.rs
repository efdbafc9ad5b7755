//! What stages may do, made of the settings: the guard, the list of programs, the secret file.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use windlass_core::id::SecretName;
use windlass_engine::stage::exec::Allowed;
use windlass_engine::stage::guard::{Allow, Guard};
use windlass_engine::stage::secret::{self, SecretString};

use super::{Exec, Guarding, Http, Secrets};

/// A secret file, at most.
const SECRETS_BYTES_MAX: u64 = 1024 * 1024;

/// Why the secret file is of no use. It says nothing of what the file holds.
#[derive(Debug, thiserror::Error)]
pub enum BadSecrets {
    /// It cannot be read.
    #[error("WL-4022 the secret file {} cannot be read: {why}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        why: std::io::Error,
    },
    /// It is no list of secrets.
    #[error("WL-4022 the secret file {} is not valid at line {line}, column {column}: expected NAME = \"text\"", .path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
}

impl Http {
    /// The guard, when plans come in through a server that listens at `listen`; none, when the program that embeds the
    /// library hands them in, from wherever it has them.
    #[must_use]
    pub fn guard(&self, listen: Option<SocketAddr>) -> Guard {
        let at_home = || listen.is_some_and(|address| address.ip().to_canonical().is_loopback());
        match self.guard {
            Guarding::Off => Guard::Off,
            Guarding::Auto if at_home() => Guard::Off,
            Guarding::On | Guarding::Auto => Guard::On { allow: self.allowed() },
        }
    }

    fn allowed(&self) -> Vec<Allow> {
        self.allow.iter().filter_map(|entry| entry.parse().ok()).collect()
    }

    /// What is no network is taken for a host: a network with a slip in it would be one that nobody has.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        for entry in self.allowed() {
            let Allow::Host(name) = entry else { continue };
            let number = name.rsplit('.').next().is_some_and(|last| last.chars().all(|c| c.is_ascii_digit()));
            anyhow::ensure!(
                !name.is_empty() && name.chars().all(letter) && !number,
                "WL-4021 [http] allow has {name:?}; expected a network (10.1.0.0/16), an address or a host's name"
            );
        }
        Ok(())
    }
}

impl Exec {
    /// The programs.
    #[must_use]
    pub fn allowed(&self) -> Allowed {
        match self.allow.as_slice() {
            [] => Allowed::Nothing,
            programs => Allowed::Programs(programs.to_vec()),
        }
    }

    pub(super) fn check(&self) -> anyhow::Result<()> {
        let allowed = self.allowed();
        let bad = allowed.bad();
        let said = "expected an absolute path, or a bare name to look for in PATH";
        anyhow::ensure!(bad.is_none(), "WL-4021 [exec] allow has {:?}; {said}", bad.unwrap_or_default());
        Ok(())
    }
}

impl Secrets {
    /// The secrets of the file, if there is one: it is read now, to see that it can be, and whenever a stage needs one
    /// of them, so that a secret can be changed without a restart.
    pub fn open(&self) -> Result<secret::Secrets, BadSecrets> {
        let none = secret::Secrets::default();
        if self.file.as_os_str().is_empty() {
            return Ok(none);
        }
        read(&self.file)?;
        let path = self.file.clone();
        // A small local file: reading it takes less than handing it to another thread.
        let find = move |name: &SecretName| read(&path).map(|mut all| all.remove(name)).map_err(|bad| bad.to_string());
        Ok(none.or_from(Box::new(find)))
    }
}

fn read(path: &Path) -> Result<BTreeMap<SecretName, SecretString>, BadSecrets> {
    let unreadable = |why| BadSecrets::Unreadable { path: path.to_owned(), why };
    if std::fs::metadata(path).map_err(unreadable)?.len() > SECRETS_BYTES_MAX {
        return Err(unreadable(std::io::Error::other("it has more than 1 MiB")));
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    // The parser's own message shows the line, and with it a secret.
    let invalid = |at: usize| {
        let before = text.get(..at).unwrap_or(&text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        BadSecrets::Invalid { path: path.to_owned(), line, column }
    };
    let all: BTreeMap<toml::Spanned<String>, String> =
        toml::from_str(&text).map_err(|error| invalid(error.span().map_or(0, |span| span.start)))?;
    let named = |(name, text): (toml::Spanned<String>, String)| match name.as_ref().parse() {
        Ok(name) => Ok((name, SecretString::from(text))),
        Err(_) => Err(invalid(name.span().start)),
    };
    all.into_iter().map(named).collect()
}

#[cfg(test)]
mod tests;
