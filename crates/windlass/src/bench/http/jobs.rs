//! Jobs from submission to acknowledged completion, and whole plans, by many clients at once.

use std::fmt::Write as _;
use std::time::Instant;

use serde::Deserialize;
use tokio::task::JoinSet;

use super::serve::{stop_all, wire_of};
use super::wire::Wire;
use super::{Bench, PLANS};
use crate::bench::instances::by;
use crate::bench::{Row, Timer};

const CLIENTS: u32 = 64;
/// Clients that start plans and wait for their end.
const PLANNERS: u32 = 16;

/// What a claim answers, as far as it matters here.
#[derive(Deserialize)]
struct Claimed<'a> {
    #[serde(borrow)]
    claimed: Vec<Held<'a>>,
    answers: Vec<Said>,
}

#[derive(Deserialize)]
struct Held<'a> {
    id: &'a str,
    fence: u64,
}

#[derive(Deserialize)]
struct Said {
    ok: bool,
}

impl Bench<'_> {
    /// Each client submits `batch` jobs, then says in one request what it has done and takes as many again.
    pub(super) async fn jobs(&self, workload: &str, batch: u32, least: f64) -> anyhow::Result<Row> {
        let serves = self.serves(&format!("jobs-{batch}")).await?;
        let mut clients = JoinSet::new();
        let until = Instant::now() + self.scale.run;
        for n in 0..CLIENTS {
            let client =
                Client { wire: wire_of(&serves, n).await?, batch, name: format!("bench-{n}"), timer: Timer::new()? };
            clients.spawn(client.run(until));
        }
        let began = Instant::now();
        let mut timer = Timer::new()?;
        while let Some(done) = clients.join_next().await {
            timer.merge(&done??)?;
        }
        let took = began.elapsed();
        stop_all(serves)?;
        let row = self.row(timer.row(&by(workload, self.instances), self.store, CLIENTS, "jobs", took));
        let pass = row.per_s >= least;
        Ok(if self.is_embedded() { row.judged(format!("at least {least:.0} jobs/s"), pass) } else { row })
    }

    /// Plans that do nothing: posted, started, waited for.
    pub(super) async fn plans(&self) -> anyhow::Result<Row> {
        let serves = self.serves("plans").await?;
        let mut clients = JoinSet::new();
        let began = Instant::now();
        for client in 0..PLANNERS.min(self.scale.plans) {
            let wire = wire_of(&serves, client).await?;
            let mine = (client..self.scale.plans).step_by(PLANNERS as usize);
            clients.spawn(carry_out(wire, mine.collect(), std::process::id()));
        }
        let mut timer = Timer::new()?;
        while let Some(done) = clients.join_next().await {
            timer.merge(&done??)?;
        }
        let took = began.elapsed();
        stop_all(serves)?;
        Ok(self.row(timer.row(&by(PLANS, self.instances), self.store, PLANNERS, "plans", took)))
    }
}

/// One client of many.
struct Client {
    wire: Wire,
    batch: u32,
    name: String,
    timer: Timer,
}

impl Client {
    /// Until the time is over, and then until what it holds is done: every job that is counted was acknowledged.
    async fn run(mut self, until: Instant) -> anyhow::Result<Timer> {
        let one = r#"{"queue":"bench","payload":{"order":4711}}"#;
        let submission = match self.batch {
            1 => one.to_owned(),
            n => format!("[{}]", vec![one; n as usize].join(",")),
        };
        let mut held = String::new();
        loop {
            let over = Instant::now() >= until;
            let began = Instant::now();
            if !over {
                self.wire.post("/v1/jobs", submission.as_bytes()).await?;
            }
            let room = if over { 0 } else { self.batch };
            let claim = format!(r#"{{"worker":"{}","max":{room},"complete":[{held}]}}"#, self.name);
            let answer = self.wire.post("/v1/queues/bench/claim", claim.as_bytes()).await?;
            let answer: Claimed<'_> = serde_json::from_slice(answer)?;
            anyhow::ensure!(answer.answers.iter().all(|said| said.ok), "a completion was refused");
            self.timer.add(began, answer.answers.len() as u64);
            held.clear();
            for job in &answer.claimed {
                let comma = if held.is_empty() { "" } else { "," };
                write!(held, r#"{comma}{{"job":"{}","fence":{},"result":true}}"#, job.id, job.fence)?;
            }
            if over {
                return Ok(self.timer);
            }
        }
    }
}

async fn carry_out(mut wire: Wire, plans: Vec<u32>, run: u32) -> anyhow::Result<Timer> {
    #[derive(Deserialize)]
    struct View {
        status: String,
    }
    let mut timer = Timer::new()?;
    for n in plans {
        let id = format!("bench-{run}-{n}");
        let stages: Vec<_> = (0..3).map(|stage| format!(r#"{{"name":"stage-{stage}","sleep":"0ms"}}"#)).collect();
        let file = plan_file(&id, &stages, 10);
        let began = Instant::now();
        wire.post("/v1/plans?start=true", file.as_bytes()).await?;
        let view: View = serde_json::from_slice(wire.get(&format!("/v1/plans/{id}?wait=30s")).await?)?;
        anyhow::ensure!(view.status == "COMPLETED", "plan {id} is {} after 30 s", view.status);
        timer.add(began, 1);
    }
    Ok(timer)
}

/// A plan of so many tasks, each of a tenant of its own, with these stages.
pub(super) fn plan_file(id: &str, stages: &[String], tasks: u32) -> String {
    let tasks: Vec<_> = (0..tasks).map(|n| format!(r#"{{"tenant":"{id}-{n}","config":{{"version":42}}}}"#)).collect();
    let (stages, tasks) = (stages.join(","), tasks.join(","));
    format!(r#"{{"plan":"bench","id":"{id}","max_concurrency":1000,"stages":[{stages}],"tasks":[{tasks}]}}"#)
}
