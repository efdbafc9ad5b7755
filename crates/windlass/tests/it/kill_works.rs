//! `kill -9` of instances that submit jobs, work on them and fire triggers, again and again on one store; on a server two of
//! them at once, each with a worker and a scheduler. Whenever they die, what was acknowledged is there, every job ends, every
//! time of every trigger makes one job, and none is left out. The processes are the example `puppet`.

#[expect(dead_code, reason = "the rest is for the process that dies")]
#[path = "../../examples/puppet/labor.rs"]
mod labor;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use windlass::Windlass;
use windlass::core::job::{Job, JobStatus};
use windlass::core::port::PAGE_MAX;
use windlass::core::port::job::JobFilter;

use crate::{mysql_server, puppet, server, setting};

const ROUNDS: u32 = 8;
const SOAK_ROUNDS: u32 = 100;
/// How long something that must happen may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two times of a trigger.
const EVERY_MS: u64 = 200;

#[test]
fn embedded_whoever_is_killed_at_work_loses_no_job_and_no_occurrence() {
    let folder = tempfile::tempdir().unwrap();
    campaign(&format!("embedded:{}", folder.path().join("store").display()), 1, 1);
}

#[test]
fn postgres_whoever_is_killed_at_work_loses_no_job_and_no_occurrence() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let schema = runtime.block_on(server::schema());
    campaign(&schema.url, 2, 2);
}

#[test]
fn mysql_whoever_is_killed_at_work_loses_no_job_and_no_occurrence() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let database = runtime.block_on(mysql_server::database());
    campaign(&database.url, 2, 3);
}

/// What processes said before they died: jobs that were taken, and how those ended that have.
type Said = BTreeMap<String, Option<String>>;

fn campaign(store: &str, at_once: usize, seed: u64) {
    let mut dice = fastrand::Rng::with_seed(seed);
    let rounds = if setting("WINDLASS_SOAK").is_some() { SOAK_ROUNDS } else { ROUNDS };
    let mut said = Said::new();
    for _ in 0..rounds {
        let lives: Vec<usize> = (0..at_once).map(|_| dice.usize(2..600)).collect();
        let lives: Vec<_> = lives
            .into_iter()
            .map(|lines| {
                let store = store.to_owned();
                std::thread::spawn(move || live(&store, lines))
            })
            .collect();
        for life in lives {
            for line in life.join().unwrap() {
                match line.split(' ').collect::<Vec<_>>()[..] {
                    ["submitted", job] => drop(said.entry(job.to_owned()).or_default()),
                    ["ended", job, status] => drop(said.insert(job.to_owned(), Some(status.to_owned()))),
                    _ => {}
                }
            }
        }
    }
    println!("{} jobs were acknowledged, {} ends", said.len(), said.values().flatten().count());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(check(store, &said));
}

/// A process that is killed once it has said so much; answers all that it said.
fn live(store: &str, lines: usize) -> Vec<String> {
    let mut child = Command::new(puppet()).args(["labor", store]).stdout(Stdio::piped()).spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let mut said = Vec::new();
    for line in out.lines().map_while(Result::ok) {
        said.push(line);
        if said.len() == lines {
            kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
        }
    }
    child.wait().unwrap();
    assert!(said.len() >= lines, "it ended by itself after {said:?}");
    said
}

async fn check(store: &str, said: &Said) {
    let windlass = labor::builder(store).start().await.unwrap();
    // What was due while nobody was there fires, then nothing more.
    let times = occurrences(&all(&windlass).await);
    let triggers = windlass.triggers().unwrap();
    let (began, ids) = (Instant::now(), times.keys().cloned().collect::<Vec<_>>());
    for id in &ids {
        while occurrences(&all(&windlass).await)[id].len() <= times[id].len() {
            assert!(began.elapsed() < PATIENCE, "{id} does not fire any more");
            pause().await;
        }
        triggers.remove(&id.parse().unwrap()).await.unwrap();
    }
    let jobs = loop {
        let jobs = all(&windlass).await;
        let left = jobs.iter().find(|job| !job.status.is_ended());
        let Some(left) = left else { break jobs };
        assert!(began.elapsed() < PATIENCE, "it never ends: {left:?}");
        pause().await;
    };
    for (id, status) in said {
        let job = jobs.iter().find(|job| job.id.to_string() == *id);
        let Some(job) = job else { panic!("job {id} was acknowledged and is not there") };
        let told = status.as_ref().is_none_or(|status| *status == job.status.to_string());
        assert!(told, "{status:?} was acknowledged, and it is {job:?}");
    }
    for job in &jobs {
        job.check().unwrap();
        let own = job.result.as_ref().is_some_and(|result| result.as_str() == format!("\"{}\"", job.id));
        assert!(job.status != JobStatus::Completed || own, "{job:?}");
    }
    let fired = occurrences(&jobs);
    println!("{:?}", fired.iter().map(|(id, times)| (id, times.len())).collect::<Vec<_>>());
    for (id, times) in fired {
        let gap = times.windows(2).find(|pair| pair[1] - pair[0] != EVERY_MS);
        assert!(gap.is_none(), "{id} fired for {gap:?}");
    }
    windlass.stop().await;
}

async fn pause() {
    // sleep: between two looks at the store.
    tokio::time::sleep(Duration::from_millis(20)).await;
}

/// The times of each trigger for which there is a job, in order.
fn occurrences(jobs: &[Job]) -> BTreeMap<String, Vec<u64>> {
    let mut times: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (id, at) in jobs.iter().filter_map(|job| job.key.as_ref()?.rsplit_once('@')) {
        times.entry(id.to_owned()).or_default().push(at.parse().unwrap());
    }
    times.values_mut().for_each(|times| times.sort_unstable());
    times
}

async fn all(windlass: &Windlass) -> Vec<Job> {
    let (mut jobs, mut after) = (Vec::new(), None);
    loop {
        let page = windlass.jobs().list(&JobFilter::default(), after.as_ref(), PAGE_MAX).await.unwrap();
        jobs.extend(page.items);
        after = page.next;
        if after.is_none() {
            return jobs;
        }
    }
}
