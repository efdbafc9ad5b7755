//! Claims: what is delivered again first, then tenants take turns. Rows are locked with SKIP LOCKED, so that two that claim at the
//! same time do not wait for each other; whoever counts what a limit is about does so alone.

mod next;
mod ring;
mod room;
mod round;

use std::collections::HashMap;

use windlass_core::id::QueueName;
use windlass_core::job::limit::{Rule, Scope, of_tenant};
use windlass_core::job::locked::Locked;
use windlass_core::job::rules::{Expired, expire};
use windlass_core::job::{Job, JobStatus};
use windlass_core::port::PortError;
use windlass_core::port::job::Turn;
use windlass_core::time::Ms;

use super::{row, rule};
use crate::Inner;
use crate::cell::{Answers, Cells, one};
use crate::error::Failure;
use crate::pool::Lent;
use crate::text::{Script, list, literal};

pub(crate) use ring::Ring;
use ring::Walk;

/// Expired leases that one transaction looks at, at most.
const EXPIRED_MAX: usize = 1_000;
/// Jobs whose time has come that one transaction makes ready, at most.
const DUE_MAX: usize = 5_000;

/// What some turns want, and what they get.
pub(super) struct Claim {
    pub(super) queues: Vec<Queue>,
    rules: Vec<Rule>,
    /// Something is bounded somewhere: an end may make room.
    pub(super) bounded: bool,
    /// Some tenant has a rule of its own.
    tenant_rules: bool,
    /// How many run of each tenant, if some tenant is limited.
    running: HashMap<String, u64>,
    /// Rules of tenants, as far as they were looked at.
    own: HashMap<String, Rule>,
    /// Something has run out.
    pub(super) ran_out: bool,
    /// What is delivered again.
    again: Vec<Job>,
    /// What has waited for its time, by its number.
    due: Vec<u64>,
}

/// What is wanted of one queue.
pub(super) struct Queue {
    pub(super) name: QueueName,
    /// The longest lease of those who ask.
    pub(super) lease_ms: u64,
    /// The turn that gets the next job, and so on.
    slots: Vec<usize>,
    jobs: Vec<Job>,
    held: bool,
    /// How many more may begin.
    room: u64,
    walk: Walk,
    /// Tenants that may have more.
    open: Vec<String>,
    /// The last that was served.
    served: Option<String>,
}

impl Queue {
    fn left(&self) -> usize {
        self.slots.len() - self.jobs.len()
    }

    /// Jobs with the turns that get them.
    pub(super) fn given(&self) -> impl Iterator<Item = (usize, &Job)> {
        self.slots.iter().copied().zip(&self.jobs)
    }
}

impl Claim {
    pub(super) fn of(turns: &[&Turn], inner: &Inner) -> Claim {
        let mut queues: Vec<Queue> = Vec::new();
        let mut places: HashMap<&QueueName, usize> = HashMap::new();
        for (n, turn) in turns.iter().enumerate() {
            for (name, wanted) in &turn.want {
                let place = *places.entry(name).or_insert_with(|| {
                    queues.push(Queue {
                        name: name.clone(),
                        lease_ms: 0,
                        slots: Vec::new(),
                        jobs: Vec::new(),
                        held: false,
                        room: u64::MAX,
                        walk: Walk::after(inner.ring.after(name)),
                        open: Vec::new(),
                        served: None,
                    });
                    queues.len() - 1
                });
                queues[place].slots.extend(std::iter::repeat_n(n, *wanted as usize));
                queues[place].lease_ms = queues[place].lease_ms.max(turn.lease_ms);
            }
        }
        Claim {
            queues,
            rules: Vec::new(),
            bounded: false,
            tenant_rules: false,
            running: HashMap::new(),
            own: HashMap::new(),
            ran_out: false,
            again: Vec::new(),
            due: Vec::new(),
        }
    }

    /// Asks what holds of the queues, whether something ran out in them, and whose turn it is. All of it without locks, and before
    /// this transaction writes: the server passes over entries that are gone quickly only where nobody who reads has written.
    pub(super) fn ask(&mut self, script: &mut Script, now: &str) {
        script.ask(
            "SELECT EXISTS (SELECT 1 FROM job_rule WHERE running IS NOT NULL), EXISTS (SELECT 1 FROM job_rule WHERE scope = 'tenant')",
        );
        if self.queues.is_empty() {
            return;
        }
        let scopes: Vec<Scope> = self.queues.iter().map(|queue| Scope::Queue(queue.name.clone())).collect();
        rule::ask(script, scopes.iter().chain([&Scope::EachTenant]), "TRUE");
        let out = |live| format!("EXISTS (SELECT 1 {})", self.out(live, now));
        script.ask(&format!("SELECT {} OR {}", out(3), out(2)));
        self.ask_tenants(script);
    }

    /// What ran out: leases, or the time that jobs wait for.
    fn out(&self, live: u8, now: &str) -> String {
        let queues = list(self.queues.iter().map(|queue| queue.name.as_str()));
        format!(
            "FROM async_tasks t FORCE INDEX (async_tasks_wake) WHERE t.live = {live} AND t.queue IN ({queues}) AND t.wake_at <= {now}"
        )
    }

    /// Reads it.
    pub(super) fn read(&mut self, answers: &mut Answers) -> Result<(), PortError> {
        let flags = answers.next()?;
        let cells = &mut one(&flags)?;
        (self.bounded, self.tenant_rules) = (cells.flag()?, cells.flag()?);
        if self.queues.is_empty() {
            return Ok(());
        }
        self.rules = rule::read(&answers.next()?)?;
        for queue in &mut self.queues {
            let own = self.rules.iter().find(|rule| matches!(&rule.scope, Scope::Queue(name) if *name == queue.name));
            queue.held = own.is_some_and(|rule| rule.held.is_some());
        }
        self.ran_out = one(&answers.next()?)?.flag()?;
        self.read_tenants(answers)
    }

    /// Locks what ran out, without waiting: the end of a range would be somebody else's. Answers whose lease it was.
    pub(super) async fn lock_out(&mut self, tx: &mut Lent<'_>, now: Ms) -> Result<Vec<Job>, Failure> {
        if !self.ran_out {
            return Ok(Vec::new());
        }
        let now = literal(now);
        let mut script = Script::default();
        for (columns, live, most) in [(row::JOB, 3, EXPIRED_MAX), ("t.seq", 2, DUE_MAX)] {
            script.ask(&format!("SELECT {columns} {} LIMIT {most} FOR UPDATE SKIP LOCKED", self.out(live, &now)));
        }
        let mut answers = tx.run(&script).await?;
        let expired = answers.next()?.iter().map(|row| row::job(&mut Cells::of(row))).collect::<Result<_, _>>()?;
        self.due = answers.next()?.iter().map(|row| Cells::of(row).parse()).collect::<Result<_, _>>()?;
        Ok(expired)
    }

    fn queue_limit(&self, queue: &QueueName) -> Option<u32> {
        let own = self.rules.iter().find(|rule| matches!(&rule.scope, Scope::Queue(name) if name == queue));
        own.and_then(|rule| rule.limits.running)
    }

    fn each(&self) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.scope == Scope::EachTenant)
    }

    /// Ends what ran out and is not delivered again; what is, is remembered.
    pub(super) fn judge_expired(&mut self, locked: &mut Locked) {
        let now = locked.now();
        for queue in self.queues.iter().filter(|queue| !queue.held) {
            let out =
                |job: &&Job| job.status == JobStatus::Running && job.lease_until <= now && job.queue == queue.name;
            let over: Vec<Job> = locked.all().filter(out).cloned().collect();
            for job in over {
                match expire(job, now) {
                    Expired::Settled(job) => locked.put(job),
                    Expired::Again(job) => self.again.push(job),
                }
            }
        }
    }

    /// Claims after `script` was sent, which may have changed whose turn it is and what a limit leaves.
    pub(super) async fn run_after(
        &mut self,
        tx: &mut Lent<'_>,
        mut script: Script,
        inner: &Inner,
        now: Ms,
    ) -> Result<(), Failure> {
        if !self.queues.iter().any(Queue::wants) {
            tx.run(&script).await?;
            return Ok(());
        }
        for queue in &mut self.queues {
            (queue.walk, queue.open) = (Walk::after(inner.ring.after(&queue.name)), Vec::new());
        }
        let tenants: Vec<Scope> = self.again.iter().filter_map(|job| job.tenant.clone()).map(Scope::Tenant).collect();
        rule::ask(&mut script, &tenants, "TRUE");
        // What has waited for its time and need not any longer.
        if !self.due.is_empty() {
            script.say(&format!(
                "UPDATE async_tasks FORCE INDEX (PRIMARY) SET live = 1, wake_at = NULL WHERE seq IN ({})",
                list(&self.due)
            ));
        }
        self.ask_running(&mut script);
        self.ask_tenants(&mut script);
        let mut answers = tx.run(&script).await?;
        for rule in rule::read(&answers.next()?)? {
            self.know(rule);
        }
        self.read_running(&mut answers)?;
        self.deliver_again();
        self.read_tenants(&mut answers)?;
        self.run(tx, now).await
    }

    /// Claims.
    pub(super) async fn run(&mut self, tx: &mut Lent<'_>, now: Ms) -> Result<(), Failure> {
        loop {
            self.count_alone(tx).await?;
            self.take_turns(tx, now).await?;
            // Those who had something may have had nothing for us: then it is the turn of the next.
            let mut script = Script::default();
            self.ask_tenants(&mut script);
            if script.trips().is_empty() {
                return Ok(());
            }
            let mut answers = tx.run(&script).await?;
            self.read_tenants(&mut answers)?;
        }
    }

    fn know(&mut self, rule: Rule) {
        if let Scope::Tenant(tenant) = &rule.scope {
            self.own.insert(tenant.to_string(), rule);
        }
    }

    /// Whether a tenant is held, and how many of it may run at once.
    fn stands(&self, tenant: &str) -> (bool, Option<u32>) {
        if tenant.is_empty() {
            return (false, None);
        }
        let (limits, held) = of_tenant(self.own.get(tenant), self.each());
        (held, limits.running)
    }

    /// What is delivered again has its slot already, so no limit stops it.
    fn deliver_again(&mut self) {
        for job in std::mem::take(&mut self.again) {
            let held = job.tenant.as_ref().is_some_and(|tenant| self.stands(tenant.as_str()).0);
            let queue = self.queues.iter_mut().find(|queue| queue.name == job.queue);
            if let Some(queue) = queue.filter(|queue| !held && queue.wants()) {
                queue.jobs.push(job);
            }
        }
    }
}

impl Queue {
    /// Something may still be claimed from it.
    fn wants(&self) -> bool {
        !self.held && self.left() > 0
    }
}
