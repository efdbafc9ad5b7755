//! The default store: durable, in the process that uses it, for production on one machine. The rules
//! are written once over a small key-value interface ([`kv`]); fjall stands behind it on disk, a
//! `BTreeMap` for `memory:`. All writes go through one thread (`writer`) that commits everything
//! that waits in one batch with one sync and acknowledges afterwards.

mod chain;
mod clock;
mod error;
mod hot;
mod job;
mod key;
pub mod kv;
mod lock;
mod mark;
mod record;
mod state;
mod trigger;
mod tx;
mod writer;

pub use clock::Clock;
pub use error::OpenError;
pub use kv::disk::Options;
pub use mark::MARK_FILE;

use std::path::Path;
use std::sync::Arc;

use windlass_core::port::Batches;

use kv::Kv;
use writer::Writer;

/// A handle to an open store. Clones share it; [`Embedded::close`] ends it for all of them.
#[derive(Clone)]
pub struct Embedded {
    writer: Arc<Writer>,
    ahead_ms: u64,
}

impl Embedded {
    /// Opens the store in `folder`, which is made if it does not exist. One process at a time.
    pub fn open(folder: &Path, options: &Options) -> Result<Embedded, OpenError> {
        Self::over(Arc::new(kv::disk::Disk::open(folder, options)?), Clock::system())
    }

    /// A store that lives as long as its handles.
    #[must_use]
    pub fn memory() -> Embedded {
        Self::start(Arc::new(kv::memory::Memory::default()), Clock::system(), 0)
    }

    /// A store over any [`Kv`] and clock: what tests put faults into.
    pub fn over(kv: Arc<dyn Kv>, clock: Clock) -> Result<Embedded, OpenError> {
        let seq = Self::last(&*kv)?;
        Ok(Self::start(kv, clock, seq))
    }

    /// The same without a thread of its own: each call is carried out at once, by whoever makes it. For
    /// simulations, which must decide themselves what happens when.
    pub fn inline(kv: Arc<dyn Kv>, clock: Clock) -> Result<Embedded, OpenError> {
        let seq = Self::last(&*kv)?;
        Ok(Embedded { writer: Arc::new(Writer::inline(kv, clock, seq)), ahead_ms: 0 })
    }

    /// The number of the last batch that is stored.
    fn last(kv: &dyn Kv) -> Result<u64, OpenError> {
        let damaged = |why: kv::KvError| OpenError::Corrupt { folder: ".".into(), why: why.to_string() };
        Ok(chain::walk(&*kv.read()).map_err(damaged)?.last)
    }

    fn start(kv: Arc<dyn Kv>, clock: Clock, seq: u64) -> Embedded {
        Embedded { writer: Arc::new(Writer::start(kv, clock, seq)), ahead_ms: 0 }
    }

    /// How many callers' work each batch made durable.
    #[must_use]
    pub fn batches(&self) -> Arc<Batches> {
        Arc::clone(&self.writer.batches)
    }

    /// The same store seen by a clock that runs ahead: how tests let leases expire.
    #[must_use]
    pub fn ahead(&self, ms: u64) -> Embedded {
        Embedded { writer: Arc::clone(&self.writer), ahead_ms: ms }
    }

    /// Finishes what waits, syncs, and lets go of the folder. Every later call of every handle
    /// answers that the store is unavailable.
    pub fn close(&self) {
        self.writer.close();
    }

    /// Why the store stopped, if a write or a sync failed.
    #[must_use]
    pub fn stopped(&self) -> Option<String> {
        self.writer.stopped()
    }
}
