//! Wake-ups. Whoever writes something that others may be waiting for counts it in the same transaction
//! (`change_mark`) and tells the others with a NOTIFY, at most one in a while: NOTIFY takes a lock of the
//! whole server at commit. Whoever waits looks at the count after every word it hears, and now and then
//! without one. A count that was looked at since the last word is not looked at again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, Weak};
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

/// What was heard of each count, from here and from elsewhere.
#[derive(Default)]
pub(crate) struct Heard([OfPort; 5]);

#[derive(Default)]
struct OfPort {
    words: watch::Sender<u64>,
    /// The count as it was last looked at, after how many words, and when.
    seen: std::sync::Mutex<Option<(u64, Mark, Instant)>>,
}

impl Heard {
    fn of(&self, port: Port) -> &OfPort {
        &self.0[port as usize]
    }

    /// Something has changed; elsewhere nobody says what.
    pub(crate) fn anything(&self) {
        self.0.iter().for_each(OfPort::word);
    }
}

impl OfPort {
    fn word(&self) {
        self.words.send_modify(|n| *n += 1);
    }

    /// The count, if it was looked at after so many words and not longer ago.
    fn seen(&self, words: u64, within: Duration) -> Option<Mark> {
        let seen = *self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.filter(|(after, _, at)| *after == words && at.elapsed() < within).map(|(_, mark, _)| mark)
    }

    async fn look(&self, words: u64, pool: &Pool, port: Port) -> Result<Mark, PortError> {
        let now = Instant::now();
        let mark = mark(pool, port).await?;
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some((words, mark, now));
        Ok(mark)
    }
}

pub(crate) struct Wake {
    channel: String,
    target: Target,
    heard: Arc<Heard>,
    feed: Arc<Feed>,
    to_tell: Arc<Notify>,
    /// Others should look at the counts.
    changed: AtomicBool,
    listener: Mutex<Option<Connection>>,
}

impl Wake {
    pub(crate) fn new(channel: String, target: Target, feed: Arc<Feed>) -> Wake {
        let changed = AtomicBool::new(false);
        Wake {
            channel,
            target,
            heard: Arc::default(),
            feed,
            to_tell: Arc::default(),
            changed,
            listener: Mutex::new(None),
        }
    }

    /// Something changed: those who wait here hear it now, those elsewhere soon.
    pub(crate) fn tell(&self, port: Port) {
        self.heard.of(port).word();
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
        let heard = self.heard.of(port);
        let mut words = heard.words.subscribe();
        loop {
            // From here on nothing is missed: what is heard before the look is in it.
            let so_far = *words.borrow_and_update();
            let look = if hearing { LOOK } else { LOOK_DEAF };
            let seen = heard.seen(so_far, look).filter(|_| wait_ms > 0);
            let mark = match seen {
                Some(mark) => mark,
                None => heard.look(so_far, pool, port).await?,
            };
            let left = end.saturating_duration_since(Instant::now());
            if mark != since || left.is_zero() {
                return Ok(mark);
            }
            if timeout(left.min(look), words.changed()).await.is_err() {
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
        match listen(&self.target, &self.channel, Arc::clone(&self.heard), Arc::clone(&self.feed)).await {
            Ok(connection) => {
                *listener = Some(connection);
                // What was said before it listened was not heard.
                self.heard.anything();
            }
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
