//! Wake-ups. Whoever writes something that others may be waiting for counts it in the same transaction (`change_mark`). Who
//! waits here is told by one look at the counts for the whole process: at once after a write of its own, and every [`LOOK`] for the sake of
//! what others write, as long as anybody waits. MySQL has nothing that calls.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{Mutex, Notify, watch};
use tokio::time::{Instant, timeout};
use windlass_core::port::{Mark, PortError, WAIT_MS_MAX};

use crate::Inner;
use crate::cell::Cells;
use crate::pool::Pool;
use crate::text::Script;

/// Between two looks at what others wrote: no wake-up is later than this and the look itself.
const LOOK: Duration = Duration::from_millis(25);
/// Between two looks after writes of this process, which may be many.
const DEBOUNCE: Duration = Duration::from_millis(1);
/// Between two looks that failed.
const AWAY: Duration = Duration::from_millis(200);

/// Which count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Port {
    State,
    Locks,
}

impl Port {
    const ALL: [Port; 2] = [Port::State, Port::Locks];

    fn name(self) -> &'static str {
        match self {
            Port::State => "state",
            Port::Locks => "locks",
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

    pub(crate) async fn changed(&self, pool: &Pool, port: Port, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        let end = Instant::now() + Duration::from_millis(wait_ms.min(WAIT_MS_MAX));
        self.look(pool).await?;
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

    /// Sees how far things are now, or learns it from somebody whose look began later than this call.
    async fn look(&self, pool: &Pool) -> Result<(), PortError> {
        let asked = Instant::now();
        let mut looked = self.looked.lock().await;
        if looked.is_none_or(|began| began < asked) {
            let began = Instant::now();
            let marks = marks(pool).await;
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
}

async fn marks(pool: &Pool) -> Result<[u64; Port::ALL.len()], PortError> {
    let rows = pool.ask("SELECT port, CAST(SUM(n) AS UNSIGNED) FROM change_mark GROUP BY port").await?;
    let mut marks = [0; Port::ALL.len()];
    for row in &rows {
        let cells = &mut Cells::of(row);
        let name = cells.text()?;
        if let Some(port) = Port::ALL.into_iter().find(|port| port.name() == name) {
            marks[port as usize] = cells.parse()?;
        }
    }
    Ok(marks)
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
        pause = if wake.look(&inner.pool).await.is_ok() { LOOK } else { AWAY };
        drop(inner);
        tokio::time::sleep(DEBOUNCE).await;
    }
}
