//! A pause that gives way when somebody wants the task to stop.

use std::time::Duration;

use windlass_core::stage::Sleep;

use super::{Ended, Yield};

pub(super) async fn run(sleep: &Sleep, stop: &mut Yield) -> Ended {
    tokio::select! {
        biased;
        () = stop.wanted() => Ended::Yielded,
        () = tokio::time::sleep(Duration::from_millis(sleep.for_ms)) => Ended::Done(None),
    }
}
