//! The writer without its thread: every caller runs what waits before it looks for its answer. So a whole
//! system can be run in one thread, in an order that a seed decides, on the same rules.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::clock::Clock;
use crate::kv::Kv;
use crate::writer::{Loop, Work, Writer, lock};

/// What the thread would own.
pub(crate) struct Inline {
    turn: Loop,
    work: mpsc::Receiver<Work>,
}

impl Writer {
    pub(crate) fn inline(kv: Arc<dyn Kv>, clock: Clock, seq: u64) -> Writer {
        let (writer, turn, work) = Writer::idle(kv, clock, seq);
        *lock(&writer.inline) = Some(Inline { turn, work });
        writer
    }

    /// Runs what waits; nothing if a thread does.
    pub(crate) fn run_inline(&self) {
        let mut inline = lock(&self.inline);
        let Some(Inline { turn, work }) = &mut *inline else { return };
        while let Ok(first) = work.try_recv() {
            if turn.turn(first, work).is_err() {
                // As the thread would end: nobody's further work is taken.
                *inline = None;
                return;
            }
        }
    }
}
