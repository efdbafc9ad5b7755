//! A [`Kv`] that holds commits back, lets them fail, and remembers what it was asked to do.

use std::sync::{Arc, Condvar, Mutex};

use windlass_store_embedded::kv::memory::Memory;
use windlass_store_embedded::kv::{Batch, Kv, KvError, Read, Survives};

pub(crate) struct Probe {
    inner: Arc<dyn Kv>,
    state: Mutex<Seen>,
    changed: Condvar,
}

#[derive(Default)]
struct Seen {
    held: bool,
    fail: Option<Fail>,
    /// Commits beyond this many fail.
    fail_after: Option<usize>,
    /// Commits that were asked for, done or not.
    commits: Vec<Batch>,
    /// How many of them there were when one was to survive power loss.
    lasting: usize,
    /// Commits that have returned.
    returned: usize,
    marks: Vec<u64>,
}

/// What goes wrong, from now on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Fail {
    /// Nothing of the batch is written.
    Commit,
    /// All of it is, but that is not known.
    AfterCommit,
    /// The engine gives up altogether.
    Panic,
    /// The commit is done, the mark is not.
    Mark,
}

/// Commits that are held back. Letting go is dropping it, so that a test that fails does not hang.
pub(crate) struct Held<'a>(&'a Probe);

impl Held<'_> {
    pub(crate) fn let_go(self) {}
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.state.lock().unwrap().held = false;
        self.0.changed.notify_all();
    }
}

pub(crate) const WHY: &str = "no space left on the test's device";

impl Probe {
    pub(crate) fn over(inner: Arc<dyn Kv>) -> Arc<Probe> {
        Arc::new(Probe { inner, state: Mutex::default(), changed: Condvar::new() })
    }

    /// From now on commits wait, until they are let go or the test ends.
    #[must_use]
    pub(crate) fn hold(&self) -> Held<'_> {
        self.state.lock().unwrap().held = true;
        Held(self)
    }

    /// The commit that waits is good; those after it fail.
    pub(crate) fn fail_after_this(&self) {
        let mut seen = self.state.lock().unwrap();
        seen.fail_after = Some(seen.commits.len());
    }

    pub(crate) fn fail(&self, fail: Fail) {
        self.state.lock().unwrap().fail = Some(fail);
    }

    /// Waits until `n` commits were asked for since the beginning.
    pub(crate) fn wait_for_commits(&self, n: usize) {
        let waited = self.changed.wait_while(self.state.lock().unwrap(), |seen| seen.commits.len() < n);
        drop(waited.unwrap());
    }

    pub(crate) fn commits(&self) -> Vec<Batch> {
        self.state.lock().unwrap().commits.clone()
    }

    /// What is left if the power goes now and the machine has written only what it had to.
    pub(crate) fn without_power(&self) -> Memory {
        let (seen, left) = (self.state.lock().unwrap(), Memory::default());
        for batch in &seen.commits[..seen.lasting] {
            left.commit(batch.clone(), Survives::PowerLoss).unwrap();
        }
        left
    }

    pub(crate) fn returned(&self) -> usize {
        self.state.lock().unwrap().returned
    }

    pub(crate) fn marks(&self) -> Vec<u64> {
        self.state.lock().unwrap().marks.clone()
    }
}

impl Kv for Probe {
    fn read(&self) -> Box<dyn Read + '_> {
        self.inner.read()
    }

    fn commit(&self, batch: Batch, survives: Survives) -> Result<(), KvError> {
        let mut seen = self.state.lock().unwrap();
        seen.commits.push(batch.clone());
        if survives == Survives::PowerLoss {
            seen.lasting = seen.commits.len();
        }
        self.changed.notify_all();
        let seen = self.changed.wait_while(seen, |seen| seen.held).unwrap();
        let fail = match seen.fail_after {
            Some(good) if seen.commits.len() > good => Some(Fail::Commit),
            _ => seen.fail,
        };
        drop(seen);
        match fail {
            Some(Fail::Commit) => return Err(KvError::Io(WHY.into())),
            Some(Fail::Panic) => panic!("the test says: {WHY}"),
            _ => {}
        }
        self.inner.commit(batch, survives)?;
        self.state.lock().unwrap().returned += 1;
        match fail {
            Some(Fail::AfterCommit) => Err(KvError::Io(WHY.into())),
            _ => Ok(()),
        }
    }

    fn mark(&self, seq: u64) -> Result<(), KvError> {
        let mut seen = self.state.lock().unwrap();
        seen.marks.push(seq);
        match seen.fail {
            Some(Fail::Mark) => Err(KvError::Io(WHY.into())),
            _ => self.inner.mark(seq),
        }
    }

    fn close(&self) -> Result<(), KvError> {
        self.inner.close()
    }
}

/// Everything that is stored.
pub(crate) fn dump(kv: &dyn Kv) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    kv.read()
        .scan(&[], &[0xff], &mut |key, value| {
            rows.push((key.to_vec(), value.to_vec()));
            Ok(true)
        })
        .unwrap();
    rows
}
