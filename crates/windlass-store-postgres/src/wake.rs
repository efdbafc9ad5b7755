//! Wake-ups. Whoever writes something that others may be waiting for counts it in the same transaction
//! (`change_mark`) and tells the others with a NOTIFY, at most one in a while: NOTIFY takes a lock of the
//! whole server at commit. Whoever waits looks at the count after every word it hears, and now and then
//! without one. A count that was looked at since the last word is not looked at again, nor is one that came with the
//! answer of whoever counted here.

use std::sync::atomic::{AtomicU8, Ordering};
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

/// How a notification begins that names the counts that have changed. Any other is of jobs that have ended.
const CHANGED: &str = "changed";

/// Which count.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Port {
    State,
    Locks,
    Jobs,
    Ended,
    Triggers,
}

const PORTS: [Port; 5] = [Port::State, Port::Locks, Port::Jobs, Port::Ended, Port::Triggers];

impl Port {
    fn name(self) -> &'static str {
        match self {
            Port::State => "state",
            Port::Locks => "locks",
            Port::Jobs => "jobs",
            Port::Ended => "ended",
            Port::Triggers => "triggers",
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// What was heard of each count, from here and from elsewhere.
#[derive(Default)]
pub(crate) struct Heard([OfPort; 5]);

#[derive(Default)]
struct OfPort {
    words: watch::Sender<u64>,
    /// The count as it is known, after how many words, and when it was last looked at.
    seen: std::sync::Mutex<Option<(u64, Mark, Instant)>>,
}

impl Heard {
    fn of(&self, port: Port) -> &OfPort {
        &self.0[port as usize]
    }

    /// Something may have changed, and nobody said what.
    fn anything(&self) {
        self.0.iter().for_each(OfPort::word);
    }

    /// Somebody told which counts have changed. Those of this process have heard what it told itself.
    fn hear(&self, told: &str, tag: &str) {
        let mut words = told.split(' ').skip(1);
        if words.next() != Some(tag) {
            words
                .filter_map(|name| PORTS.iter().find(|port| port.name() == name))
                .for_each(|port| self.of(*port).word());
        }
    }
}

impl OfPort {
    fn word(&self) {
        self.words.send_modify(|n| *n += 1);
    }

    /// Something was counted here, up to `mark`. That is not all if as much was known before: others have counted meanwhile.
    fn counted(&self, mark: Mark) {
        self.words.send_modify(|words| {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((after, known, _)) = &mut *seen
                && *after == *words
                && *known < mark
            {
                (*after, *known) = (*words + 1, mark);
            }
            *words += 1;
        });
    }

    /// The count, if it is known after so many words and was looked at not longer ago.
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
    /// Which counts others should look at, a bit each.
    changed: AtomicU8,
    listener: Mutex<Option<Connection>>,
}

impl Wake {
    pub(crate) fn new(channel: String, target: Target, feed: Arc<Feed>) -> Wake {
        let changed = AtomicU8::new(0);
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
        self.tell_others(port);
    }

    /// Likewise, and it was counted: those who wait here need not look.
    pub(crate) fn tell_counted(&self, port: Port, mark: Mark) {
        self.heard.of(port).counted(mark);
        self.tell_others(port);
    }

    fn tell_others(&self, port: Port) {
        self.changed.fetch_or(port.bit(), Ordering::Relaxed);
        self.to_tell.notify_one();
    }

    /// What others are to be told of the counts.
    fn notice(&self) -> Option<String> {
        let changed = self.changed.swap(0, Ordering::Relaxed);
        (changed != 0).then(|| {
            let mut notice = format!("{CHANGED} {}", self.feed.tag());
            for port in PORTS.iter().filter(|port| changed & port.bit() != 0) {
                notice.push(' ');
                notice.push_str(port.name());
            }
            notice
        })
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

/// What was notified goes to whoever it is for.
pub(crate) fn hear(notice: &str, heard: &Heard, feed: &Feed) {
    if notice.starts_with(CHANGED) {
        heard.hear(notice, feed.tag());
    } else {
        feed.hear(notice);
    }
}

/// Tells those elsewhere, as long as the store is open.
pub(crate) async fn teller(to_tell: Arc<Notify>, inner: Weak<Inner>) {
    loop {
        to_tell.notified().await;
        let Some(inner) = inner.upgrade() else { return };
        let mut said = inner.feed.notices();
        said.extend(inner.wake.notice());
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
    let rows = pool.query(&Call::new(sql::MARK, params![port.name()])).await?;
    Ok(Mark(one(&rows)?.count()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(heard: &Heard, port: Port) -> Option<Mark> {
        let words = *heard.of(port).words.borrow();
        heard.of(port).seen(words, LOOK)
    }

    fn looked_at() -> Heard {
        let heard = Heard::default();
        for port in PORTS {
            *heard.of(port).seen.lock().unwrap() = Some((0, Mark(10), Instant::now()));
        }
        heard
    }

    #[test]
    fn what_was_counted_here_is_known_unless_others_have_counted_meanwhile() {
        let heard = looked_at();
        heard.of(Port::Jobs).counted(Mark(11));
        assert_eq!(known(&heard, Port::Jobs), Some(Mark(11)));
        heard.of(Port::Jobs).counted(Mark(11));
        assert_eq!(known(&heard, Port::Jobs), None, "as much was known before");
        heard.of(Port::Jobs).counted(Mark(13));
        assert_eq!(known(&heard, Port::Jobs), None, "it is looked at first");
    }

    #[test]
    fn who_is_told_of_some_counts_looks_at_those() {
        let heard = looked_at();
        let feed = Feed::new(0xc);
        hear("changed c state jobs", &heard, &feed);
        assert!(PORTS.iter().all(|port| known(&heard, *port).is_some()), "it told so itself");
        hear("changed b state jobs later", &heard, &feed);
        let forgotten: Vec<_> = PORTS.iter().filter(|port| known(&heard, **port).is_none()).collect();
        assert!(matches!(forgotten[..], [Port::State, Port::Jobs]), "{forgotten:?}");
    }
}
