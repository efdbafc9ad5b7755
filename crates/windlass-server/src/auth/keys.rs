//! The file of API keys: TOML, readable by its owner only. It holds hashes, never keys. Whoever changes it replaces it
//! whole, and a server that uses it reads it again when it has changed.

use std::collections::{BTreeSet, HashMap};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use windlass_core::by::By;
use windlass_core::id::{QueueName, TenantId};
use windlass_core::time::{Ms, rfc3339};

use super::{Role, Who};

/// One key as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// The part of it that is no secret.
    pub id: String,
    /// Who has it: the `by` of what is done with it.
    pub name: By,
    /// What it may do.
    pub role: Role,
    /// The SHA-256 of the whole key, in hex.
    pub hash: String,
    /// Only what is theirs; empty: everybody's.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tenants: BTreeSet<TenantId>,
    /// Only in these queues; empty: in all.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub queues: BTreeSet<QueueName>,
    /// When it was made.
    #[serde(with = "rfc3339")]
    pub created: Ms,
    /// Until when it is good; for ever, if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "maybe_rfc3339")]
    pub expires: Option<Ms>,
}

mod maybe_rfc3339 {
    use serde::{Deserialize, Deserializer, Serializer};
    use windlass_core::time::{Ms, rfc3339};

    #[derive(Deserialize)]
    #[serde(transparent)]
    struct Time(#[serde(with = "rfc3339")] Ms);

    pub(super) fn serialize<S: Serializer>(at: &Option<Ms>, to: S) -> Result<S::Ok, S::Error> {
        match at {
            Some(at) => to.collect_str(at),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Ms>, D::Error> {
        Ok(Option::<Time>::deserialize(from)?.map(|time| time.0))
    }
}

/// A key that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKey {
    /// Who gets it.
    pub name: By,
    /// What it may do.
    pub role: Role,
    /// Only what is theirs; empty: everybody's.
    pub tenants: BTreeSet<TenantId>,
    /// Only in these queues; empty: in all.
    pub queues: BTreeSet<QueueName>,
    /// Until when it is good.
    pub expires: Option<Ms>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    key: Vec<Key>,
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// It cannot be read or written.
    #[error("WL-6031 the keys file {} cannot be used: {why}", .path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system says.
        why: std::io::Error,
    },
    /// It is not what it should be.
    #[error("WL-6031 the keys file {} is not valid: {why}", .path.display())]
    Invalid {
        /// Which.
        path: PathBuf,
        /// Where and why.
        why: String,
    },
    /// Others may read or write it.
    #[error("WL-6032 the keys file {} has mode {mode:o}; only its owner may read it: chmod 600", .path.display())]
    Mode {
        /// Which.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// There is a key of this name.
    #[error("WL-6033 there is a key named {0} already; revoke it first, or choose another name")]
    Exists(By),
}

/// The keys of a file, in the order in which they were made. A file that is not there has none.
pub fn list(path: &Path) -> Result<Vec<Key>, KeysError> {
    let io = |why| KeysError::Io { path: path.to_owned(), why };
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(why) => return Err(io(why)),
    };
    let mode = std::fs::metadata(path).map_err(io)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeysError::Mode { path: path.to_owned(), mode });
    }
    let invalid = |why: String| KeysError::Invalid { path: path.to_owned(), why };
    let document: Document = toml::from_str(&text).map_err(|why| invalid(why.to_string()))?;
    let hex = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match document.key.iter().find(|key| !hex(&key.hash)) {
        Some(key) => Err(invalid(format!("the hash of key {} is not a SHA-256 in hex", key.name))),
        None => Ok(document.key),
    }
}

/// Makes a key and writes its hash into the file. What is answered is the only copy of it.
pub fn create(path: &Path, new: NewKey, now: Ms) -> Result<String, KeysError> {
    let random = || uuid::Uuid::new_v4().simple().to_string();
    let (id, secret) = (random()[..12].to_owned(), random() + &random());
    let token = format!("wl_{id}_{secret}");
    let NewKey { name, role, tenants, queues, expires } = new;
    let key = Key { id, name, role, hash: hash(&token), tenants, queues, created: now, expires };
    change(path, |keys| {
        if keys.iter().any(|other| other.name == key.name) {
            return Err(KeysError::Exists(key.name.clone()));
        }
        keys.push(key);
        Ok(true)
    })?;
    Ok(token)
}

/// Removes the key of this name or id; `false` if there is none.
pub fn revoke(path: &Path, which: &str) -> Result<bool, KeysError> {
    change(path, |keys| {
        let before = keys.len();
        keys.retain(|key| key.id != which && key.name.as_str() != which);
        Ok(keys.len() < before)
    })
}

/// Reads, changes, and replaces the file, one process at a time. Answers what `how` does.
fn change(path: &Path, how: impl FnOnce(&mut Vec<Key>) -> Result<bool, KeysError>) -> Result<bool, KeysError> {
    let io = |why| KeysError::Io { path: path.to_owned(), why };
    let beside = |ending: &str| {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(ending);
        path.with_file_name(name)
    };
    let owners = |options: &mut OpenOptions, path: &Path| options.write(true).create(true).mode(0o600).open(path);
    let lock = owners(&mut OpenOptions::new(), &beside(".lock")).map_err(io)?;
    lock.lock().map_err(io)?;
    let mut keys = list(path)?;
    if !how(&mut keys)? {
        return Ok(false);
    }
    let text = toml::to_string(&Document { key: keys })
        .map_err(|why| KeysError::Invalid { path: path.to_owned(), why: why.to_string() })?;
    let next = beside(".new");
    let mut file = owners(OpenOptions::new().truncate(true), &next).map_err(io)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(io)?;
    std::fs::rename(&next, path).map_err(io)?;
    // The folder, so that the file's new name is on disk as well.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io)?;
    Ok(true)
}

fn hash(token: &str) -> String {
    Sha256::digest(token.as_bytes()).iter().fold(String::with_capacity(64), |mut hex, byte| {
        for digit in [byte >> 4, byte & 15] {
            hex.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
        }
        hex
    })
}

/// Keys as a server knows them.
pub(crate) struct Keys {
    path: PathBuf,
    table: RwLock<Table>,
}

#[derive(Default)]
struct Table {
    keys: HashMap<String, Entry>,
    /// What the file was like when it was read.
    seen: Option<Seen>,
}

struct Entry {
    hash: String,
    expires: Option<Ms>,
    who: Arc<Who>,
}

/// Enough to notice that a file was replaced.
type Seen = (u64, i64, i64, u64);

/// Why a key opens nothing.
pub(crate) enum Unknown {
    /// No such key.
    Never,
    /// Not any more.
    Expired(Ms),
}

impl Keys {
    /// Reads the file.
    pub(crate) fn open(path: PathBuf) -> Result<Keys, KeysError> {
        let keys = Keys { path, table: RwLock::default() };
        keys.read_again()?;
        Ok(keys)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.look(|table| table.keys.is_empty())
    }

    /// Who has this key.
    pub(crate) fn find(&self, token: &str, now: Ms) -> Result<Arc<Who>, Unknown> {
        let id = token.strip_prefix("wl_").and_then(|rest| rest.split_once('_')).ok_or(Unknown::Never)?.0;
        let given = hash(token);
        self.look(|table| {
            let entry = table.keys.get(id).filter(|entry| same(&entry.hash, &given)).ok_or(Unknown::Never)?;
            match entry.expires {
                Some(at) if at <= now => Err(Unknown::Expired(at)),
                _ => Ok(Arc::clone(&entry.who)),
            }
        })
    }

    /// Reads the file if it has changed; `true` if it had.
    pub(crate) fn read_again(&self) -> Result<bool, KeysError> {
        let seen =
            std::fs::metadata(&self.path).ok().map(|meta| (meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.size()));
        if seen.is_some() && self.look(|table| table.seen == seen) {
            return Ok(false);
        }
        let keys = list(&self.path)?;
        let some = |set: BTreeSet<_>| (!set.is_empty()).then_some(set);
        let entry = |key: Key| {
            let queues = (!key.queues.is_empty()).then_some(key.queues);
            let who = Who { by: Some(key.name), role: key.role, tenants: some(key.tenants), queues };
            (key.id, Entry { hash: key.hash, expires: key.expires, who: Arc::new(who) })
        };
        let table = Table { keys: keys.into_iter().map(entry).collect(), seen };
        *self.table.write().unwrap_or_else(std::sync::PoisonError::into_inner) = table;
        Ok(true)
    }

    fn look<R>(&self, look: impl FnOnce(&Table) -> R) -> R {
        look(&self.table.read().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

/// Takes as long whether they differ early or late.
fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |differ, (a, b)| differ | (a.to_ascii_lowercase() ^ b)) == 0
}

#[cfg(test)]
mod tests;
