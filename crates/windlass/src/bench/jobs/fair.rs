//! Tenants beside each other: one that has very many jobs, and two that may not run theirs.

use std::time::{Duration, Instant};

use windlass_core::id::{QueueName, TenantId};
use windlass_core::job::limit::{Limits, Rule, Scope};

use super::work::{self, Worker};
use super::{BLOCKED, Bench, MANY, burn};
use crate::bench::{Row, Timer, resident_bytes};
use crate::open::StoreUrl;

/// Jobs of each of the others.
const FEW: u32 = 10;

impl Bench<'_> {
    /// One tenant has very many jobs, another submits ten again and again: how long until its ten are done.
    pub(super) async fn many(&self) -> anyhow::Result<Vec<Row>> {
        let jobs = self.start("many").await?;
        let queue: QueueName = "fair".parse()?;
        let (big, small): (TenantId, TenantId) = ("big".parse()?, "small".parse()?);
        work::fill(&jobs, &queue, Some(&big), self.scale.many).await?;
        let mut worker = Worker::new(&jobs, "w-1", &queue, 100)?;
        let mut timer = Timer::new()?;
        let (began, mut slowest) = (Instant::now(), 0);
        while began.elapsed() < self.scale.run {
            let call = Instant::now();
            work::fill(&jobs, &queue, Some(&small), FEW).await?;
            let (mut claimed, mut turns) = (0, 0);
            while claimed < FEW as usize {
                turns += 1;
                let (_, taken) = worker.turn(true).await?;
                claimed += taken.iter().filter(|job| job.tenant.as_ref() == Some(&small)).count();
                anyhow::ensure!(turns < 1_000, "ten jobs starve behind {}", self.scale.many);
            }
            worker.turn(false).await?;
            slowest = slowest.max(turns);
            timer.add(call, u64::from(FEW));
        }
        let row = timer.row(MANY, self.store(), 1, "jobs", began.elapsed());
        let row = Row { bench: "jobs", resident_bytes: Some(resident_bytes(std::process::id())?), ..row };
        let row = row.judged(format!("all ten within 1 claim of 100; {slowest} needed"), slowest <= 1);
        drop((worker, jobs));
        match self.url {
            StoreUrl::Embedded(_) => Ok(vec![row, self.reopen(&queue).await?]),
            _ => Ok(vec![row]),
        }
    }

    /// From opening the store with very many jobs to the first claim.
    async fn reopen(&self, queue: &QueueName) -> anyhow::Result<Row> {
        let mut timer = Timer::new()?;
        let began = Instant::now();
        let jobs = self.start("many").await?;
        let (_, claimed) = Worker::new(&jobs, "w-2", queue, 100)?.turn(true).await?;
        timer.add(began, 1);
        anyhow::ensure!(claimed.len() == 100, "{} of 100 were claimed", claimed.len());
        let name = format!("reopen with {}", self.scale.many);
        let row = timer.row(&name, self.store(), 1, "opens", began.elapsed());
        Ok(Row { bench: "jobs", resident_bytes: Some(resident_bytes(std::process::id())?), ..row })
    }

    /// The same burn-down with nothing in the way, and with very many jobs of two tenants that run as many as they may.
    pub(super) async fn blocked(&self) -> anyhow::Result<Vec<Row>> {
        let burned = self.scale.burn / 4;
        let mut rows = Vec::new();
        for (workload, blocked) in [("claims unblocked", 0), (BLOCKED, self.scale.blocked)] {
            let jobs = self.start(&format!("blocked-{blocked}")).await?;
            let queue: QueueName = format!("past-{blocked}").parse()?;
            for tenant in ["slow-1", "slow-2"] {
                let tenant: TenantId = tenant.parse()?;
                let limits = Limits { running: Some(1), waiting: None };
                jobs.set_rules(&[Rule { scope: Scope::Tenant(tenant.clone()), limits, held: None }]).await?;
                work::fill(&jobs, &queue, Some(&tenant), blocked / 2).await?;
            }
            // What they may run runs, and does not end.
            let mut holder = Worker::new(&jobs, "holder", &queue, 2)?;
            if blocked > 0 {
                anyhow::ensure!(holder.turn(true).await?.1.len() == 2, "two tenants run one each");
            }
            for tenant in 0..10 {
                work::fill(&jobs, &queue, Some(&format!("t-{tenant}").parse()?), burned / 10).await?;
            }
            let (timer, took): (Timer, Duration) = burn::burn(&jobs, &queue, 100, u64::from(burned / 10 * 10)).await?;
            rows.push(Row { bench: "jobs", ..timer.row(workload, self.store(), 100, "jobs", took) });
        }
        if let [free, past] = &mut rows[..] {
            let least = 0.7 * free.per_s;
            *past = past.clone().judged(format!("at least 70 % of unblocked, {least:.0} jobs/s"), past.per_s >= least);
        }
        Ok(rows)
    }
}
