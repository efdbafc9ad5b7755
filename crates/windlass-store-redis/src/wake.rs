//! Wake-ups. A script that changes something others may be waiting for counts it (`marks`) and says so: to whoever called
//! it with the answer, and on one channel, if anybody else listens. One connection of each process does. Whoever waits is woken by what it hears, and looks for itself now and then:
//! a connection may be dead without anybody noticing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};
use windlass_core::id::JobId;
use windlass_core::port::job::Ended;
use windlass_core::port::{Mark, PortError, WAIT_MS_MAX};

use crate::Inner;
use crate::error::said;
use crate::job::feed::Feed;
use crate::keys::Keys;
use crate::link::Link;
use crate::reply;

/// A waiter that hears nothing looks for itself.
const LOOK: Duration = Duration::from_secs(1);
/// Likewise when nobody listens.
const LOOK_DEAF: Duration = Duration::from_millis(100);
/// How long it may take until somebody listens.
const CONNECT: Duration = Duration::from_secs(10);
/// Between two attempts to listen: doubled from this …
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// … up to this.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Whose changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Port {
    State,
    Locks,
    Jobs,
    Triggers,
}

const PORTS: [(Port, &str); 4] =
    [(Port::State, "state"), (Port::Locks, "locks"), (Port::Jobs, "jobs"), (Port::Triggers, "triggers")];

pub(crate) struct Wake {
    marks: [watch::Sender<u64>; 4],
    pub(crate) feed: Feed,
    hears: AtomicBool,
    listening: Notify,
}

impl Wake {
    /// `begin` is later than every mark of a feed before; `count` jobs have ended so far.
    pub(crate) fn new(begin: u64, count: u64) -> Wake {
        Wake {
            marks: std::array::from_fn(|_| watch::Sender::new(0)),
            feed: Feed::new(begin, count),
            hears: AtomicBool::new(false),
            listening: Notify::new(),
        }
    }

    /// Until somebody listens for the first time; not for long, because it works without.
    pub(crate) async fn heard(&self) {
        drop(timeout(LOOK, self.listening.notified()).await);
    }

    fn mark(&self, port: Port) -> &watch::Sender<u64> {
        &self.marks[port as usize]
    }

    /// Waits until the port's mark is past `since`.
    pub(crate) async fn changed(
        &self,
        link: &Link,
        keys: &Keys,
        port: Port,
        since: Mark,
        wait_ms: u64,
    ) -> Result<Mark, PortError> {
        let end = Instant::now() + Duration::from_millis(wait_ms.min(WAIT_MS_MAX));
        let mut heard = self.mark(port).subscribe();
        let known = *heard.borrow_and_update();
        if known > since.0 && wait_ms > 0 {
            return Ok(Mark(known));
        }
        // What is heard is what was said since somebody listens; what was said before is looked up.
        let mut look = known == 0 || wait_ms == 0;
        loop {
            if look {
                let mark = self.look(link, keys, port).await?;
                if mark != since.0 || Instant::now() >= end {
                    return Ok(Mark(mark));
                }
            }
            let left = end.saturating_duration_since(Instant::now());
            let patience = if self.hears() { LOOK } else { LOOK_DEAF };
            match timeout(left.min(patience), heard.wait_for(|mark| *mark > since.0)).await {
                Ok(Ok(mark)) => return Ok(Mark(*mark)),
                Ok(Err(_)) | Err(_) => look = true,
            }
        }
    }

    /// The mark as the server has it.
    async fn look(&self, link: &Link, keys: &Keys, port: Port) -> Result<u64, PortError> {
        let name = PORTS.iter().find(|(known, _)| *known == port).map_or("", |(_, name)| name);
        let mark = link.ask(redis::cmd("HGET").arg(keys.one("marks")).arg(name)).await?;
        let mark = if mark == redis::Value::Nil { 0 } else { reply::number(mark)? };
        self.mark(port).send_if_modified(|known| std::mem::replace(known, mark.max(*known)) < mark);
        Ok(mark)
    }

    /// Waits until jobs have ended. What nobody was heard to say shows in the count.
    pub(crate) async fn ended(&self, link: &Link, keys: &Keys, since: Mark, wait_ms: u64) -> Result<Ended, PortError> {
        let end = Instant::now() + Duration::from_millis(wait_ms.min(WAIT_MS_MAX));
        let mut before = None;
        loop {
            let mut heard = self.feed.subscribe();
            if let Some(ended) = self.feed.since(since) {
                return Ok(ended);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Ended { mark: since, jobs: Vec::new(), gap: false });
            }
            let patience = if self.hears() { LOOK } else { LOOK_DEAF };
            if timeout(left.min(patience), heard.changed()).await.is_err() {
                let count = count(link, keys).await?;
                self.feed.compare(count, before);
                before = Some(count);
            }
        }
    }

    /// Whether somebody listens here, as far as this process knows.
    pub(crate) fn hears(&self) -> bool {
        self.hears.load(Ordering::Relaxed)
    }

    /// One word, from the channel or with an answer.
    pub(crate) fn hear(&self, said: &str) {
        if let Some((count, ids)) = ended_in(said) {
            return self.feed.hear(count, ids);
        }
        let mut words = said.split(' ');
        let (Some(port), Some(mark)) = (words.next(), words.next().and_then(|mark| mark.parse::<u64>().ok())) else {
            return;
        };
        if let Some((port, _)) = PORTS.iter().find(|(_, name)| *name == port) {
            self.mark(*port).send_if_modified(|known| std::mem::replace(known, mark.max(*known)) < mark);
        }
    }
}

/// Which jobs ended, and how many have with them.
fn ended_in(said: &str) -> Option<(u64, Vec<JobId>)> {
    let (count, ids) = said.strip_prefix("ended ")?.split_once(' ')?;
    let ids = ids.as_bytes().chunks(36).map(|id| std::str::from_utf8(id).ok()?.parse().ok());
    Some((count.parse().ok()?, ids.collect::<Option<_>>()?))
}

pub(crate) async fn count(link: &Link, keys: &Keys) -> Result<u64, PortError> {
    match link.ask(redis::cmd("HGET").arg(keys.one("marks")).arg("ended")).await? {
        redis::Value::Nil => Ok(0),
        count => reply::number(count),
    }
}

/// Listens as long as the store is open.
pub(crate) async fn listen(inner: Weak<Inner>) {
    let mut pause = PAUSE_MIN;
    loop {
        let Some(open) = inner.upgrade() else { return };
        let client = open.link.client().clone();
        let channel = open.keys.one("wake");
        drop(open);
        match subscribed(&client, &channel).await {
            Ok(mut stream) => {
                let Some(open) = inner.upgrade() else { return };
                if caught_up(&open).await.is_ok() {
                    open.wake.hears.store(true, Ordering::Relaxed);
                    open.wake.listening.notify_one();
                    pause = PAUSE_MIN;
                    drop(open);
                    while let Some(message) = stream.next().await {
                        let Some(open) = inner.upgrade() else { return };
                        if let Ok(said) = std::str::from_utf8(message.get_payload_bytes()) {
                            open.wake.hear(said);
                        }
                    }
                }
            }
            Err(error) => tracing::debug!(why = said(&error), "nobody listens"),
        }
        let Some(open) = inner.upgrade() else { return };
        open.wake.hears.store(false, Ordering::Relaxed);
        drop(open);
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

async fn subscribed(client: &redis::Client, channel: &str) -> redis::RedisResult<redis::aio::PubSubStream> {
    let listens = async {
        let mut pubsub = client.get_async_pubsub().await?;
        pubsub.subscribe(channel).await?;
        Ok(pubsub.into_on_message())
    };
    let late = || redis::RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut));
    timeout(CONNECT, listens).await.unwrap_or_else(|_| Err(late()))
}

/// What was said before somebody listened was not heard.
async fn caught_up(open: &Arc<Inner>) -> Result<(), PortError> {
    for (port, _) in PORTS {
        open.wake.look(&open.link, &open.keys, port).await?;
    }
    let count = count(&open.link, &open.keys).await?;
    open.wake.feed.compare(count, Some(count));
    Ok(())
}
