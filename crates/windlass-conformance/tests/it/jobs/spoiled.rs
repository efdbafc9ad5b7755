//! Stores that break one rule of jobs each: the random sequences must find them out.
#![expect(clippy::expect_used, reason = "helpers of tests, outside a test function")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use async_trait::async_trait;
use windlass_conformance::job::model::JobModel;
use windlass_conformance::job::{JobHarness, random};
use windlass_core::id::JobId;
use windlass_core::job::limit::{Rule, Scope};
use windlass_core::job::rules::{Asked, JobAsk};
use windlass_core::job::{Asker, Job, JobStatus, NewJob};
use windlass_core::port::job::{Ended, JobFilter, Jobs, QueueView, Submitted, Turn, Turned};
use windlass_core::port::{Cursor, Each, Mark, Page, PortError};
use windlass_core::time::Ms;

/// What the store does wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sin {
    /// It takes an answer under any fence.
    Late,
    /// It does not know whose turn it was.
    Unfair,
    /// One more may run than the limit says.
    Limits,
    /// It forgets the last job of a page.
    Pages,
    /// It tells of every end but the first.
    Feed,
}

struct Spoiled(JobModel, Sin);

struct SpoiledJobs {
    store: JobModel,
    ahead_ms: u64,
    jobs: JobModel,
    sin: Sin,
}

#[async_trait]
impl JobHarness for Spoiled {
    async fn open_jobs(&self, ahead_ms: u64) -> Arc<dyn Jobs> {
        let (store, sin) = (self.0.clone(), self.1);
        Arc::new(SpoiledJobs { jobs: store.rival(ahead_ms), store, ahead_ms, sin })
    }

    async fn restart(&self) {}
}

impl SpoiledJobs {
    async fn late(&self, turn: &mut Turn) {
        for (of, _) in &mut turn.settle {
            if let [Some(job)] = &self.jobs.load(&[of.job]).await.expect("load")[..] {
                of.fence = job.fence;
            }
        }
    }

    /// Claims one by one, each on a new way: nobody remembers who had the last one.
    async fn unfair(&self, turn: &Turn) -> Turned {
        let said = Turn { want: Vec::new(), ..turn.clone() };
        let mut turned = self.jobs.turn(&[said]).await.expect("turn").remove(0);
        for (queue, n) in &turn.want {
            for _ in 0..*n {
                let one = Turn { want: vec![(queue.clone(), 1)], settle: vec![], beat: vec![], ..turn.clone() };
                let jobs = self.store.rival(self.ahead_ms);
                let claimed = jobs.turn(&[one]).await.expect("turn").remove(0);
                if claimed.claimed.is_empty() {
                    break;
                }
                turned.claimed.extend(claimed.claimed);
            }
        }
        let wanted: u32 = turn.want.iter().map(|(_, n)| n).sum();
        if turned.claimed.len() < wanted as usize {
            turned.next = self.next(turn, turned.at).await;
        }
        turned
    }

    async fn next(&self, turn: &Turn, at: Ms) -> Option<Ms> {
        let all = self.jobs.list(&JobFilter::default(), None, 1_000).await.expect("list").items;
        let all = all.iter().filter(|job| turn.want.iter().any(|(queue, _)| *queue == job.queue));
        let times = all.map(|job| if job.status == JobStatus::Pending { job.run_at } else { job.lease_until });
        times.filter(|time| *time > at).min()
    }
}

#[async_trait]
impl Jobs for SpoiledJobs {
    async fn submit(&self, groups: &[Vec<NewJob>]) -> Each<Vec<Submitted>> {
        self.jobs.submit(groups).await
    }

    async fn turn(&self, turns: &[Turn]) -> Result<Vec<Turned>, PortError> {
        let mut answers = Vec::new();
        for turn in turns {
            let mut turn = turn.clone();
            match self.sin {
                Sin::Late => self.late(&mut turn).await,
                Sin::Unfair => {
                    answers.push(self.unfair(&turn).await);
                    continue;
                }
                _ => {}
            }
            answers.extend(self.jobs.turn(&[turn]).await?);
        }
        Ok(answers)
    }

    async fn ask(&self, jobs: &[JobId], ask: JobAsk, asker: &Asker) -> Each<Asked> {
        self.jobs.ask(jobs, ask, asker).await
    }

    async fn load(&self, jobs: &[JobId]) -> Result<Vec<Option<Job>>, PortError> {
        self.jobs.load(jobs).await
    }

    async fn list(&self, filter: &JobFilter, after: Option<&Cursor>, limit: u32) -> Result<Page<Job>, PortError> {
        let mut page = self.jobs.list(filter, after, limit).await?;
        if self.sin == Sin::Pages && page.next.is_some() {
            page.items.pop();
        }
        Ok(page)
    }

    async fn queues(&self, after: Option<&Cursor>, limit: u32) -> Result<Page<QueueView>, PortError> {
        self.jobs.queues(after, limit).await
    }

    async fn set_rules(&self, rules: &[Rule]) -> Result<(), PortError> {
        let mut rules = rules.to_vec();
        if self.sin == Sin::Limits {
            rules.iter_mut().for_each(|rule| rule.limits.running = rule.limits.running.map(|limit| limit + 1));
        }
        self.jobs.set_rules(&rules).await
    }

    async fn rules(&self, scopes: &[Scope]) -> Result<Vec<Rule>, PortError> {
        let mut rules = self.jobs.rules(scopes).await?;
        if self.sin == Sin::Limits {
            rules.iter_mut().for_each(|rule| rule.limits.running = rule.limits.running.map(|limit| limit - 1));
        }
        Ok(rules)
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.jobs.changed(since, wait_ms).await
    }

    async fn ended(&self, since: Mark, _: u64) -> Result<Ended, PortError> {
        let mut ended = self.jobs.ended(since, 0).await?;
        if self.sin == Sin::Feed && !ended.jobs.is_empty() {
            ended.jobs.remove(0);
        }
        Ok(ended)
    }

    async fn sweep(&self, limit: u32) -> Result<u32, PortError> {
        self.jobs.sweep(limit).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        self.jobs.purge(before, limit).await
    }
}

/// What the comparison says about such a store.
fn found_out(sin: Sin) -> String {
    let compared = catch_unwind(AssertUnwindSafe(|| random::compare(|| async { Spoiled(JobModel::default(), sin) })));
    let why = compared.expect_err("a spoiled store must be found out");
    why.downcast_ref::<String>().expect("a report").clone()
}

#[test]
fn a_store_that_takes_late_answers_is_found_out() {
    let report = found_out(Sin::Late);
    assert!(report.contains("cargo nextest run -p windlass-conformance random"), "{report}");
    let calls = report.lines().filter(|line| line.starts_with("  Call {")).count();
    assert!(calls < 15, "cut down to what matters: {report}");
}

#[test]
fn a_store_that_forgets_whose_turn_it_was_is_found_out() {
    let report = found_out(Sin::Unfair);
    assert!(report.contains("where it is the turn of"), "{report}");
}

#[test]
fn a_store_that_runs_one_too_many_is_found_out() {
    let report = found_out(Sin::Limits);
    assert!(report.contains("Rule { scope"), "{report}");
}

#[test]
fn a_store_that_loses_a_job_between_pages_is_found_out() {
    assert!(found_out(Sin::Pages).contains("List"));
}

#[test]
fn a_store_that_does_not_tell_of_every_end_is_found_out() {
    assert!(found_out(Sin::Feed).contains("not told of {JobId"));
}
