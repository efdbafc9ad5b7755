//! The end of a worker.

use std::time::Duration;

use tokio::time::Instant;

use super::{Loop, back};

impl Loop {
    /// The end: what was not begun goes back at once, what runs has its time, what is not over by then goes back too.
    pub(super) async fn drain(mut self) {
        let end = Instant::now() + Duration::from_millis(self.queues.0.options.drain_ms);
        let unbegun = self.places.iter_mut().flat_map(|place| place.waiting.drain(..));
        self.settle.extend(unbegun.map(|(job, _)| back(job.id, job.fence)));
        loop {
            self.endings();
            let over = Instant::now() >= end;
            if over {
                let left = self.held();
                self.running.clear();
                self.settle.extend(left.into_iter().map(|delivery| back(delivery.job, delivery.fence)));
            }
            let beats = Instant::now() >= self.beat_at;
            if !self.settle.is_empty() || beats {
                self.turn(Vec::new(), beats).await;
                self.all_came().await;
            }
            if self.settle.is_empty() && self.running.is_empty() || over {
                return;
            }
            if !self.settle.is_empty() {
                // The store did not answer, and a moment has passed; or it asked for somebody's end.
                continue;
            }
            tokio::select! { biased;
                ending = self.endings.recv() => {
                    if let Some(ending) = ending {
                        self.ending(ending);
                    }
                }
                cancel = self.cancels.recv() => match cancel {
                    Ok(job) => self.cancel(job),
                    Err(_) => self.beat_at = Instant::now(),
                },
                () = tokio::time::sleep_until(end.min(self.beat_at)) => {}
            }
        }
    }
}
