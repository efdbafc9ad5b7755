//! Whose turn it is: tenants that have something, once around, from the one after the last that was served.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use windlass_core::id::QueueName;
use windlass_core::port::PortError;

use super::{Claim, Queue, rule};
use crate::Inner;
use crate::cell::{Answers, Cells};
use crate::text::{Script, literal};

/// Tenants that are looked at beyond those that are needed: some may be stopped.
const SPARE: usize = 8;

/// The last tenant that was served of each queue, as far as this process has.
#[derive(Default)]
pub(crate) struct Ring {
    last: Mutex<HashMap<QueueName, String>>,
}

impl Ring {
    fn last(&self) -> MutexGuard<'_, HashMap<QueueName, String>> {
        self.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(super) fn after(&self, queue: &QueueName) -> Option<String> {
        self.last().get(queue).cloned()
    }
}

/// What is still to be looked at: after a tenant, if there is one, up to another, if there is one.
pub(super) struct Walk {
    ranges: Vec<(Option<String>, Option<String>)>,
    asked: usize,
}

impl Walk {
    pub(super) fn after(last: Option<String>) -> Walk {
        let ranges = match last {
            None => vec![(None, None)],
            Some(last) => vec![(Some(last.clone()), None), (None, Some(last))],
        };
        Walk { ranges, asked: 0 }
    }
}

impl Queue {
    /// Tenants that one look asks for.
    fn page(&self) -> usize {
        self.left() + SPARE
    }

    fn looks(&self) -> bool {
        self.wants() && !self.walk.ranges.is_empty() && self.open.len() < self.left()
    }
}

impl Claim {
    /// Asks for the next tenants of every queue that needs more. Grouped by all of the index up to there, which the server answers by
    /// leaping from one to the next; DISTINCT it answers by reading every entry.
    pub(super) fn ask_tenants(&mut self, script: &mut Script) {
        for queue in self.queues.iter_mut().filter(|queue| queue.looks()) {
            queue.walk.asked = queue.walk.ranges.len();
            for (after, upto) in &queue.walk.ranges {
                let after =
                    after.as_ref().map_or_else(String::new, |after| format!("AND tenant_id > {}", literal(after)));
                let upto = upto.as_ref().map_or_else(String::new, |upto| format!("AND tenant_id <= {}", literal(upto)));
                script.ask(&format!(
                    "SELECT d.tenant_id, r.scope, r.name, r.running, r.waiting, r.held FROM (SELECT live, queue, tenant_id FROM async_tasks \
                     FORCE INDEX (async_tasks_live) WHERE live = 1 AND queue = {} {after} {upto} GROUP BY live, queue, tenant_id \
                     ORDER BY live, queue, tenant_id LIMIT {}) d \
                     LEFT JOIN job_rule r ON r.scope = 'tenant' AND r.name = d.tenant_id ORDER BY d.tenant_id",
                    literal(queue.name.as_str()),
                    queue.page()
                ));
            }
        }
    }

    /// Reads them; those that a hold or a limit stops are passed over.
    pub(super) fn read_tenants(&mut self, answers: &mut Answers) -> Result<(), PortError> {
        for nth in 0..self.queues.len() {
            let (asked, page) = (std::mem::take(&mut self.queues[nth].walk.asked), self.queues[nth].page());
            let pages = (0..asked).map(|_| answers.next()).collect::<Result<Vec<_>, _>>()?;
            for rows in pages {
                // What is beyond a range that goes on is asked for again when its turn comes.
                if self.queues[nth].walk.asked > 0 || self.queues[nth].open.len() >= self.queues[nth].left() {
                    continue;
                }
                let mut last = None;
                for row in &rows {
                    let cells = &mut Cells::of(row);
                    let tenant = cells.text()?.to_owned();
                    if cells.clone().text_or_none()?.is_some() {
                        let rule = rule::one(cells)?;
                        self.know(rule);
                    }
                    if !self.is_stopped(&tenant) {
                        self.queues[nth].open.push(tenant.clone());
                    }
                    last = Some(tenant);
                }
                let walk = &mut self.queues[nth].walk;
                match last.filter(|_| rows.len() >= page) {
                    Some(last) => {
                        walk.ranges[0].0 = Some(last);
                        walk.asked = 1;
                    }
                    None => drop(walk.ranges.remove(0)),
                }
            }
            self.queues[nth].walk.asked = 0;
        }
        Ok(())
    }

    /// Remembers who was served last.
    pub(in crate::job) fn served(&self, inner: &Inner) {
        let mut last = inner.ring.last();
        for queue in &self.queues {
            if let Some(served) = &queue.served {
                last.insert(queue.name.clone(), served.clone());
            }
        }
    }
}
