//! When something more will be there.

use std::collections::HashMap;

use windlass_core::id::QueueName;
use windlass_core::port::PortError;
use windlass_core::time::Ms;

use super::Claim;
use crate::cell::{Answers, one};
use crate::text::{Script, literal};

impl Claim {
    pub(in crate::job) fn ask_next(&self, script: &mut Script, now: Ms) {
        let now = literal(now);
        for queue in self.queues.iter().map(|queue| literal(queue.name.as_str())) {
            let first = |live: u8| {
                format!(
                    "(SELECT wake_at FROM async_tasks FORCE INDEX (async_tasks_wake) WHERE live = {live} AND queue = {queue} \
                     AND wake_at > {now} ORDER BY wake_at LIMIT 1)"
                )
            };
            // Somebody whose clock is ahead has found some ready; or the clock went back.
            let early = format!(
                "(SELECT MIN(r.run_at) FROM (SELECT run_at FROM async_tasks FORCE INDEX (async_tasks_live) WHERE live = 1 \
                 AND queue = {queue} LIMIT 100) r WHERE r.run_at > {now})"
            );
            script.ask(&format!("SELECT {}, {}, {early}", first(2), first(3)));
        }
    }

    pub(in crate::job) fn read_next(&self, answers: &mut Answers) -> Result<HashMap<QueueName, Ms>, PortError> {
        let mut next = HashMap::new();
        for queue in &self.queues {
            let rows = answers.next()?;
            let cells = &mut one(&rows)?;
            let times = [cells.at_or_none()?, cells.at_or_none()?, cells.at_or_none()?];
            next.extend(times.into_iter().flatten().min().map(|at| (queue.name.clone(), at)));
        }
        Ok(next)
    }
}
