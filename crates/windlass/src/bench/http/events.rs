//! Events on their way to many clients at once.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use windlass_core::time::Ms;
use windlass_engine::clock::{Clock as _, SystemClock};

use super::jobs::plan_file;
use super::{Bench, EVENTS};
use crate::bench::{Row, Timer};

/// Tasks that run at once while their events are streamed.
const TASKS: u32 = 5;
/// How long everything may take beyond its stages.
const LATE: Duration = Duration::from_secs(60);

impl Bench<'_> {
    /// Some tasks with stages of 100 ms, and clients that hear of everything: from when an event happened, before it was
    /// stored, to when each client has it.
    pub(super) async fn events(&self) -> anyhow::Result<Row> {
        let serve = self.serve("events").await?;
        let mut clients = JoinSet::new();
        for _ in 0..self.scale.streams {
            let mut stream = serve.wire().await?.open("/v1/events").await?;
            let mut first = vec![0; 4 << 10];
            // Its first comment: it listens.
            while !first.windows(10).any(|bytes| bytes == b": windlass") {
                anyhow::ensure!(stream.read(&mut first).await? > 0, "a stream ended");
            }
            clients.spawn(listen(stream));
        }
        let id = format!("events-{}", std::process::id());
        let stages: Vec<_> =
            (0..self.scale.stages).map(|stage| format!(r#"{{"name":"stage-{stage}","sleep":"100ms"}}"#)).collect();
        let began = Instant::now();
        serve.wire().await?.post("/v1/plans?start=true", plan_file(&id, &stages, TASKS).as_bytes()).await?;
        let mut timer = Timer::new()?;
        let last = Duration::from_millis(100) * self.scale.stages + LATE;
        let heard = async {
            while let Some(heard) = clients.join_next().await {
                timer.merge(&heard??)?;
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(last, heard).await.context("some events never came")??;
        let took = began.elapsed();
        serve.stop()?;
        // Each task has two events a stage, and each stage is heard of by everybody.
        let least = u64::from(self.scale.streams * self.scale.stages * TASKS * 2);
        anyhow::ensure!(timer.units >= least, "{} of at least {least} events came", timer.units);
        let row = self.row(timer.row(EVENTS, self.store, self.scale.streams, "events", took));
        let pass = row.p99_us <= 50_000.0;
        Ok(if self.is_embedded() { row.judged("p99 at most 50 ms", pass) } else { row })
    }
}

/// Everything, until the plan is over.
async fn listen(mut stream: TcpStream) -> anyhow::Result<Timer> {
    let mut timer = Timer::new()?;
    let mut bytes = Vec::with_capacity(64 << 10);
    loop {
        anyhow::ensure!(stream.read_buf(&mut bytes).await? > 0, "a stream ended");
        let now = SystemClock.now();
        let mut over = false;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        for line in std::str::from_utf8(&bytes[..whole])?.lines() {
            over |= line == "event: PlanCompleted";
            anyhow::ensure!(line != "event: reset", "a client fell behind");
            let at = line.strip_prefix("data: ").and_then(|data| data.split_once(r#""at":""#));
            let Some((at, _)) = at.and_then(|(_, rest)| rest.split_once('"')) else { continue };
            let at = Ms::parse(at).context("a time that is none")?;
            // Both count whole milliseconds: one more is too much rather than too little.
            timer.record(Duration::from_millis(now.since(at) + 1));
        }
        bytes.drain(..whole);
        if over {
            return Ok(timer);
        }
    }
}
