//! Calls of many callers as one transaction: while some are under way, the next gather. There is no timer: a lone caller goes
//! at once. What spoils a transaction for all is found by doing them one by one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::oneshot;
use windlass_core::port::PortError;

use crate::Inner;

/// What can be done for many at once.
pub(crate) trait Work: Send + Sync + Sized + 'static {
    /// What one caller gets.
    type Answer: Send + 'static;
    /// What a batch holds already.
    type Batch: Default + Send;
    /// Transactions under way at a time.
    const UNDER_WAY_MAX: usize;
    /// So many must wait before another begins beside one that is under way.
    const BESIDE_MIN: usize = 1;

    fn line(inner: &Inner) -> &Line<Self>;

    /// Others wait for what this one gives up.
    fn is_urgent(&self) -> bool {
        false
    }

    /// Joins a batch, unless it is full or holds something that must come first.
    fn join(&self, batch: &mut Self::Batch) -> bool;

    /// Does all of it; an answer for each, in order.
    fn run(inner: &Arc<Inner>, batch: &[Self]) -> impl Future<Output = Result<Vec<Self::Answer>, PortError>> + Send;
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
    waiting: VecDeque<(W, Reply<W>)>,
    under_way: usize,
}

type Reply<W> = oneshot::Sender<Result<<W as Work>::Answer, PortError>>;

impl<W: Work> Line<W> {
    fn queue(&self) -> MutexGuard<'_, Queue<W>> {
        self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The next batch, in order: whoever does not fit, and everybody behind, waits for the one after it.
    fn next(&self) -> Option<(Vec<W>, Vec<Reply<W>>)> {
        let mut queue = self.queue();
        if queue.under_way > 1 && queue.waiting.len() < W::BESIDE_MIN {
            queue.under_way -= 1;
            return None;
        }
        let (mut works, mut replies) = (Vec::new(), Vec::new());
        let mut batch = W::Batch::default();
        while let Some((work, reply)) = queue.waiting.pop_front() {
            // The first always fits.
            if !work.join(&mut batch) && !works.is_empty() {
                queue.waiting.push_front((work, reply));
                break;
            }
            works.push(work);
            replies.push(reply);
        }
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
            true => queue.waiting.push_front((work, reply)),
            false => queue.waiting.push_back((work, reply)),
        }
        let starts = queue.under_way == 0 || queue.under_way < W::UNDER_WAY_MAX && queue.waiting.len() >= W::BESIDE_MIN;
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
        let Some((works, replies)) = W::line(&inner).next() else { return };
        match W::run(&inner, &works).await {
            Ok(answers) => {
                for (reply, answer) in replies.into_iter().zip(answers) {
                    // Whoever does not wait any more does not miss it.
                    let _gone = reply.send(Ok(answer));
                }
            }
            Err(PortError::Invalid(_) | PortError::Corrupt(_)) if works.len() > 1 => {
                for (work, reply) in works.iter().zip(replies) {
                    let alone = W::run(&inner, std::slice::from_ref(work)).await;
                    let missing = || PortError::Corrupt("a call was not answered".to_owned());
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
