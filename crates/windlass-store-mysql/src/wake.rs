//! Wake-ups. Whoever writes something that others may be waiting for counts it in the same transaction (`change_mark`). Who
//! waits here is told by one look at the counts for the whole process: at once after a write of its own, and every [`LOOK`] for the sake of
//! what others write, as long as anybody waits; less often while the server is slow. MySQL has nothing that calls.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Mutex, Notify, watch};
use tokio::time::{Instant, timeout};
use windlass_core::port::job::Ended;
use windlass_core::port::{Mark, PortError, WAIT_MS_MAX};

use crate::Inner;
use crate::cell::Cells;
use crate::job::feed::Counts;
use crate::text::Script;

/// Between two looks at what others wrote: no wake-up is later than this and the look itself, if the server answers quickly.
const LOOK: Duration = Duration::from_millis(25);
/// On a server that is slow to answer, so many times as long as a look took, and no longer than [`AWAY`].
const LOOK_TIMES: u32 = 16;
/// Between two looks after writes of this process, which may be many.
const DEBOUNCE: Duration = Duration::from_millis(1);
/// Between two looks that failed.
const AWAY: Duration = Duration::from_millis(200);

/// Which count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Port {
    State,
    Locks,
    Jobs,
    Triggers,
}

impl Port {
    const ALL: [Port; 4] = [Port::State, Port::Locks, Port::Jobs, Port::Triggers];

    fn name(self) -> &'static str {
        match self {
            Port::State => "state",
            Port::Locks => "locks",
            Port::Jobs => "jobs",
            Port::Triggers => "triggers",
        }
    }
}

/// Counts in this transaction, as its last statement: the row is everybody's on this connection's shard.
pub(crate) fn count(script: &mut Script, port: Port) {
    let name = port.name();
    script.say(&format!("UPDATE change_mark SET n = n + 1 WHERE port = '{name}' AND shard = CONNECTION_ID() % 16"));
}

#[derive(Debug, Clone, Default)]
struct Seen {
    marks: [u64; Port::ALL.len()],
    /// Why nothing could be seen.
    failure: Option<PortError>,
}

#[derive(Default)]
pub(crate) struct Wake {
    seen: watch::Sender<Seen>,
    /// When the last look began.
    looked: Mutex<Option<Instant>>,
    waiters: AtomicUsize,
    /// Somebody has asked which jobs end.
    follows: AtomicBool,
    /// How often jobs had ended, over all shards, when it was last asked which.
    heard: std::sync::Mutex<Option<u64>>,
    poke: Notify,
}

/// Somebody waits, as long as this lives.
struct Waiter<'w>(&'w Wake);

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.waiters.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Wake {
    /// Something changed: those who wait here hear it now.
    pub(crate) fn tell(&self) {
        self.poke.notify_one();
    }

    fn wait(&self) -> Waiter<'_> {
        if self.waiters.fetch_add(1, Ordering::Relaxed) == 0 {
            self.poke.notify_one();
        }
        Waiter(self)
    }

    pub(crate) async fn changed(
        &self,
        inner: &Inner,
        port: Port,
        since: Mark,
        wait_ms: u64,
    ) -> Result<Mark, PortError> {
        let end = Instant::now() + Duration::from_millis(wait_ms.min(WAIT_MS_MAX));
        // Who waits is told by those who look anyway.
        if wait_ms == 0 || self.seen.borrow().failure.is_some() {
            self.look(inner).await?;
        }
        let mut seen = self.seen.subscribe();
        let _waiter = self.wait();
        loop {
            let now = seen.borrow_and_update().clone();
            let mark = Mark(now.marks[port as usize]);
            let left = end.saturating_duration_since(Instant::now());
            match now.failure {
                _ if mark != since => return Ok(mark),
                Some(failure) => return Err(failure),
                None if left.is_zero() => return Ok(mark),
                None => {}
            }
            // Nobody takes the sender away while it is borrowed; and the end of the wait is no error.
            let _heard = timeout(left, seen.changed()).await;
        }
    }

    /// Waits until jobs have ended.
    pub(crate) async fn ended(&self, inner: &Inner, since: Mark, wait_ms: u64) -> Result<Ended, PortError> {
        let end = Instant::now() + Duration::from_millis(wait_ms.min(WAIT_MS_MAX));
        self.follows.store(true, Ordering::Relaxed);
        let (mut heard, mut seen) = (inner.feed.subscribe(), self.seen.subscribe());
        self.look(inner).await?;
        let _waiter = self.wait();
        loop {
            heard.mark_unchanged();
            seen.mark_unchanged();
            if let Some(ended) = inner.feed.since(since) {
                return Ok(ended);
            }
            let failure = seen.borrow().failure.clone();
            if let Some(failure) = failure {
                return Err(failure);
            }
            if Instant::now() >= end {
                return Ok(Ended { mark: since, jobs: Vec::new(), gap: false });
            }
            tokio::select! {
                _ = heard.changed() => {}
                _ = seen.changed() => {}
                () = tokio::time::sleep_until(end) => {}
            }
        }
    }

    /// Sees how far things are now, or learns it from somebody whose look began later than this call.
    async fn look(&self, inner: &Inner) -> Result<(), PortError> {
        let asked = Instant::now();
        let mut looked = self.looked.lock().await;
        if looked.is_none_or(|began| began < asked) {
            let began = Instant::now();
            let marks = self.marks(inner).await;
            *looked = Some(began);
            self.seen.send_if_modified(|seen| {
                let now = match marks {
                    Ok(marks) => Seen { marks, failure: None },
                    Err(failure) => Seen { marks: seen.marks, failure: Some(failure) },
                };
                let differs = now.marks != seen.marks || now.failure != seen.failure;
                *seen = now;
                differs
            });
        }
        self.seen.borrow().failure.clone().map_or(Ok(()), Err)
    }

    async fn marks(&self, inner: &Inner) -> Result<[u64; Port::ALL.len()], PortError> {
        // A row costs more to send than to add up: shards one by one only when something has ended.
        let rows = inner.pool.ask("SELECT port, SUM(n) FROM change_mark GROUP BY port").await?;
        let (mut marks, mut ended) = ([0; Port::ALL.len()], 0);
        for row in &rows {
            let cells = &mut Cells::of(row);
            let (name, n): (&str, u64) = (cells.text()?, cells.parse()?);
            match Port::ALL.into_iter().find(|port| port.name() == name) {
                Some(port) => marks[port as usize] = n,
                None if name == "ended" => ended = n,
                None => {}
            }
        }
        let heard = || self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        if self.follows.load(Ordering::Relaxed) && *heard() != Some(ended) {
            let rows = inner.pool.ask("SELECT shard, n FROM change_mark WHERE port = 'ended'").await?;
            let by_shard = rows.iter().map(Cells::of).map(|mut cells| Ok((cells.parse()?, cells.parse()?)));
            inner.feed.hear(&inner.pool, &by_shard.collect::<Result<Counts, PortError>>()?).await?;
            *heard() = Some(ended);
        }
        Ok(marks)
    }
}

/// Looks for all who wait, as long as the store is open.
pub(crate) async fn looker(wake: Arc<Wake>, inner: Weak<Inner>) {
    let mut pause = LOOK;
    loop {
        match wake.waiters.load(Ordering::Relaxed) {
            0 => wake.poke.notified().await,
            _ => drop(timeout(pause, wake.poke.notified()).await),
        }
        let Some(inner) = inner.upgrade() else { return };
        if wake.waiters.load(Ordering::Relaxed) == 0 {
            continue;
        }
        let began = Instant::now();
        pause = match wake.look(&inner).await {
            Ok(()) => (began.elapsed() * LOOK_TIMES).clamp(LOOK, AWAY),
            Err(_) => AWAY,
        };
        drop(inner);
        tokio::time::sleep(DEBOUNCE).await;
    }
}
