//! Wake-ups. Whoever writes something that others may be waiting for counts it in the same transaction
//! (`change_mark`) and tells the others with a NOTIFY, at most one in a while: NOTIFY takes a lock of the
//! whole server at commit. Whoever waits looks at the count after every word it hears, and now and then
//! without one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{Mutex, Notify, watch};
use tokio::time::{Instant, timeout};
use windlass_core::port::job::Ended;
use windlass_core::port::{Mark, PortError, WAIT_MS_MAX};

use crate::cell::params;
use crate::job::feed::Feed;
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
    Jobs,
    Ended,
    Triggers,
}

pub(crate) struct Wake {
    channel: String,
    target: Target,
    /// Counts what was heard, from here and from elsewhere.
    heard: watch::Sender<u64>,
    feed: Arc<Feed>,
    to_tell: Arc<Notify>,
    /// Others should look at the counts.
    changed: AtomicBool,
    listener: Mutex<Option<Connection>>,
}

impl Wake {
    pub(crate) fn new(channel: String, target: Target, feed: Arc<Feed>) -> Wake {
        let heard = watch::Sender::new(0);
        let changed = AtomicBool::new(false);
        Wake { channel, target, heard, feed, to_tell: Arc::default(), changed, listener: Mutex::new(None) }
    }

    /// Something changed: those who wait here hear it now, those elsewhere soon.
    pub(crate) fn tell(&self) {
        self.heard.send_modify(|n| *n += 1);
        self.changed.store(true, Ordering::Relaxed);
        self.to_tell.notify_one();
    }

    /// Jobs have ended, and the feed knows which: those elsewhere hear it soon.
    pub(crate) fn tell_ended(&self) {
        self.to_tell.notify_one();
    }

    /// Waits until jobs have ended. What nobody told of shows in the count.
    pub(crate) async fn ended(&self, pool: &Pool, feed: &Feed, since: Mark, wait_ms: u64) -> Result<Ended, PortError> {
        let end = Instant::now() + Duration::from_millis(wait_ms.min(WAIT_MS_MAX));
        let mut before = None;
        let mut hearing = self.hears(pool, feed).await?;
        loop {
            let mut heard = feed.subscribe();
            if let Some(ended) = feed.since(since) {
                return Ok(ended);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Ended { mark: since, jobs: Vec::new(), gap: false });
            }
            let look = if hearing { LOOK } else { LOOK_DEAF };
            if timeout(left.min(look), heard.changed()).await.is_err() {
                hearing = self.hears(pool, feed).await?;
                let count = mark(pool, Port::Ended).await?.0;
                if before.is_some() || !hearing {
                    feed.compare(count, before.filter(|_| hearing));
                }
                before = Some(count);
            }
        }
    }

    /// Whether there is a connection that listens. What came before a new one was not heard.
    async fn hears(&self, pool: &Pool, feed: &Feed) -> Result<bool, PortError> {
        let heard = self.listener.lock().await.as_ref().is_some_and(Connection::is_sound);
        let hears = self.listens().await;
        if !heard {
            feed.compare(mark(pool, Port::Ended).await?.0, None);
        }
        Ok(hears)
    }

    pub(crate) async fn changed(&self, pool: &Pool, port: Port, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        let end = Instant::now() + Duration::from_millis(wait_ms.min(WAIT_MS_MAX));
        let mut hearing = wait_ms > 0 && self.listens().await;
        loop {
            // From here on nothing is missed: what is heard before the look is in it.
            let mut heard = self.heard.subscribe();
            let mark = mark(pool, port).await?;
            let left = end.saturating_duration_since(Instant::now());
            if mark != since || left.is_zero() {
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
        match listen(&self.target, &self.channel, self.heard.clone(), Arc::clone(&self.feed)).await {
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
        let mut said = inner.feed.notices();
        if inner.wake.changed.swap(false, Ordering::Relaxed) {
            said.push(String::new());
        }
        let told = inner.pool.query(&Call::new(sql::NOTIFY, params![inner.wake.channel.clone(), said])).await;
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
        Port::Jobs => "jobs",
        Port::Ended => "ended",
        Port::Triggers => "triggers",
    };
    let rows = pool.query(&Call::new(sql::MARK, params![port])).await?;
    Ok(Mark(one(&rows)?.count()?))
}
