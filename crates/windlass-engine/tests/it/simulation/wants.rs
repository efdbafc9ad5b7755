//! What people want of jobs and triggers, what workers do, and how all of it ends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

// sleep: the clock is paused, so this passes simulated time only.
use tokio::time::sleep;
use windlass_core::id::{JobId, TriggerId};
use windlass_core::job::{Backoff, Job, JobError, JobStatus, NewJob, When};
use windlass_core::json::Json;
use windlass_core::port::PAGE_MAX;
use windlass_core::port::job::JobFilter;
use windlass_core::port::trigger::TriggerFilter;
use windlass_core::trigger::{Trigger, TriggerSpec, TriggerStatus};
use windlass_engine::job::worker::{Failed, Lane, Told};
use windlass_engine::job::{JobOptions, Queues};

use super::net::Way;
use super::people::caller;
use super::truth::Truth;
use super::world::{Script, World};

/// Looks until everything must have ended.
const LOOKS_MAX: u32 = 60;
const LOOK_MS: u64 = 3_000;

pub(super) fn options() -> JobOptions {
    JobOptions { lease_ms: 3_000, scan_ms: 2_000, poll_ms: 100, retention_ms: 86_400_000, drain_ms: 500 }
}

/// What people remember of triggers.
#[derive(Default)]
pub(super) struct Wanted {
    named: u32,
    triggers: BTreeMap<TriggerId, Arc<Mutex<Known>>>,
}

#[derive(Default)]
struct Known {
    /// It was taken.
    saved: bool,
    /// It has one occurrence.
    single: bool,
    /// What it makes is a plan.
    plan: bool,
    /// Somebody left it out, paused or removed it, or tried to.
    touched: bool,
}

/// Works on the queue: tells the target, takes its time, and returns the fence it had, if it returns.
pub(super) fn work(queues: &Queues, truth: &Arc<Truth>, script: &Arc<Mutex<Script>>, way: &Arc<Way>) {
    let (truth, script, way) = (Arc::clone(truth), Arc::clone(script), Arc::clone(way));
    let handler = move |told: Told| {
        let (truth, script, way) = (Arc::clone(&truth), Arc::clone(&script), Arc::clone(&way));
        async move {
            way.flow().await;
            let (fails, ms) = {
                let Script { dice, fails, ms } = &mut *script.lock().unwrap();
                (dice.u32(..1_000) < *fails, dice.u64(..=*ms))
            };
            let failed = |again| Failed { error: JobError::of("E", "no"), again };
            sleep(Duration::from_millis(ms)).await;
            way.flow().await;
            if !truth.facts().job_effect(told.job, told.fence) {
                return Err(failed(false));
            }
            match fails {
                true => Err(failed(true)),
                false => Ok(Json::parse(&told.fence.0.to_string()).unwrap()),
            }
        }
    };
    let queue = "q".parse().unwrap();
    queues.work(vec![Lane { queue, concurrency: 2, prefetch: 3, handler: Arc::new(handler) }]).unwrap();
}

impl World {
    /// Somebody wants something of jobs or triggers, and does not wait for it.
    pub(super) fn want(&mut self, n: usize) {
        let jobs: Vec<JobId> = self.truth.facts().works.jobs.keys().copied().collect();
        match self.dice.u32(..100) {
            0..40 => self.submit(n),
            40..60 if !jobs.is_empty() => {
                let job = jobs[self.dice.usize(..jobs.len())];
                self.ask_job(n, job);
            }
            60..80 => self.save(n),
            _ if self.wanted.triggers.is_empty() => self.save(n),
            _ => self.ask_trigger(n),
        }
    }

    fn submit(&mut self, n: usize) {
        let Some(queues) = self.nodes[n].queues.clone() else { return };
        let job = |dice: &mut fastrand::Rng| NewJob {
            max_attempts: dice.u32(1..4),
            backoff: Backoff { first_ms: 100, max_ms: 1_000 },
            timeout_ms: (dice.u32(..3) == 0).then(|| dice.u64(500..6_000)),
            tenant: dice.bool().then(|| "j1".parse().unwrap()),
            priority: dice.i8(..),
            when: if dice.u32(..4) == 0 { When::In(dice.u64(..5_000)) } else { When::Now },
            key: (dice.u32(..4) == 0).then(|| format!("k{}", dice.u32(..5))),
            ..queues.job("q".parse().unwrap(), Some(Json::null()))
        };
        let jobs: Vec<_> = (0..self.dice.usize(1..4)).map(|_| job(&mut self.dice)).collect();
        self.nodes[n].asked.push(tokio::spawn(async move {
            // Refused, or not heard: what was taken is known at the store.
            drop(queues.submit_all(jobs).await);
        }));
    }

    fn ask_job(&mut self, n: usize, job: JobId) {
        let Some(queues) = self.nodes[n].queues.clone() else { return };
        let cancel = self.dice.u32(..3) > 0;
        self.nodes[n].asked.push(tokio::spawn(async move {
            match cancel {
                true => drop(queues.cancel(job, &caller()).await),
                false => drop(queues.requeue(job, &caller()).await),
            }
        }));
    }

    /// A trigger of one of every kind, for a job; for a plan if it comes once.
    fn save(&mut self, n: usize) {
        self.wanted.named += 1;
        let named = self.wanted.named;
        let at = self.now().plus(self.dice.u64(..10_000));
        let (single, schedule) = match self.dice.u32(..4) {
            0 => (true, format!(r#"{{"at": "{at}"}}"#)),
            1 => (true, format!(r#"{{"after": "{}ms"}}"#, self.dice.u32(1..10_000))),
            2 => (false, format!(r#"{{"every": "{}s"}}"#, self.dice.u32(1..5))),
            _ => (false, r#"{"cron": "*/3 * * * * *", "zone": "Europe/Berlin"}"#.to_owned()),
        };
        let plan = single && self.dice.bool();
        let target = match plan {
            true => format!(
                r#"{{"plan": {{"plan":"tr{named}","stages":[{{"name":"s0","handler":{{"name":"do"}}}}],
                "tasks":[{{"tenant":"t1","config":"new"}}]}}}}"#
            ),
            false => r#"{"job": {"queue": "q"}}"#.to_owned(),
        };
        let misfire = if single { "once" } else { ["once", "skip", "catch_up"][self.dice.usize(..3)] };
        let text =
            format!(r#"{{"schedule": {schedule}, "target": {target}, "misfire": "{misfire}", "maxRetries": 1000}}"#);
        let spec: TriggerSpec = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let id: TriggerId = format!("r{named}").parse().unwrap();
        let known = Arc::new(Mutex::new(Known { single, plan, ..Known::default() }));
        self.wanted.triggers.insert(id.clone(), Arc::clone(&known));
        let engine = self.nodes[n].engine.clone();
        self.nodes[n].asked.push(tokio::spawn(async move {
            let saved = engine.triggers().unwrap().save(Some(id), spec, &caller()).await;
            known.lock().unwrap().saved |= saved.is_ok();
        }));
    }

    fn ask_trigger(&mut self, n: usize) {
        let which = self.dice.usize(..self.wanted.triggers.len());
        let Some((id, known)) = self.wanted.triggers.iter().nth(which) else { return };
        let (id, known, engine) = (id.clone(), Arc::clone(known), self.nodes[n].engine.clone());
        let what = self.dice.u32(..8);
        known.lock().unwrap().touched |= what >= 3;
        self.nodes[n].asked.push(tokio::spawn(async move {
            let (triggers, caller) = (engine.triggers().unwrap(), caller());
            match what {
                0..3 => drop(triggers.fire(&id, &caller).await),
                3 => drop(triggers.skip(&id, &caller).await),
                4 => drop(triggers.pause(&id, &caller).await),
                5 | 6 => drop(triggers.resume(&id, &caller).await),
                _ => drop(triggers.remove(&id).await),
            }
        }));
    }

    /// After the storm: what comes again and again is taken away, then all that was taken ends, once.
    pub(super) async fn works_end(&mut self) {
        let mut moving = None;
        for _ in 0..LOOKS_MAX {
            self.stop_recurring().await;
            sleep(Duration::from_millis(LOOK_MS)).await;
            moving = self.works_move().await;
            if moving.is_none() || self.truth.is_wrong() {
                break;
            }
        }
        if let Some(moving) = moving.filter(|_| !self.truth.is_wrong()) {
            self.truth.wrong(format_args!("nothing goes wrong any more, and it does not come to rest: {moving}"));
        }
        if !self.truth.is_wrong() {
            self.jobs_are_there().await;
            self.occurrences_are_there().await;
            self.names_are_used_once();
        }
    }

    async fn stop_recurring(&self) {
        let triggers = self.nodes[0].engine.triggers().unwrap();
        for trigger in self.timetable().await.into_iter().filter(|trigger| !trigger.run.status.is_ended()) {
            let single = self.wanted.triggers.get(trigger.origin()).is_some_and(|known| known.lock().unwrap().single);
            // What cannot be done because somebody is at it is done at the next look.
            match single {
                true => drop(triggers.resume(&trigger.id, &caller()).await),
                false => drop(triggers.remove(&trigger.id).await),
            }
        }
    }

    async fn works_move(&self) -> Option<String> {
        let job = self.all_jobs().await.into_iter().find(|job| !job.status.is_ended());
        let trigger = self.timetable().await.into_iter().find(|trigger| !trigger.run.status.is_ended());
        job.map(|job| format!("{job:?}")).or_else(|| trigger.map(|trigger| format!("{trigger:?}")))
    }

    async fn all_jobs(&self) -> Vec<Job> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page = self.jobs.list(&JobFilter::default(), after.as_ref(), PAGE_MAX).await.unwrap();
            all.extend(page.items);
            after = page.next;
            if after.is_none() {
                return all;
            }
        }
    }

    async fn timetable(&self) -> Vec<Trigger> {
        self.triggers.list(&TriggerFilter::default(), None, PAGE_MAX).await.unwrap().items
    }

    /// What was taken is there, with the result of its newest delivery.
    async fn jobs_are_there(&self) {
        let stored: BTreeMap<JobId, Job> = self.all_jobs().await.into_iter().map(|job| (job.id, job)).collect();
        let mut facts = self.truth.facts();
        let taken: Vec<JobId> = facts.works.jobs.keys().copied().collect();
        if let Some(lost) = taken.iter().find(|job| !stored.contains_key(job)) {
            facts.wrong(format_args!("job {lost} was taken and is not there"));
        }
        for job in stored.values() {
            let under = job.fence.0.to_string();
            let own = job.result.as_ref().is_some_and(|result| result.as_str() == under);
            if job.check().is_err() || (job.status == JobStatus::Completed && !own) {
                facts.wrong(format_args!("the record of job {} is not right: {job:?}", job.id));
            }
        }
    }

    /// What comes once and was left alone came once.
    async fn occurrences_are_there(&self) {
        let stored = self.timetable().await;
        let names: Vec<String> = self.truth.facts().plans.values().map(|plan| plan.name.clone()).collect();
        for (id, known) in &self.wanted.triggers {
            let Known { saved, single, plan, touched } = &*known.lock().unwrap();
            if !saved || !single || *touched {
                continue;
            }
            let status = stored.iter().find(|trigger| trigger.id == *id).map(|trigger| trigger.run.status);
            let made = match plan {
                true => names.iter().filter(|name| **name == id.as_str().replace('r', "tr")).count(),
                false => self.truth.facts().works.made_by(id),
            };
            if made != 1 || status != Some(TriggerStatus::Completed) {
                self.truth.wrong(format_args!("{id} is {status:?} and made {made}"));
            }
        }
    }
}
