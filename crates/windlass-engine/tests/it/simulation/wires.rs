//! Jobs and triggers over the way between an instance and the store.
#![expect(clippy::redundant_locals, reason = "a call owns what it carries, also what needs no copy")]

use async_trait::async_trait;
use windlass_core::id::{InstanceId, JobId, TriggerId};
use windlass_core::job::limit::{Rule, Scope};
use windlass_core::job::rules::{Asked, JobAsk};
use windlass_core::job::{Asker, Job, NewJob};
use windlass_core::port::job::{Ended, JobFilter, Jobs, QueueView, Submitted, Turn, Turned};
use windlass_core::port::trigger::{Claim, Due, Save, TriggerFilter, Triggers};
use windlass_core::port::{Cursor, Each, Mark, Page, PortError};
use windlass_core::time::Ms;
use windlass_core::trigger::rules::Outcome;
use windlass_core::trigger::{Note, Trigger};

use super::net::{Mode, Net, call};

#[async_trait]
impl Jobs for Net {
    async fn submit(&self, groups: &[Vec<NewJob>]) -> Each<Vec<Submitted>> {
        call!(self.Jobs.submit(groups = groups.to_vec() => &groups))
    }

    async fn turn(&self, turns: &[Turn]) -> Result<Vec<Turned>, PortError> {
        call!(self.Jobs.turn(turns = turns.to_vec() => &turns))
    }

    async fn ask(&self, jobs: &[JobId], ask: JobAsk, asker: &Asker) -> Each<Asked> {
        call!(self.Jobs.ask(jobs = jobs.to_vec() => &jobs, ask = ask => ask, asker = asker.clone() => &asker))
    }

    async fn load(&self, jobs: &[JobId]) -> Result<Vec<Option<Job>>, PortError> {
        call!(self.Jobs.load(jobs = jobs.to_vec() => &jobs))
    }

    async fn list(&self, filter: &JobFilter, after: Option<&Cursor>, limit: u32) -> Result<Page<Job>, PortError> {
        call!(self.Jobs.list(filter = filter.clone() => &filter, after = after.cloned() => after.as_ref(), limit = limit => limit))
    }

    async fn queues(&self, after: Option<&Cursor>, limit: u32) -> Result<Page<QueueView>, PortError> {
        call!(self.Jobs.queues(after = after.cloned() => after.as_ref(), limit = limit => limit))
    }

    async fn set_rules(&self, rules: &[Rule]) -> Result<(), PortError> {
        call!(self.Jobs.set_rules(rules = rules.to_vec() => &rules))
    }

    async fn rules(&self, scopes: &[Scope]) -> Result<Vec<Rule>, PortError> {
        call!(self.Jobs.rules(scopes = scopes.to_vec() => &scopes))
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.wait(Jobs::changed(&self.to, since, wait_ms)).await
    }

    async fn ended(&self, since: Mark, wait_ms: u64) -> Result<Ended, PortError> {
        self.wait(Jobs::ended(&self.to, since, wait_ms)).await
    }

    async fn sweep(&self, limit: u32) -> Result<u32, PortError> {
        call!(self.Jobs.sweep(limit = limit => limit))
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        call!(self.Jobs.purge(before = before => before, limit = limit => limit))
    }
}

#[async_trait]
impl Triggers for Net {
    async fn save(&self, saves: &[Save]) -> Each<u64> {
        call!(self.Triggers.save(saves = saves.to_vec() => &saves))
    }

    async fn remove(&self, triggers: &[TriggerId]) -> Result<Vec<bool>, PortError> {
        call!(self.Triggers.remove(triggers = triggers.to_vec() => &triggers))
    }

    async fn claim_due(&self, owner: &InstanceId, lease_ms: u64, limit: u32) -> Result<Due, PortError> {
        call!(self.Triggers.claim_due(owner = owner.clone() => &owner, lease_ms = lease_ms => lease_ms, limit = limit => limit))
    }

    async fn settle(&self, settles: &[(Claim, Outcome)]) -> Each<()> {
        call!(self.Triggers.settle(settles = settles.to_vec() => &settles))
    }

    async fn renew(&self, claims: &[Claim], lease_ms: u64) -> Each<Ms> {
        call!(self.Triggers.renew(claims = claims.to_vec() => &claims, lease_ms = lease_ms => lease_ms))
    }

    async fn load(&self, triggers: &[TriggerId]) -> Result<Vec<Option<Trigger>>, PortError> {
        call!(self.Triggers.load(triggers = triggers.to_vec() => &triggers))
    }

    async fn notes(&self, trigger: &TriggerId) -> Result<Vec<Note>, PortError> {
        call!(self.Triggers.notes(trigger = trigger.clone() => &trigger))
    }

    async fn list(
        &self,
        filter: &TriggerFilter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<Trigger>, PortError> {
        call!(self.Triggers.list(filter = filter.clone() => &filter, after = after.cloned() => after.as_ref(), limit = limit => limit))
    }

    async fn find_due(&self, upto: Ms, limit: u32) -> Result<Vec<Trigger>, PortError> {
        call!(self.Triggers.find_due(upto = upto => upto, limit = limit => limit))
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.wait(Triggers::changed(&self.to, since, wait_ms)).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        call!(self.Triggers.purge(before = before => before, limit = limit => limit))
    }
}
