//! Wake-ups. Whoever writes something that others may be waiting for counts it in the same transaction
//! (`change_mark`) and tells the others with a NOTIFY, at most one in a while: NOTIFY takes a lock of the
//! whole server at commit. Whoever waits looks at the count after every word it hears, and now and then
//! without one.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{Mutex, Notify, watch};
use tokio::time::{Instant, timeout};
use windlass_core::port::{Mark, PortError, WAIT_MS_MAX};

use crate::cell::params;
use crate::pool::{Call, Connection, Pool, listen};
use crate::state::one;
use crate::tls::Target;
use crate::{Inner, sql};

/// Between two notifications of one process.
const DEBOUNCE: Duration = Duration::from_millis(10);
/// A waiter that hears nothing looks for itself: its listener may be gone, or the writer died before it told.
const LOOK: Duration = Duration::from_secs(1);
/// Likewise when there is no listener.
const LOOK_DEAF: Duration = Duration::from_millis(100);

/// Which count.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Port {
    State,
    Locks,
}

pub(crate) struct Wake {
    channel: String,
    target: Target,
    /// Counts what was heard, from here and from elsewhere.
    heard: watch::Sender<u64>,
    to_tell: Arc<Notify>,
    listener: Mutex<Option<Connection>>,
}

impl Wake {
    pub(crate) fn new(channel: String, target: Target) -> Wake {
        let heard = watch::Sender::new(0);
        Wake { channel, target, heard, to_tell: Arc::default(), listener: Mutex::new(None) }
    }

    /// Something changed: those who wait here hear it now, those elsewhere soon.
    pub(crate) fn tell(&self) {
        self.heard.send_modify(|n| *n += 1);
        self.to_tell.notify_one();
    }

    pub(crate) async fn changed(&self, pool: &Pool, port: Port, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        let end = Instant::now() + Duration::from_millis(wait_ms.min(WAIT_MS_MAX));
        let mut hearing = wait_ms > 0 && self.listens().await;
        loop {
            // From here on nothing is missed: what is heard before the look is in it.
            let mut heard = self.heard.subscribe();
            let mark = mark(pool, port).await?;
            let left = end.saturating_duration_since(Instant::now());
            if mark > since || left.is_zero() {
                return Ok(mark);
            }
            let look = if hearing { LOOK } else { LOOK_DEAF };
            if timeout(left.min(look), heard.changed()).await.is_err() {
                hearing = self.listens().await;
            }
        }
    }

    /// Whether there is a connection that listens; makes one if it can.
    async fn listens(&self) -> bool {
        let mut listener = self.listener.lock().await;
        if listener.as_ref().is_some_and(Connection::is_sound) {
            return true;
        }
        match listen(&self.target, &self.channel, self.heard.clone()).await {
            Ok(connection) => *listener = Some(connection),
            Err(why) => {
                tracing::debug!(why, "no listener");
                *listener = None;
            }
        }
        listener.is_some()
    }

    pub(crate) async fn close(&self) {
        *self.listener.lock().await = None;
    }
}

/// Tells those elsewhere, as long as the store is open.
pub(crate) async fn teller(to_tell: Arc<Notify>, inner: Weak<Inner>) {
    loop {
        to_tell.notified().await;
        let Some(inner) = inner.upgrade() else { return };
        let told = inner.pool.query(&Call::new(sql::NOTIFY, params![inner.wake.channel.clone()])).await;
        if let Err(error) = told {
            tracing::debug!(%error, "nobody was told; they look for themselves");
        }
        drop(inner);
        tokio::time::sleep(DEBOUNCE).await;
    }
}

impl Wake {
    pub(crate) fn to_tell(&self) -> Arc<Notify> {
        Arc::clone(&self.to_tell)
    }
}

async fn mark(pool: &Pool, port: Port) -> Result<Mark, PortError> {
    let port = match port {
        Port::State => "state",
        Port::Locks => "locks",
    };
    let rows = pool.query(&Call::new(sql::MARK, params![port])).await?;
    Ok(Mark(one(&rows)?.count()?))
}
