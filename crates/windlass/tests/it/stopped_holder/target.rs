//! What stages work on: a server that remembers the largest fence of every tenant and refuses a smaller one. It decides when a
//! stage begins and ends, so that a test can stop a process at a place of its choice.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// One run of a stage, as it introduces itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    /// Which process.
    pub(crate) who: String,
    pub(crate) tenant: String,
    pub(crate) stage: String,
    pub(crate) fence: u64,
    /// `plan/task/stage/pass`
    pub(crate) key: String,
}

impl Run {
    pub(crate) fn plan(&self) -> &str {
        self.key.split('/').next().unwrap()
    }

    fn parse(words: &[&str]) -> Run {
        let [who, tenant, stage, _pass, fence, key] = *words else { panic!("{words:?} is no run") };
        let [who, tenant, stage, key] = [who, tenant, stage, key].map(str::to_owned);
        Run { who, tenant, stage, fence: fence.parse().unwrap(), key }
    }
}

/// Where a run waits for leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Before its effect.
    Begin,
    /// After its effect, before it is over.
    End,
}

#[derive(Default)]
struct Log {
    fences: BTreeMap<String, u64>,
    accepted: Vec<Run>,
    refused: Vec<Run>,
    /// Who is between begin and end, and under which fence.
    inside: Vec<Run>,
    overlaps: Vec<(Run, Run)>,
    /// Where the next run that comes by is held, and how its key begins: who was stopped in an earlier round may still be on
    /// its way.
    hold: Option<(Gate, String)>,
    /// Who is held there.
    held: Option<Run>,
}

/// The server; its threads end with the process.
#[derive(Clone)]
pub(crate) struct Target {
    log: Arc<(Mutex<Log>, Condvar)>,
    /// Where it listens.
    pub(crate) address: String,
}

impl Target {
    pub(crate) fn start() -> Target {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = Target { log: Arc::default(), address: listener.local_addr().unwrap().to_string() };
        let serves = target.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let serves = serves.clone();
                std::thread::spawn(move || serves.serve(stream.unwrap()));
            }
        });
        target
    }

    /// One run. Whoever has gone in the middle, dropped or killed, is not inside any more.
    fn serve(&self, stream: TcpStream) {
        let mut out = stream.try_clone().unwrap();
        let mut last = None;
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let words: Vec<&str> = line.split(' ').collect();
            let run = Run::parse(&words[1..]);
            let answer = match words[0] {
                "begin" => {
                    self.enters(&run);
                    self.pass(&run, Gate::Begin)
                }
                "effect" => self.judge(&run),
                _ => {
                    let leave = self.pass(&run, Gate::End);
                    self.leaves(&run);
                    leave
                }
            };
            last = Some(run);
            if out.write_all(format!("{answer}\n").as_bytes()).is_err() {
                break;
            }
        }
        if let Some(run) = last {
            self.leaves(&run);
        }
    }

    fn enters(&self, run: &Run) {
        let mut log = self.lock();
        let other = log.inside.iter().find(|other| other.tenant == run.tenant).cloned();
        if let Some(other) = other {
            log.overlaps.push((other, run.clone()));
        }
        log.inside.push(run.clone());
    }

    fn leaves(&self, run: &Run) {
        self.lock().inside.retain(|inside| inside != run);
    }

    fn judge(&self, run: &Run) -> &'static str {
        let mut log = self.lock();
        let largest = log.fences.entry(run.tenant.clone()).or_default();
        if run.fence < *largest {
            log.refused.push(run.clone());
            return "stale";
        }
        *largest = run.fence;
        log.accepted.push(run.clone());
        "taken"
    }

    /// Leave to go on, now or when the test gives it.
    fn pass(&self, run: &Run, gate: Gate) -> &'static str {
        let mut log = self.lock();
        if log.hold.as_ref().is_some_and(|(at, key)| *at == gate && run.key.starts_with(key)) {
            log.hold = None;
            log.held = Some(run.clone());
            self.log.1.notify_all();
            while log.held.as_ref() == Some(run) {
                log = self.log.1.wait(log).unwrap();
            }
        }
        "go"
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.0.lock().unwrap()
    }

    /// The next run that comes to this gate, and whose key begins so, waits there.
    pub(crate) fn hold(&self, gate: Gate, key: impl Into<String>) {
        self.lock().hold = Some((gate, key.into()));
    }

    /// Waits until a run is held.
    pub(crate) fn held(&self, patience: Duration) -> Run {
        let end = Instant::now() + patience;
        let mut log = self.lock();
        loop {
            if let Some(run) = &log.held {
                return run.clone();
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no stage came; accepted so far: {:?}", log.accepted);
            log = self.log.1.wait_timeout(log, left).unwrap().0;
        }
    }

    /// Gives leave to whoever is held. A process that is stopped finds it when it wakes.
    pub(crate) fn give_leave(&self) {
        self.lock().held = None;
        self.log.1.notify_all();
    }

    /// The effects of a plan that were accepted, and those that were refused.
    pub(crate) fn effects(&self, plan: &str) -> (Vec<Run>, Vec<Run>) {
        let log = self.lock();
        let of = |runs: &[Run]| runs.iter().filter(|run| run.plan() == plan).cloned().collect();
        (of(&log.accepted), of(&log.refused))
    }

    /// Pairs of tasks of one tenant that were in a stage at the same time.
    pub(crate) fn overlaps(&self) -> Vec<(Run, Run)> {
        self.lock().overlaps.clone()
    }
}
