//! What a caller can do for the writer before it hands over an owner's step: the text of the task, the
//! checkpoint and the events. The one writer is what everybody waits for; callers have their own cores.

use serde_json::value::{RawValue, to_raw_value};
use windlass_core::checkpoint::Checkpoint;
use windlass_core::event::Event;
use windlass_core::id::TaskId;
use windlass_core::json::Json;
use windlass_core::port::state::{CheckpointPut, Step, Writer};

use super::history::Brief;
use crate::kv::{KvError, Value};
use crate::record;

/// A step with as much of it encoded as can be without knowing what is stored.
pub(super) struct Prepared {
    pub(super) step: Step,
    pub(super) texts: Texts,
}

/// Each is made by the writer itself where it is missing.
#[derive(Default)]
pub(super) struct Texts {
    pub(super) task: Option<Box<RawValue>>,
    pub(super) events: Option<Box<RawValue>>,
    pub(super) checkpoint: Option<Saved>,
}

/// A checkpoint as it is stored: beside its task, or apart if it is large.
pub(super) enum Saved {
    Beside(Json),
    Apart(Value),
}

/// Beside its task, at most.
const BESIDE_BYTES_MAX: usize = 4 * 1024;

impl Saved {
    pub(super) fn of(checkpoint: &Checkpoint) -> Result<Saved, KvError> {
        let json = Json::of(checkpoint).map_err(|error| KvError::Corrupt(error.to_string()))?;
        match json.as_str().len() {
            0..=BESIDE_BYTES_MAX => Ok(Saved::Beside(json)),
            _ => Ok(Saved::Apart(record::encode(checkpoint)?)),
        }
    }
}

impl Prepared {
    pub(super) fn new(step: Step) -> Prepared {
        let texts = match (&step.by, &step.tasks[..]) {
            (Writer::Owner { .. }, [put]) => Texts {
                task: to_raw_value(&put.task).ok(),
                events: events_text(&step.events, &put.task.id),
                checkpoint: match &step.checkpoint {
                    CheckpointPut::Put(checkpoint) => Saved::of(checkpoint).ok(),
                    _ => None,
                },
            },
            _ => Texts::default(),
        };
        Prepared { step, texts }
    }
}

/// The text of the events, if all are about this task.
fn events_text(events: &[Event], task: &TaskId) -> Option<Box<RawValue>> {
    let about_it = events.iter().all(|event| event.task.as_ref() == Some(task));
    let brief: Vec<_> = events.iter().map(Brief::from).collect();
    to_raw_value(&brief).ok().filter(|_| about_it)
}
