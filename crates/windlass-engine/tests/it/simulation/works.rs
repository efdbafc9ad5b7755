//! Jobs and triggers as [`Truth`] sees them: who got what under which fence, what was taken from whom, and what every
//! occurrence made.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::unconstrained;
use tokio::time::{Instant, timeout_at};
use windlass_core::fence::Fence;
use windlass_core::id::{InstanceId, JobId, TriggerId};
use windlass_core::job::limit::{Rule, Scope};
use windlass_core::job::rules::{Asked, JobAsk, Outcome};
use windlass_core::job::{Asker, Job, JobStatus, NewJob};
use windlass_core::port::job::{Ended, JobFilter, Jobs, QueueView, Submitted, Turn, Turned};
use windlass_core::port::trigger::{Claim, Due, Save, TriggerFilter, Triggers};
use windlass_core::port::{Cursor, Each, Mark, Page, PortError, Refusal};
use windlass_core::time::Ms;
use windlass_core::trigger::{Note, Trigger, rules};

use super::truth::Facts;
use super::witness::{Port, Witness};

/// What was seen of jobs and triggers.
#[derive(Default)]
pub(super) struct Works {
    pub(super) jobs: BTreeMap<JobId, JobSeen>,
    /// Fences of the newest claims.
    triggers: BTreeMap<TriggerId, Fence>,
    /// How many jobs each occurrence made.
    made: BTreeMap<String, u32>,
}

impl Works {
    /// Jobs that the occurrences of a trigger made.
    pub(super) fn made_by(&self, trigger: &TriggerId) -> usize {
        self.made.keys().filter(|key| key.rsplit_once('@').is_some_and(|(id, _)| id == trigger.as_str())).count()
    }
}

#[derive(Default)]
pub(super) struct JobSeen {
    /// Of the newest delivery.
    fence: Fence,
    ended: bool,
    /// The highest that the target has seen.
    target: Fence,
}

impl Facts {
    fn submitted(&mut self, job: &NewJob, submitted: &Submitted) {
        self.works.jobs.entry(submitted.id).or_default();
        self.note(format_args!("job {} is {submitted:?} with {:?}", job.id, job.key));
        let Some(key) = job.key.as_ref().filter(|key| key.contains('@')) else { return };
        if submitted.existing {
            return self.count("an occurrence met the job it had made");
        }
        self.count("an occurrence made a job");
        let made = self.works.made.entry(key.clone()).or_default();
        *made += 1;
        if *made > 1 {
            self.wrong(format_args!("{key} made more than one job"));
        }
    }

    /// A worker did something at the target; `false` if the target has seen a later delivery.
    pub(super) fn job_effect(&mut self, job: JobId, fence: Fence) -> bool {
        let seen = self.works.jobs.entry(job).or_default();
        let newest = seen.target.max(fence);
        let taken = newest == fence;
        seen.target = newest;
        self.note(format_args!("target is told of job {job} under {fence}: {taken}"));
        taken
    }

    fn turned(&mut self, from: &InstanceId, turn: &Turn, turned: &Turned) {
        for ((delivery, outcome), answer) in turn.settle.iter().zip(&turned.settled) {
            let seen = self.works.jobs.entry(delivery.job).or_default();
            let (newest, ended) = (seen.fence, seen.ended);
            self.note(format_args!("{from} settles {} under {}: {answer:?}", delivery.job, delivery.fence));
            match answer {
                Ok(_) if delivery.fence != newest => {
                    let (job, fence) = (delivery.job, delivery.fence);
                    self.wrong(format_args!("an answer of job {job} under {fence} was taken after {newest}"));
                }
                Ok(status) => {
                    self.count(match (status, outcome) {
                        (JobStatus::Completed, _) => "a job was completed",
                        (JobStatus::Failed, _) => "a job failed",
                        (_, Outcome::Released) => "a job was handed back",
                        _ => "a job waits for its next attempt",
                    });
                    if let Some(seen) = self.works.jobs.get_mut(&delivery.job) {
                        seen.ended = ended || status.is_ended();
                    }
                }
                Err(Refusal::Stale { .. }) => self.count("a late answer was refused"),
                Err(_) => {}
            }
        }
        for job in &turned.claimed {
            self.delivered(from, job);
        }
    }

    fn delivered(&mut self, from: &InstanceId, job: &Job) {
        let seen = self.works.jobs.entry(job.id).or_default();
        let (before, ended) = (std::mem::replace(&mut seen.fence, job.fence), seen.ended);
        self.note(format_args!("{from} claims job {} under {}", job.id, job.fence));
        self.count(if job.deliveries > 1 { "a job was delivered again" } else { "a job was delivered" });
        if job.fence <= before {
            self.wrong(format_args!("job {} was delivered under {} after {before}", job.id, job.fence));
        }
        if ended {
            self.wrong(format_args!("job {} was delivered although it had ended", job.id));
        }
    }

    fn asked(&mut self, job: JobId, answer: &Result<Asked, Refusal>) {
        self.note(format_args!("job {job} is asked: {answer:?}"));
        let seen = self.works.jobs.entry(job).or_default();
        match answer {
            Ok(Asked::Cancelled) => {
                seen.ended = true;
                self.count("a job was cancelled");
            }
            Ok(Asked::Requeued) => {
                seen.ended = false;
                self.count("a job was requeued");
            }
            _ => {}
        }
    }

    fn due(&mut self, owner: &InstanceId, due: &Due) {
        for trigger in &due.claimed {
            let fence = trigger.run.fence;
            let before = self.works.triggers.insert(trigger.id.clone(), fence).unwrap_or_default();
            self.note(format_args!("{owner} claims {} at {} under {fence}", trigger.id, trigger.run.trigger_at.get()));
            self.count("an occurrence was claimed");
            if fence <= before {
                self.wrong(format_args!("{} was claimed under {fence} after {before}", trigger.id));
            }
        }
    }

    fn occurred(&mut self, claim: &Claim, answer: &Result<(), Refusal>) {
        let newest = self.works.triggers.get(&claim.trigger).copied().unwrap_or_default();
        self.note(format_args!("{} is settled under {}: {answer:?}", claim.trigger, claim.fence));
        match answer {
            Ok(()) if claim.fence != newest => {
                let Claim { trigger, fence } = claim;
                self.wrong(format_args!("{trigger} was settled under {fence} after {newest}"));
            }
            Err(Refusal::Stale { .. }) => self.count("a late scheduler was refused"),
            _ => {}
        }
    }
}

#[async_trait]
impl Jobs for Witness {
    async fn submit(&self, groups: &[Vec<NewJob>]) -> Each<Vec<Submitted>> {
        let answers = self.ring(unconstrained(self.jobs.submit(groups)).await)?;
        let mut facts = self.truth.facts();
        for (group, answer) in groups.iter().zip(&answers) {
            for (job, submitted) in group.iter().zip(answer.iter().flatten()) {
                facts.submitted(job, submitted);
            }
        }
        Ok(answers)
    }

    async fn turn(&self, turns: &[Turn]) -> Result<Vec<Turned>, PortError> {
        let answers = self.ring(unconstrained(self.jobs.turn(turns)).await)?;
        let mut facts = self.truth.facts();
        turns.iter().zip(&answers).for_each(|(turn, turned)| facts.turned(&self.instance, turn, turned));
        Ok(answers)
    }

    async fn ask(&self, jobs: &[JobId], ask: JobAsk, asker: &Asker) -> Each<Asked> {
        let answers = self.ring(unconstrained(self.jobs.ask(jobs, ask, asker)).await)?;
        let mut facts = self.truth.facts();
        jobs.iter().zip(&answers).for_each(|(job, answer)| facts.asked(*job, answer));
        Ok(answers)
    }

    async fn load(&self, jobs: &[JobId]) -> Result<Vec<Option<Job>>, PortError> {
        unconstrained(self.jobs.load(jobs)).await
    }

    async fn list(&self, filter: &JobFilter, after: Option<&Cursor>, limit: u32) -> Result<Page<Job>, PortError> {
        unconstrained(self.jobs.list(filter, after, limit)).await
    }

    async fn queues(&self, after: Option<&Cursor>, limit: u32) -> Result<Page<QueueView>, PortError> {
        unconstrained(self.jobs.queues(after, limit)).await
    }

    async fn set_rules(&self, rules: &[Rule]) -> Result<(), PortError> {
        self.ring(unconstrained(self.jobs.set_rules(rules)).await)
    }

    async fn rules(&self, scopes: &[Scope]) -> Result<Vec<Rule>, PortError> {
        unconstrained(self.jobs.rules(scopes)).await
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.wait(since, wait_ms, Port::Jobs).await
    }

    async fn ended(&self, since: Mark, wait_ms: u64) -> Result<Ended, PortError> {
        let end = Instant::now() + Duration::from_millis(wait_ms);
        loop {
            let rung = self.truth.bell.notified();
            let ended = unconstrained(self.jobs.ended(since, 0)).await?;
            if ended.mark != since || timeout_at(end, rung).await.is_err() {
                return Ok(ended);
            }
        }
    }

    async fn sweep(&self, limit: u32) -> Result<u32, PortError> {
        self.ring(unconstrained(self.jobs.sweep(limit)).await)
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        unconstrained(self.jobs.purge(before, limit)).await
    }
}

#[async_trait]
impl Triggers for Witness {
    async fn save(&self, saves: &[Save]) -> Each<u64> {
        let answers = self.ring(unconstrained(self.triggers.save(saves)).await)?;
        for (save, answer) in saves.iter().zip(&answers) {
            self.note(format_args!("saves {} at {}: {answer:?}", save.trigger.id, save.trigger.run.trigger_at.get()));
        }
        Ok(answers)
    }

    async fn remove(&self, triggers: &[TriggerId]) -> Result<Vec<bool>, PortError> {
        self.ring(unconstrained(self.triggers.remove(triggers)).await)
    }

    async fn claim_due(&self, owner: &InstanceId, lease_ms: u64, limit: u32) -> Result<Due, PortError> {
        let due = self.ring(unconstrained(self.triggers.claim_due(owner, lease_ms, limit)).await)?;
        self.truth.facts().due(owner, &due);
        Ok(due)
    }

    async fn settle(&self, settles: &[(Claim, rules::Outcome)]) -> Each<()> {
        let answers = self.ring(unconstrained(self.triggers.settle(settles)).await)?;
        let mut facts = self.truth.facts();
        settles.iter().zip(&answers).for_each(|((claim, _), answer)| facts.occurred(claim, answer));
        Ok(answers)
    }

    async fn renew(&self, claims: &[Claim], lease_ms: u64) -> Each<Ms> {
        unconstrained(self.triggers.renew(claims, lease_ms)).await
    }

    async fn load(&self, triggers: &[TriggerId]) -> Result<Vec<Option<Trigger>>, PortError> {
        unconstrained(self.triggers.load(triggers)).await
    }

    async fn notes(&self, trigger: &TriggerId) -> Result<Vec<Note>, PortError> {
        unconstrained(self.triggers.notes(trigger)).await
    }

    async fn list(
        &self,
        filter: &TriggerFilter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<Trigger>, PortError> {
        unconstrained(self.triggers.list(filter, after, limit)).await
    }

    async fn find_due(&self, upto: Ms, limit: u32) -> Result<Vec<Trigger>, PortError> {
        unconstrained(self.triggers.find_due(upto, limit)).await
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.wait(since, wait_ms, Port::Triggers).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        unconstrained(self.triggers.purge(before, limit)).await
    }
}
