//! A pause that gives way when somebody wants the task to stop.

use std::time::Duration;

use super::{Ended, Trouble, Yield};

pub(super) async fn run(for_ms: u64, stop: &mut Yield) -> Result<Ended, Trouble> {
    tokio::select! {
        biased;
        () = stop.wanted() => Ok(Ended::Yielded),
        () = tokio::time::sleep(Duration::from_millis(for_ms)) => Ok(Ended::Done(None)),
    }
}
