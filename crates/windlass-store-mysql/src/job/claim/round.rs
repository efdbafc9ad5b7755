//! Rounds: each tenant gets its share; what some leave is shared by those who have more.

use std::collections::HashMap;

use windlass_core::job::Job;
use windlass_core::time::Ms;

use super::{Claim, Queue, row};
use crate::cell::Cells;
use crate::error::Failure;
use crate::pool::Lent;
use crate::text::{Script, list, literal};

/// Some of a tenant's jobs that a queue asked for.
struct Share {
    queue: usize,
    tenant: String,
    limit: u64,
}

impl Queue {
    /// Those of a tenant that were taken in a round before still look as they did, and one's own locks are not passed over.
    fn but_what_it_has(&self, tenant: &str) -> String {
        let taken = self.jobs.iter().filter(|job| row::tenant_text(job.tenant.as_ref()) == tenant).map(|job| job.seq);
        let taken: Vec<u64> = taken.collect();
        if taken.is_empty() { String::new() } else { format!("AND t.seq NOT IN ({})", list(taken)) }
    }

    fn goal(&self) -> u64 {
        if self.wants() { (self.left() as u64).min(self.room) } else { 0 }
    }
}

impl Claim {
    pub(super) async fn take_turns(&mut self, tx: &mut Lent<'_>, now: Ms) -> Result<(), Failure> {
        // What a limited tenant may still get, of all queues together.
        let mut rooms: HashMap<String, u64> = HashMap::new();
        for tenant in self.queues.iter().flat_map(|queue| &queue.open) {
            if let Some(room) = self.room(tenant) {
                rooms.insert(tenant.clone(), room);
            }
        }
        loop {
            let mut script = Script::default();
            let shares = self.shares(&mut rooms, &mut script, now);
            if shares.is_empty() {
                return Ok(());
            }
            let mut answers = tx.run(&script).await?;
            let mut got: Vec<Vec<(String, Vec<Job>)>> = self.queues.iter().map(|_| Vec::new()).collect();
            for Share { queue, tenant, limit } in shares {
                let rows = answers.next()?;
                let jobs = rows.iter().map(|job| row::job(&mut Cells::of(job))).collect::<Result<Vec<_>, _>>()?;
                if (jobs.len() as u64) < limit {
                    self.queues[queue].open.retain(|open| *open != tenant);
                }
                if let Some(room) = rooms.get_mut(&tenant) {
                    *room += limit - jobs.len() as u64;
                }
                got[queue].push((tenant, jobs));
            }
            for (queue, got) in self.queues.iter_mut().zip(got) {
                for (tenant, unused) in queue.deal(got) {
                    if let Some(room) = rooms.get_mut(&tenant) {
                        *room += unused;
                    }
                }
            }
        }
    }

    /// Asks for the next shares. What is asked for is taken from its tenant's room until it is known.
    fn shares(&self, rooms: &mut HashMap<String, u64>, script: &mut Script, now: Ms) -> Vec<Share> {
        let mut shares = Vec::new();
        for (nth, queue) in self.queues.iter().enumerate().filter(|(_, queue)| queue.goal() > 0) {
            let share = queue.goal().div_ceil(queue.open.len().max(1) as u64);
            for tenant in &queue.open {
                let room = rooms.get_mut(tenant);
                let limit = room.as_ref().map_or(share, |room| share.min(**room));
                if limit == 0 {
                    continue;
                }
                if let Some(room) = room {
                    *room -= limit;
                }
                script.ask(&format!(
                    "SELECT {} FROM async_tasks t FORCE INDEX (async_tasks_live) WHERE t.live = 1 AND t.queue = {} AND t.tenant_id = {} \
                     AND t.run_at <= {} {} ORDER BY t.`rank`, t.run_at, t.seq LIMIT {limit} FOR UPDATE SKIP LOCKED",
                    row::JOB,
                    literal(queue.name.as_str()),
                    literal(tenant),
                    literal(now),
                    queue.but_what_it_has(tenant)
                ));
                shares.push(Share { queue: nth, tenant: tenant.clone(), limit });
            }
        }
        shares
    }
}

impl Queue {
    /// Takes jobs in turn, no more than are wanted; answers how many were not, of whom.
    fn deal(&mut self, got: Vec<(String, Vec<Job>)>) -> Vec<(String, u64)> {
        let mut goal = self.goal();
        let mut hands: Vec<(String, std::vec::IntoIter<Job>)> =
            got.into_iter().map(|(tenant, jobs)| (tenant, jobs.into_iter())).collect();
        let mut moved = true;
        while moved && goal > 0 {
            moved = false;
            for (tenant, jobs) in &mut hands {
                if goal == 0 {
                    break;
                }
                if let Some(job) = jobs.next() {
                    self.jobs.push(job);
                    self.served = Some(tenant.clone());
                    self.room = self.room.saturating_sub(1);
                    (goal, moved) = (goal - 1, true);
                }
            }
        }
        hands.into_iter().map(|(tenant, jobs)| (tenant, jobs.len() as u64)).collect()
    }
}
