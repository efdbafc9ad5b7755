//! One task among very many: asked for by its tenant at a steady rate, and after a start.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::jobs::plan_file;
use super::serve::Serve;
use super::{Bench, STORED, wire};
use crate::bench::{Row, Timer};

/// Tasks of each plan.
const PLAN: u32 = 10_000;
/// Plans that are posted at once.
const AT_ONCE: usize = 4;
/// Requests a second, and the connections that carry them.
const PER_S: u32 = 1_000;
const ASKERS: u32 = 8;

impl Bench<'_> {
    /// Plans that are not started, posted until enough tasks are stored; then the server is killed and started again; then
    /// a tenant's task, at a steady rate.
    pub(super) async fn stored(&self) -> anyhow::Result<Vec<Row>> {
        let serve = self.serve("stored").await?;
        let mut rows = vec![self.fill(&serve).await?];
        let serve = match self.is_embedded() {
            true => {
                serve.stop()?;
                let (serve, row) = self.start().await?;
                rows.push(row);
                serve
            }
            false => serve,
        };
        // What is asked about is one task among many, not one beside the storing of many.
        serve.settled().await?;
        rows.push(self.steady(&serve).await?);
        serve.stop()?;
        Ok(rows)
    }

    async fn fill(&self, serve: &Serve) -> anyhow::Result<Row> {
        let mut plans: Vec<(u32, u32)> = (0..self.scale.tasks)
            .step_by(PLAN as usize)
            .map(|from| (from / PLAN, PLAN.min(self.scale.tasks - from)))
            .collect();
        let mut clients = JoinSet::new();
        let (mut timer, began) = (Timer::new()?, Instant::now());
        while !plans.is_empty() || !clients.is_empty() {
            while let Some((n, tasks)) = if clients.len() < AT_ONCE { plans.pop() } else { None } {
                let mut wire = serve.wire().await?;
                clients.spawn(async move {
                    let stages: Vec<_> =
                        (0..10).map(|stage| format!(r#"{{"name":"stage-{stage}","sleep":"1s"}}"#)).collect();
                    let file = plan_file(&name(n), &stages, tasks);
                    let began = Instant::now();
                    wire.post("/v1/plans", file.as_bytes()).await?;
                    anyhow::Ok((began, tasks))
                });
            }
            if let Some(done) = clients.join_next().await {
                let (began, tasks) = done??;
                timer.add(began, u64::from(tasks));
            }
        }
        Ok(self.row(timer.row(&format!("store {} tasks", self.scale.tasks), self.store, 4, "tasks", began.elapsed())))
    }

    /// At a steady rate, whether the answers keep up or not: each is measured from when its request was due.
    async fn steady(&self, serve: &Serve) -> anyhow::Result<Row> {
        let begin = Instant::now() + Duration::from_millis(100);
        let requests = u32::try_from(self.scale.run.as_millis())? * PER_S / 1_000;
        // Threads, because a runtime's timer is no finer than what is measured.
        let askers: Vec<_> = (0..ASKERS)
            .map(|asker| {
                let (address, tasks) = (serve.address, self.scale.tasks);
                std::thread::spawn(move || ask(address, begin, tasks, (asker..requests).step_by(ASKERS as usize)))
            })
            .collect();
        let mut timer = Timer::new()?;
        for asker in askers {
            timer.merge(&asker.join().map_err(|_| anyhow::anyhow!("a client panicked"))??)?;
        }
        let name = format!("{STORED}, {} stored", self.scale.tasks);
        let row = self.row(timer.row(&name, self.store, ASKERS, "requests", begin.elapsed()));
        let pass = row.p99_us <= 5_000.0;
        Ok(if self.is_embedded() { row.judged(format!("p99 at most 5 ms at {PER_S}/s"), pass) } else { row })
    }

    /// From the start of the process to its first answer, after it was killed.
    async fn start(&self) -> anyhow::Result<(Serve, Row)> {
        let serve = self.serve("stored").await?;
        serve.wire().await?.get(&format!("/v1/tenants/{}-7/task", name(0))).await?;
        let took = serve.began.elapsed();
        let bytes = super::super::resident_bytes(serve.id())?;
        let mut timer = Timer::new()?;
        timer.record(took);
        let row = timer.row(&format!("start, {} stored", self.scale.tasks), self.store, 1, "starts", took);
        let row = self.row(Row { resident_bytes: Some(bytes), ..row });
        Ok((serve, row.judged("first answer within 1 s of start after kill -9", took <= Duration::from_secs(1))))
    }
}

fn name(plan: u32) -> String {
    format!("stored-{plan}")
}

/// Those of the requests that are this client's.
fn ask(address: SocketAddr, begin: Instant, tasks: u32, requests: impl Iterator<Item = u32>) -> anyhow::Result<Timer> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut timer = Timer::new()?;
    let mut answer = vec![0; 64 << 10];
    for n in requests {
        // Scattered, as tenants are.
        let task = u32::try_from(u64::from(n).wrapping_mul(0x9E37_79B9_7F4A_7C15) % u64::from(tasks))?;
        let path = format!("/v1/tenants/{}-{}/task", name(task / PLAN), task % PLAN);
        let due = begin + Duration::from_secs(1) * n / PER_S;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        stream.write_all(wire::request("GET", &path, 0).as_bytes())?;
        let mut got = 0;
        loop {
            let more = stream.read(&mut answer[got..])?;
            anyhow::ensure!(more > 0, "the server closed the connection");
            got += more;
            match wire::head(&answer[..got])? {
                Some((head, length)) if got >= head + length => break,
                _ => {}
            }
        }
        anyhow::ensure!(answer.get(9) == Some(&b'2'), "GET {path}: {}", String::from_utf8_lossy(&answer[..got]));
        timer.add(due, 1);
    }
    Ok(timer)
}
