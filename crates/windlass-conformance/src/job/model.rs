//! The plain in-memory model of the port for jobs: maps behind one mutex, core's rules, and every question answered
//! by walking everything. Its clock goes a millisecond ahead with every call and otherwise only where a rival is
//! opened with a clock ahead of it.
//!
//! Where the contract leaves a store a choice, the model can [follow](JobModel::follow) the store's, and says so when
//! there was no such choice.

mod claim;
mod read;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use tokio::sync::watch;
use windlass_core::fence::Fence;
use windlass_core::id::{JobId, QueueName};
use windlass_core::job::limit::{Rule, Scope};
use windlass_core::job::rules::{Asked, JobAsk};
use windlass_core::job::{Asker, Job, NewJob};
use windlass_core::port::job::{Ended, JobFilter, Jobs, QueueView, Submitted, Turn, Turned};
use windlass_core::port::{Cursor, Each, Mark, Page, PortError};
use windlass_core::time::Ms;

use crate::model::{NOW, batch, page, wait};
use claim::Ring;

/// A model with nothing in it. Its clones are rivals on the same data.
#[derive(Clone)]
pub struct JobModel {
    shared: Arc<Shared>,
    rival: usize,
}

struct Shared {
    data: Mutex<Data>,
    changed: watch::Sender<u64>,
    ended: watch::Sender<u64>,
}

/// Everything there is.
#[derive(Default)]
struct Data {
    jobs: BTreeMap<JobId, Job>,
    rules: BTreeMap<Scope, Rule>,
    workers: BTreeMap<QueueName, Ms>,
    /// Every job that ended, in order: a mark is one more than there were.
    ended: Vec<JobId>,
    seq: u64,
    fence: Fence,
    /// Calls so far.
    ticks: u64,
    /// Picks, and looks at who waits, so far.
    moment: u64,
    /// Times that lie closer together than this may have been one and the same, or not.
    slack_ms: u64,
    rivals: Vec<Rival>,
}

/// A way to the model.
#[derive(Default)]
struct Rival {
    ahead_ms: u64,
    rings: BTreeMap<QueueName, Ring>,
    /// Queues it has asked.
    asked: BTreeSet<QueueName>,
}

impl Default for JobModel {
    fn default() -> Self {
        JobModel::new(0)
    }
}

#[async_trait]
impl super::JobHarness for JobModel {
    async fn open_jobs(&self, ahead_ms: u64) -> Arc<dyn Jobs> {
        Arc::new(self.rival(ahead_ms))
    }

    /// What is in memory is all there is, and it stays.
    async fn restart(&self) {}
}

impl JobModel {
    /// A model for which times that lie closer together than `slack_ms` may have been one and the same, or not.
    #[must_use]
    pub fn new(slack_ms: u64) -> JobModel {
        let data = Data { slack_ms, rivals: vec![Rival::default()], ..Data::default() };
        let shared = Shared { data: Mutex::new(data), changed: watch::Sender::new(1), ended: watch::Sender::new(1) };
        JobModel { shared: Arc::new(shared), rival: 0 }
    }

    /// Another way to the same data.
    #[must_use]
    pub fn rival(&self, ahead_ms: u64) -> JobModel {
        let mut data = self.data();
        data.rivals.push(Rival { ahead_ms, ..Rival::default() });
        JobModel { shared: self.shared.clone(), rival: data.rivals.len() - 1 }
    }

    fn data(&self) -> MutexGuard<'_, Data> {
        self.shared.data.lock().expect("nobody panics inside the model")
    }

    /// One call that writes: its time, and the wake-ups after it.
    fn write<T>(&self, act: impl FnOnce(&mut Data, Ms) -> T) -> T {
        let mut data = self.data();
        data.ticks += 1;
        let now = data.now(self.rival);
        let answer = act(&mut data, now);
        data.look();
        self.shared.changed.send_modify(|mark| *mark += 1);
        self.shared.ended.send_replace(data.ended.len() as u64 + 1);
        answer
    }

    /// [`Jobs::turn`] as a store did it that claimed `chosen`, turn by turn; an error says why it may not have.
    pub fn follow(&self, turns: &[Turn], chosen: &[Vec<JobId>]) -> Result<Vec<Turned>, String> {
        self.write(|data, now| data.turn(turns, Some(chosen), self.rival, now))
    }
}

impl Data {
    fn now(&self, rival: usize) -> Ms {
        NOW.plus(self.rivals[rival].ahead_ms + self.ticks)
    }
}

#[async_trait]
impl Jobs for JobModel {
    async fn submit(&self, groups: &[Vec<NewJob>]) -> Each<Vec<Submitted>> {
        batch(&groups.iter().flatten().collect::<Vec<_>>())?;
        Ok(self.write(|data, now| groups.iter().map(|group| data.submit(group, now)).collect()))
    }

    async fn turn(&self, turns: &[Turn]) -> Result<Vec<Turned>, PortError> {
        turns.iter().try_for_each(Turn::check)?;
        Ok(self.write(|data, now| data.turn(turns, None, self.rival, now)).expect("its own choice is one"))
    }

    async fn ask(&self, jobs: &[JobId], ask: JobAsk, asker: &Asker) -> Each<Asked> {
        batch(jobs)?;
        Ok(self.write(|data, now| jobs.iter().map(|job| data.ask(job, ask, asker, now)).collect()))
    }

    async fn load(&self, jobs: &[JobId]) -> Result<Vec<Option<Job>>, PortError> {
        batch(jobs)?;
        let data = self.data();
        Ok(jobs.iter().map(|job| data.jobs.get(job).cloned()).collect())
    }

    async fn list(&self, filter: &JobFilter, after: Option<&Cursor>, limit: u32) -> Result<Page<Job>, PortError> {
        page(self.data().list(filter), after, limit)
    }

    async fn queues(&self, after: Option<&Cursor>, limit: u32) -> Result<Page<QueueView>, PortError> {
        let data = self.data();
        page(data.queues(data.now(self.rival)), after, limit)
    }

    async fn set_rules(&self, rules: &[Rule]) -> Result<(), PortError> {
        batch(rules)?;
        self.write(|data, _| data.set_rules(rules));
        Ok(())
    }

    async fn rules(&self, scopes: &[Scope]) -> Result<Vec<Rule>, PortError> {
        batch(scopes)?;
        let data = self.data();
        Ok(scopes.iter().filter_map(|scope| data.rules.get(scope).cloned()).collect())
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        Ok(wait(&self.shared.changed, known(&self.shared.changed, since), wait_ms).await)
    }

    async fn ended(&self, since: Mark, wait_ms: u64) -> Result<Ended, PortError> {
        let known = known(&self.shared.ended, since);
        let mark = wait(&self.shared.ended, known, wait_ms).await;
        let gap = known == Mark::default();
        let seen = if gap { mark } else { since };
        let jobs = self.data().ended[seen.0 as usize - 1..mark.0 as usize - 1].to_vec();
        Ok(Ended { mark, jobs, gap })
    }

    async fn sweep(&self, limit: u32) -> Result<u32, PortError> {
        Ok(self.write(|data, now| data.judge(None, limit as usize, now)))
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        Ok(self.write(|data, _| data.purge(before, limit)))
    }
}

/// A mark that was given, or one before all of them.
fn known(marks: &watch::Sender<u64>, since: Mark) -> Mark {
    if since.0 > *marks.borrow() { Mark::default() } else { since }
}
