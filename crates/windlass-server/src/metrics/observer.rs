//! Durations of stages and tasks, and of the people they wait for, from the events of this instance.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use windlass_core::event::{Event, Fact};
use windlass_core::id::TaskId;
use windlass_core::task::Cause;
use windlass_core::time::Ms;
use windlass_engine::bus::News;

use super::{Metrics, count};

/// Tasks that are watched at once, at most: beyond, their durations are not measured.
const WATCHED_MAX: usize = 100_000;

/// A task that has begun.
struct Watched {
    began: Ms,
    /// Since when it waits for a person.
    waits: Option<Ms>,
    /// How long it waited before.
    waited_ms: u64,
}

/// Listens until the engine is gone.
pub(crate) async fn observe(metrics: Arc<Metrics>, mut news: Receiver<News>) {
    let mut tasks = HashMap::new();
    loop {
        match news.recv().await {
            Ok(News::Event { event, .. }) => hear(&metrics, &mut tasks, &event),
            Ok(_) => {}
            Err(RecvError::Lagged(n)) => count(&metrics.events_missed, n),
            Err(RecvError::Closed) => return,
        }
    }
}

fn hear(metrics: &Metrics, tasks: &mut HashMap<TaskId, Watched>, event: &Event) {
    let Some(task) = &event.task else { return };
    match &event.fact {
        Fact::StageCompleted { took_ms, .. } => metrics.stage.add(Duration::from_millis(*took_ms)),
        Fact::StageFailed { .. } => count(&metrics.stages_failed, 1),
        Fact::TaskStarted(_) | Fact::TaskRetryStarted(_) | Fact::TaskRollingBack(_) if tasks.len() < WATCHED_MAX => {
            tasks.insert(task.clone(), Watched { began: event.at, waits: None, waited_ms: 0 });
        }
        Fact::TaskPaused { cause: Cause::Approval | Cause::Person } => {
            if let Some(watched) = tasks.get_mut(task) {
                watched.waits = Some(event.at);
            }
        }
        Fact::Approved(_) | Fact::Rejected(_) | Fact::TaskResumed(_) => went_on(metrics, tasks.get_mut(task), event.at),
        Fact::TaskCompleted { .. }
        | Fact::TaskFailed { .. }
        | Fact::TaskCancelled { .. }
        | Fact::TaskRolledBack
        | Fact::TaskRollbackFailed { .. } => {
            went_on(metrics, tasks.get_mut(task), event.at);
            if let Some(watched) = tasks.remove(task) {
                let machine = event.at.since(watched.began).saturating_sub(watched.waited_ms);
                metrics.task.add(Duration::from_millis(machine));
            }
        }
        _ => {}
    }
}

fn went_on(metrics: &Metrics, watched: Option<&mut Watched>, at: Ms) {
    let Some(watched) = watched else { return };
    if let Some(since) = watched.waits.take() {
        let waited = at.since(since);
        watched.waited_ms += waited;
        metrics.human.add(Duration::from_millis(waited));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use windlass_engine::bus::Bus;

    use super::*;

    #[tokio::test]
    async fn what_a_slow_subscriber_missed_is_counted() {
        let (metrics, bus) = (Arc::new(Metrics::default()), Bus::default());
        let (slow, mut other) = (bus.subscribe(), bus.subscribe());
        // More than is kept for it, while nobody reads.
        let kept = 4_096;
        (0..kept + 7).for_each(|_| bus.tell(News::StoreRestored));
        assert_eq!(other.recv().await, Err(RecvError::Lagged(7)), "it is told how many");
        assert_eq!(other.recv().await, Ok(News::StoreRestored), "and goes on with the oldest that is left");
        drop(bus);
        observe(Arc::clone(&metrics), slow).await;
        assert_eq!(metrics.events_missed.load(Ordering::Relaxed), 7);
    }
}
