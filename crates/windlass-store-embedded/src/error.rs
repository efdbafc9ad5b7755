//! What can go wrong below the ports, and what the ports make of it.

use std::path::PathBuf;

use windlass_core::port::PortError;

/// Why a store does not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it.
    #[error(
        "WL-4001 {} is in use by another process; stop it, or give this one a folder of its own",
        .0.display()
    )]
    Locked(PathBuf),
    /// The journal ends before what was acknowledged.
    #[error(
        "WL-4002 {} has lost acknowledged writes: it ends at {found}, but {acknowledged} were acknowledged; \
         restore a backup, or open it with accept_loss to go on with what is left", .folder.display()
    )]
    Lost {
        /// Where.
        folder: PathBuf,
        /// The last write that is there.
        found: u64,
        /// The last that was acknowledged.
        acknowledged: u64,
    },
    /// The journal has a hole: a batch is missing although later ones are there.
    #[error(
        "WL-4002 {} has lost acknowledged writes: of {found} batches one after {after} is missing; \
         restore a backup, or open it with accept_loss to go on with what is left", .folder.display()
    )]
    Hole {
        /// Where.
        folder: PathBuf,
        /// The last before the hole.
        after: u64,
        /// The last that is there.
        found: u64,
    },
    /// Made by a version of the program that this one does not know.
    #[error("WL-4003 {} holds format {found:?}; this program reads format {expected:?}", .folder.display())]
    Format {
        /// Where.
        folder: PathBuf,
        /// What is there.
        found: String,
        /// What is known.
        expected: &'static str,
    },
    /// What is stored cannot be understood.
    #[error("WL-4004 {} is damaged: {why}", .folder.display())]
    Corrupt {
        /// Where.
        folder: PathBuf,
        /// How.
        why: String,
    },
    /// The file system says no.
    #[error("WL-4005 {}: {why}", .folder.display())]
    Io {
        /// Where.
        folder: PathBuf,
        /// What it said.
        why: String,
    },
}

/// An error of the engine below.
#[derive(Debug, Clone, thiserror::Error)]
pub enum KvError {
    /// Reading or writing failed.
    #[error("{0}")]
    Io(String),
    /// A record does not decode.
    #[error("{0}")]
    Corrupt(String),
}

impl From<KvError> for PortError {
    fn from(error: KvError) -> Self {
        match error {
            KvError::Io(why) => PortError::Unavailable(why),
            KvError::Corrupt(why) => PortError::Corrupt(why),
        }
    }
}

impl From<fjall::Error> for KvError {
    fn from(error: fjall::Error) -> Self {
        match error {
            fjall::Error::Io(_) | fjall::Error::Poisoned | fjall::Error::Locked => KvError::Io(error.to_string()),
            _ => KvError::Corrupt(error.to_string()),
        }
    }
}
