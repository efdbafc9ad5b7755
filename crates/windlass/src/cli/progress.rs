//! A bar while a command waits for a plan.

use std::time::Duration;

use windlass_core::id::PlanId;
use windlass_core::time::duration::write_ms;

use super::live::{Live, bar};
use super::plan::counts;
use super::remote::Remote;
use crate::client::view;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(300);

/// A bar that is drawn until it is ended.
pub(super) struct Bar {
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    task: tokio::task::JoinHandle<()>,
}

/// Begins to draw, if anybody sees it.
pub(super) fn follow(remote: Remote, plan: PlanId) -> Bar {
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let task = tokio::spawn(async move {
        let mut live = Live::new();
        if live.is_seen() {
            tokio::select! {
                () = draw(&remote, &plan, &mut live) => {}
                _ = stopped => {}
            }
            live.clear();
        }
    });
    Bar { stop: Some(stop), task }
}

impl Bar {
    pub(super) async fn end(mut self) {
        drop(self.stop.take());
        drop(self.task.await);
    }
}

async fn draw(remote: &Remote, plan: &PlanId, live: &mut Live) {
    let began = tokio::time::Instant::now();
    let mut first = None;
    loop {
        if let Ok(answer) = remote.client.plan(plan).await {
            let ended = answer.tally.ended();
            let since = *first.get_or_insert(ended);
            live.draw(&[line(
                &answer,
                left(
                    began.elapsed(),
                    u64::from(ended - since.min(ended)),
                    u64::from(answer.tasks - ended.min(answer.tasks)),
                ),
            )]);
        }
        tokio::time::sleep(LOOK).await;
    }
}

pub(super) fn line(plan: &view::Plan, left: Option<Duration>) -> String {
    let ended = plan.tally.ended();
    let left = left.map(|left| format!(", about {} left", written(left))).unwrap_or_default();
    let bar = bar(u64::from(ended), u64::from(plan.tasks), 30);
    format!("{bar} {ended}/{} tasks ({}){left}", plan.tasks, counts(&plan.tally))
}

/// The time left, if things go on as they went; nothing while too little was seen.
pub(super) fn left(took: Duration, done: u64, left: u64) -> Option<Duration> {
    let each = took.checked_div(u32::try_from(done).ok().filter(|done| *done > 0)?)?;
    Some(each.saturating_mul(u32::try_from(left).ok()?)).filter(|left| !left.is_zero())
}

/// Whole seconds are enough.
pub(super) fn written(time: Duration) -> String {
    write_ms(time.as_secs().max(1) * 1_000)
}
