//! Boundaries of many callers as one statement: while some are under way, the next gather. There is no
//! timer: a lone caller goes at once.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::oneshot;
use windlass_core::port::state::{Step, Stepped};
use windlass_core::port::{PortError, Refusal};

use super::{boundary, commit};
use crate::Inner;

/// Statements under way at a time: one is executed while another is being made durable.
const UNDER_WAY_MAX: usize = 2;

/// Steps under way at a time.
pub(super) const STEPS_AT_ONCE: usize = UNDER_WAY_MAX * boundary::STEPS_MAX;

type Answer = Result<Result<Stepped, Refusal>, PortError>;

#[derive(Default)]
pub(crate) struct Group {
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    under_way: usize,
}

struct Waiting {
    step: Step,
    answer: oneshot::Sender<Answer>,
}

impl Group {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Commits one step that fits a boundary statement, together with whoever else does.
pub(super) async fn commit(inner: &Arc<Inner>, step: Step) -> Answer {
    let (answer, answered) = oneshot::channel();
    {
        let mut queue = inner.group.queue();
        // Whoever gives its task up has waited before, when it learned that it is to; and others wait for its slot.
        match step.tasks.iter().any(|put| put.task.owner.is_none()) {
            true => queue.waiting.push_front(Waiting { step, answer }),
            false => queue.waiting.push_back(Waiting { step, answer }),
        }
        if queue.under_way < UNDER_WAY_MAX {
            queue.under_way += 1;
            tokio::spawn(carry(Arc::clone(inner)));
        }
    }
    answered.await.unwrap_or_else(|_| Err(PortError::Unavailable("the store is closed".to_owned())))
}

/// Carries batches until nobody waits.
async fn carry(inner: Arc<Inner>) {
    while let Some(batch) = next(&inner.group) {
        let steps: Vec<&Step> = batch.iter().map(|waiting| &waiting.step).collect();
        inner.batches.add(steps.len());
        let done = commit::boundaries(&inner.pool, &steps, inner.ahead_ms).await;
        match done {
            Ok(committed) => {
                if committed.wakes {
                    inner.wake.tell();
                }
                for (waiting, answer) in batch.into_iter().zip(committed.answers) {
                    // Whoever does not wait any more does not miss it.
                    let _gone = waiting.answer.send(Ok(answer));
                }
            }
            Err(error) => {
                for waiting in batch {
                    let _gone = waiting.answer.send(Err(error.clone()));
                }
            }
        }
    }
}

/// The next batch, each task and tenant once; whoever is left over waits for the one after it.
fn next(group: &Group) -> Option<Vec<Waiting>> {
    let mut queue = group.queue();
    let (mut batch, mut later) = (Vec::new(), VecDeque::new());
    let (mut tasks, mut tenants) = (HashSet::new(), HashSet::new());
    while batch.len() < boundary::STEPS_MAX {
        let Some(waiting) = queue.waiting.pop_front() else { break };
        let task = &waiting.step.tasks[0].task;
        match tasks.contains(&task.id) || tenants.contains(&task.tenant) {
            true => later.push_back(waiting),
            false => {
                tasks.insert(task.id.clone());
                tenants.insert(task.tenant.clone());
                batch.push(waiting);
            }
        }
    }
    later.append(&mut queue.waiting);
    queue.waiting = later;
    if batch.is_empty() {
        queue.under_way -= 1;
        return None;
    }
    Some(batch)
}
