//! Calls of many callers as one statement: while some are under way, the next gather. There is no timer:
//! a lone caller goes at once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::oneshot;
use windlass_core::port::PortError;

use crate::Inner;

/// Statements under way at a time: one is executed while another is being made durable.
pub(crate) const UNDER_WAY_MAX: usize = 2;

/// What can be done for many at once.
pub(crate) trait Work: Send + Sized + 'static {
    /// Whether it counts among what is written together.
    const WRITES: bool = true;
    /// Of what cannot be read only whoever asked for it hears: each of a batch is done alone then. Such work leaves its batch as it is.
    const SPLITS: bool = false;
    /// How many are under way at a time.
    const AT_ONCE: usize = UNDER_WAY_MAX;
    /// So many must wait before another statement begins beside one that is under way.
    const BESIDE_MIN: usize = 1;
    /// What one caller gets.
    type Answer: Send + 'static;
    /// What a batch holds already.
    type Batch: Default + Send;

    fn line(inner: &Inner) -> &Line<Self>;

    /// Joins a batch, unless it is full or holds something that must come first.
    fn join(&self, batch: &mut Self::Batch) -> bool;

    /// Whether it goes before whoever waits.
    fn is_urgent(&self) -> bool {
        false
    }

    /// Does all of it; an answer for each, in order.
    fn run(
        inner: &Arc<Inner>,
        batch: &mut Vec<Self>,
    ) -> impl Future<Output = Result<Vec<Self::Answer>, PortError>> + Send;
}

pub(crate) struct Line<W: Work> {
    queue: Mutex<Queue<W>>,
}

impl<W: Work> Default for Line<W> {
    fn default() -> Self {
        Line { queue: Mutex::new(Queue { waiting: VecDeque::new(), under_way: 0 }) }
    }
}

struct Queue<W: Work> {
    waiting: VecDeque<Waiting<W>>,
    under_way: usize,
}

type Reply<W> = oneshot::Sender<Result<<W as Work>::Answer, PortError>>;

struct Waiting<W: Work> {
    work: W,
    reply: Reply<W>,
}

impl<W: Work> Line<W> {
    fn queue(&self) -> MutexGuard<'_, Queue<W>> {
        self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The next batch; whoever does not fit waits for the one after it.
    fn next(&self) -> Option<(Vec<W>, Vec<Reply<W>>)> {
        let mut queue = self.queue();
        if queue.under_way > 1 && queue.waiting.len() < W::BESIDE_MIN {
            queue.under_way -= 1;
            return None;
        }
        let (mut works, mut replies, mut later) = (Vec::new(), Vec::new(), VecDeque::new());
        let mut batch = W::Batch::default();
        while let Some(waiting) = queue.waiting.pop_front() {
            // The first always fits.
            if waiting.work.join(&mut batch) || works.is_empty() {
                works.push(waiting.work);
                replies.push(waiting.reply);
            } else {
                later.push_back(waiting);
            }
        }
        queue.waiting = later;
        if works.is_empty() {
            queue.under_way -= 1;
            return None;
        }
        Some((works, replies))
    }
}

/// Does `work` together with whoever else is there.
pub(crate) async fn carry<W: Work>(inner: &Arc<Inner>, work: W) -> Result<W::Answer, PortError> {
    let (reply, replied) = oneshot::channel();
    let starts = {
        let mut queue = W::line(inner).queue();
        match work.is_urgent() {
            true => queue.waiting.push_front(Waiting { work, reply }),
            false => queue.waiting.push_back(Waiting { work, reply }),
        }
        let starts = queue.under_way == 0 || queue.under_way < W::AT_ONCE && queue.waiting.len() >= W::BESIDE_MIN;
        queue.under_way += usize::from(starts);
        starts
    };
    if starts {
        tokio::spawn(carrier::<W>(Arc::clone(inner)));
    }
    replied.await.unwrap_or_else(|_| Err(PortError::Unavailable("the store is closed".to_owned())))
}

/// Carries batches until nobody waits.
async fn carrier<W: Work>(inner: Arc<Inner>) {
    loop {
        // Whoever was answered just now asks again at once: one by one they would go out alone.
        tokio::task::yield_now().await;
        let Some((mut works, replies)) = W::line(&inner).next() else { return };
        if W::WRITES {
            inner.batches.add(works.len());
        }
        match W::run(&inner, &mut works).await {
            Ok(answers) => {
                for (reply, answer) in replies.into_iter().zip(answers) {
                    // Whoever does not wait any more does not miss it.
                    let _gone = reply.send(Ok(answer));
                }
            }
            Err(PortError::Corrupt(_)) if W::SPLITS && works.len() > 1 => {
                for (work, reply) in works.into_iter().zip(replies) {
                    let missing = || PortError::Corrupt("a call was not answered".to_owned());
                    let alone = W::run(&inner, &mut vec![work]).await;
                    let _gone = reply.send(alone.and_then(|mut answers| answers.pop().ok_or_else(missing)));
                }
            }
            Err(error) => {
                for reply in replies {
                    let _gone = reply.send(Err(error.clone()));
                }
            }
        }
    }
}
