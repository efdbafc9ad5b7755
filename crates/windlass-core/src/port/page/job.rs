//! Where a page of jobs begins: what is live comes first, then each end.

use super::{bad, parts};
use crate::job::JobStatus;
use crate::port::{Cursor, PortError};
use crate::time::Ms;

/// The ends, in the order of the list.
pub const ENDS: [JobStatus; 3] = [JobStatus::Failed, JobStatus::Cancelled, JobStatus::Completed];

/// Where a page begins.
#[derive(Debug)]
pub enum Place {
    /// Among what is live.
    Live {
        /// The last one's queue.
        queue: String,
        /// Its tenant; empty is none.
        tenant: String,
        /// Its priority.
        priority: i16,
        /// Its time.
        run_at: Ms,
        /// Its number.
        seq: u64,
    },
    /// Among what has ended.
    Ended {
        /// Which of [`ENDS`].
        which: usize,
        /// When the last one ended.
        at: Ms,
        /// Its number.
        seq: u64,
    },
}

impl Place {
    /// Before everything.
    pub const FIRST: Place =
        Place::Live { queue: String::new(), tenant: String::new(), priority: i16::MAX, run_at: Ms::ZERO, seq: 0 };

    /// Before everything that ended so.
    #[must_use]
    pub fn ended(which: usize) -> Place {
        Place::Ended { which, at: Ms::MAX, seq: u64::MAX }
    }

    /// Of a cursor that this list made.
    pub fn of(cursor: Option<&Cursor>) -> Result<Place, PortError> {
        let Some(cursor) = cursor else { return Ok(Place::FIRST) };
        if let Ok([queue, tenant, priority, run_at, seq]) = parts::<5>(cursor, "live") {
            return Ok(Place::Live {
                queue: queue.to_owned(),
                tenant: tenant.to_owned(),
                priority: priority.parse().map_err(|_| bad())?,
                run_at: Ms::parse(run_at).ok_or_else(bad)?,
                seq: seq.parse().map_err(|_| bad())?,
            });
        }
        let [which, at, seq] = parts::<3>(cursor, "ended")?;
        let which = which.parse().ok().filter(|which| *which < ENDS.len()).ok_or_else(bad)?;
        let seq = seq.parse().map_err(|_| bad())?;
        Ok(Place::Ended { which, at: Ms::parse(at).ok_or_else(bad)?, seq })
    }

    /// Written out.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        Cursor(match self {
            Place::Live { queue, tenant, priority, run_at, seq } => {
                format!("live.{queue}.{tenant}.{priority}.{}.{seq}", run_at.get())
            }
            Place::Ended { which, at, seq } => format!("ended.{which}.{}.{seq}", at.get()),
        })
    }
}
