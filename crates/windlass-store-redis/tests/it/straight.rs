//! Boundaries that go straight in, without a script, and everything that stops them from doing so.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::JoinSet;
use windlass_conformance::world::overtaken::Overtaken;
use windlass_conformance::world::step::{self, Draft};
use windlass_conformance::world::{Attempt, Rival, id};
use windlass_core::id::TaskId;
use windlass_core::port::state::{CheckpointPut, Key, LastOp, Step, Stepped};
use windlass_core::port::{PortError, Refusal};
use windlass_core::task::Request;
use windlass_core::task::status::TaskStatus;
use windlass_core::time::Ms;
use windlass_store_redis::{Options, Redis};

use crate::layout;
use crate::onward::Copy;
use crate::server::Server;

/// More than are done before new connections are there for boundaries.
const STAGES: u32 = 5_000;
const RUNNING: &[TaskStatus] = &[TaskStatus::Running];

/// Two processes on a server of their own: of the first one's boundaries it is counted which are left to scripts.
struct Place {
    stores: [Redis; 2],
    one: Rival,
    other: Rival,
    admin: redis::Connection,
    server: Server,
}

impl Place {
    async fn open() -> Place {
        Place::set(&[]).await
    }

    /// With these commands given to the server first.
    async fn set(commands: &[&[&str]]) -> Place {
        Place::ahead(commands, 0).await
    }

    /// Likewise, and the other process takes it to be so much later.
    async fn ahead(commands: &[&[&str]], ahead_ms: u64) -> Place {
        let server = Server::start(&["--appendonly", "no"]);
        let mut admin = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
        for command in commands {
            redis::cmd(command[0]).arg(&command[1..]).exec(&mut admin).unwrap();
        }
        let options = Options::default();
        let stores = [
            Redis::open(&server.url(), &options).await.unwrap(),
            Redis::open(&server.url(), &Options { ahead_ms, ..options }).await.unwrap(),
        ];
        let one = Rival { ports: layout::ports(&stores[0]), me: id("one") };
        let other = Rival { ports: layout::ports(&stores[1]), me: id("other") };
        one.beat(30_000).await;
        other.beat(30_000).await;
        Place { stores, one, other, admin, server }
    }

    fn ask<T: redis::FromRedisValue>(&mut self, words: &[&str]) -> T {
        redis::cmd(words[0]).arg(&words[1..]).query(&mut self.admin).unwrap()
    }

    /// A number that the server keeps of a command.
    fn stat(&mut self, command: &str, name: &str) -> u64 {
        let all: String = self.ask(&["INFO", "commandstats"]);
        let line = all.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:")));
        let stat = line.into_iter().flat_map(|line| line.split(',')).find_map(|stat| stat.strip_prefix(name));
        stat.map_or(0, |stat| stat[1..].parse().unwrap())
    }

    fn is_sealed(&mut self) -> bool {
        self.ask(&["EXISTS", "windlass:executor:seal:one"])
    }

    /// Does the step, which must be taken; and whether without a script.
    async fn done(&mut self, step: &Step) -> (Stepped, bool) {
        let before = self.stat("fcall", "calls");
        let stepped = self.one.done(step).await;
        (stepped, self.stat("fcall", "calls") == before)
    }

    /// Does stages of it until one goes straight in: that one.
    async fn straight(&mut self, attempt: &Attempt) -> (Step, Stepped) {
        loop {
            let step = self.one.boundary(attempt).await;
            if let (stepped, true) = self.done(&step).await {
                return (step, stepped);
            }
        }
    }

    /// A task of the first process whose boundaries go straight in.
    async fn runs(&mut self, plan: &str) -> Attempt {
        let draft = Draft::new(plan, &[&format!("{plan}-tenant")]).stages(STAGES);
        self.one.run(&draft).await;
        let attempt = self.one.begin(&draft.task(0)).await;
        self.straight(&attempt).await;
        assert!(self.is_sealed());
        attempt
    }

    /// What the first process does next is left to a script, which finds what others did; then all is as before.
    async fn looks_once(&mut self, attempt: &Attempt) {
        assert!(!self.is_sealed(), "somebody has written, and the owner is not told");
        let step = self.one.boundary(attempt).await;
        assert!(!self.done(&step).await.1);
        self.straight(attempt).await;
    }

    async fn close(self) {
        for store in self.stores {
            store.close().await;
        }
    }
}

fn block_on(test: impl Future<Output = ()>) {
    windlass_conformance::harness::block_on(test);
}

#[test]
fn what_goes_straight_in_is_what_a_script_would_have_written() {
    block_on(async {
        let mut place = Place::open().await;
        let draft = Draft::new("plain-1", &["acme"]).stages(STAGES);
        place.one.run(&draft).await;
        let attempt = place.one.begin(&draft.task(0)).await;
        place.straight(&attempt).await;
        // More events than are kept.
        for _ in 0..210 {
            let before = place.other.task(&attempt.task).await;
            let step = place.one.boundary(&attempt).await;
            let (stepped, straight) = place.done(&step).await;
            assert!(straight);
            let row = place.other.task(&attempt.task).await;
            let seq = before.seq + step.events.len() as u64;
            assert_eq!((stepped.version, stepped.seq), (before.version + 1, seq));
            assert_eq!((row.version, row.seq, row.checkpoint), (stepped.version, seq, before.checkpoint + 1));
            assert_eq!(row.task, step.tasks[0].task);
            let op = LastOp { id: step.op.id.clone(), digest: step.op.digest, at: stepped.at };
            assert_eq!(row.op, Some(op));
            let stored = place.other.checkpoint(&attempt.task).await.unwrap();
            assert_eq!(CheckpointPut::Put(stored), step.checkpoint);
        }
        let history = place.other.history(Key::TaskHistory(attempt.task.clone())).await;
        let last = place.other.task(&attempt.task).await.seq;
        assert!(history.iter().map(|event| event.seq).eq(last - 199..=last), "the last 200, in order");

        // Whoever did not hear of it asks again, here or after a restart.
        let (mut step, stepped) = place.straight(&attempt).await;
        for again in [&place.other, &place.one] {
            assert_eq!(again.commit(&step).await, Ok(stepped.clone()));
        }
        step.op.digest += 1;
        assert_eq!(place.one.refused(&step).await, Refusal::OpReused);
        place.straight(&attempt).await;
        place.close().await;
    });
}

#[test]
fn what_another_process_asks_is_heard_at_the_next_boundary() {
    block_on(async {
        let mut place = Place::open().await;
        let attempt = place.runs("asked-1").await;
        let next = place.one.boundary(&attempt).await;
        let asked = place.other.done(&step::asks("ask", &attempt.task, RUNNING, step::pause())).await;
        assert!(!place.is_sealed());
        let (heard, straight) = place.done(&next).await;
        assert!(heard.control.pause.is_some() && !straight);
        assert_eq!(heard.version, asked.version + 1);
        assert_eq!(place.one.task(&attempt.task).await.version, heard.version);
        place.close().await;
    });
}

#[test]
fn who_is_overtaken_writes_no_more() {
    // By a process that knows the tasks, and by one that does not.
    for knows in [true, false] {
        block_on(async {
            let mut place = Place::open().await;
            place.runs("first-1").await;
            let Overtaken { attempt, late, begins } = Overtaken::by(&place.one, ["past-1", "past-2"]).await;
            assert!(place.is_sealed());
            let stranger = Rival { me: place.one.me.clone(), ..place.other.clone() };
            if knows { &place.one } else { &stranger }.done(&begins).await;
            assert!(!place.is_sealed());
            let stored = begins.tasks[0].task.fence;
            assert_eq!(place.one.refused(&late).await, Refusal::Stale { given: attempt.fence, stored });
            place.close().await;
        });
    }
}

#[test]
fn who_is_taken_for_dead_writes_no_more() {
    block_on(async {
        let mut place = Place::ahead(&[], 60_000).await;
        let attempt = place.runs("dead-1").await;
        let late = place.one.boundary(&attempt).await;
        place.other.take(&attempt.task).await.unwrap();
        assert!(!place.is_sealed());
        let refused = place.one.refused(&late).await;
        assert!(matches!(refused, Refusal::Owned { owner: Some(owner), .. } if owner == place.other.me));
        place.close().await;
    });
}

#[test]
fn who_takes_what_it_has_does_not_know_how_it_is() {
    block_on(async {
        let mut place = Place::open().await;
        let attempt = place.runs("again-1").await;
        place.one.take(&attempt.task).await.unwrap();
        place.looks_once(&attempt).await;
        place.close().await;
    });
}

#[test]
fn what_somebody_writes_of_one_task_stops_none_for_long() {
    block_on(async {
        let mut place = Place::open().await;
        let [first, second] = [place.runs("each-1").await, place.runs("each-2").await];
        place.other.done(&step::asks("ask", &first.task, RUNNING, step::pause())).await;
        place.looks_once(&second).await;
        assert!(place.one.stage(&first).await.control.pause.is_some());
        place.close().await;
    });
}

#[test]
fn nothing_is_left_of_an_instance_that_ends_or_is_forgotten() {
    block_on(async {
        let mut place = Place::open().await;
        place.runs("ends-1").await;
        place.one.beat(0).await;
        assert!(!place.is_sealed());

        let mut place = Place::ahead(&[], 60_000).await;
        place.runs("gone-1").await;
        place.other.ports.state.purge(Ms::MAX, 1_000).await.unwrap();
        assert!(!place.is_sealed());

        let mut place = Place::open().await;
        let attempt = place.runs("over-1").await;
        place.one.end(&id("over-1"), Ms::new(1_600_000_000_000)).await;
        let late = place.one.boundary(&attempt).await;
        assert!(place.is_sealed());
        place.other.ports.state.purge(Ms::new(1_700_000_000_000), 1_000).await.unwrap();
        assert!(!place.is_sealed());
        assert!(matches!(place.one.refused(&late).await, Refusal::NotFound(_)));
        place.close().await;
    });
}

#[test]
fn no_write_is_lost_while_another_process_writes_the_same_tasks() {
    const TASKS: usize = 40;
    block_on(async {
        let mut place = Place::open().await;
        place.runs("warm-1").await;
        let draft = Draft::wide("all-1", TASKS).stages(100).at_once(100);
        place.one.run(&draft).await;
        let mut tasks = JoinSet::new();
        let left = Arc::new(AtomicUsize::new(TASKS));
        for position in 0..TASKS {
            let (one, left, attempt) =
                (place.one.clone(), Arc::clone(&left), place.one.begin(&draft.task(position)).await);
            tasks.spawn(async move {
                let mut versions = Vec::new();
                for _ in 0..100 {
                    versions.push(one.stage(&attempt).await.version);
                }
                left.fetch_sub(1, Ordering::Relaxed);
                (attempt.task, versions)
            });
        }
        let mut asked: HashMap<TaskId, Vec<u64>> = HashMap::new();
        for n in 0.. {
            if left.load(Ordering::Relaxed) == 0 {
                break;
            }
            let task = draft.task(n % TASKS);
            let request = if (n / TASKS).is_multiple_of(2) { step::pause() } else { Request::Unpause };
            let stepped = place.other.done(&step::asks(&format!("ask-{n}"), &task, RUNNING, request)).await;
            asked.entry(task).or_default().push(stepped.version);
        }
        while let Some(done) = tasks.join_next().await {
            let (task, mut versions) = done.unwrap();
            versions.extend(asked.remove(&task).unwrap_or_default());
            versions.sort_unstable();
            let last = place.other.task(&task).await.version;
            let first = last + 1 - versions.len() as u64;
            assert_eq!(
                versions,
                (first..=last).collect::<Vec<_>>(),
                "every write is one version, and every version one write"
            );
        }
        place.close().await;
    });
}

#[test]
fn a_server_that_comes_back_with_an_older_copy_is_not_taken_for_what_it_was() {
    // With new connections, and with those that were there.
    for ends in [true, false] {
        block_on(async {
            let mut place = Place::open().await;
            let first = place.runs("back-1").await;
            let second = place.runs("back-2").await;
            let third = place.runs("back-3").await;
            let mut copy = Copy::of(&place.server.url(), "");
            place.one.stage(&second).await;
            let late = place.one.boundary(&second).await;
            let clients: String = place.ask(&["CLIENT", "LIST"]);
            for client in clients.lines().filter(|client| ends && client.contains(" cmd=time ")) {
                let client = client.split(' ').next().unwrap().trim_start_matches("id=");
                place.ask::<()>(&["CLIENT", "KILL", "ID", client]);
            }
            copy.put_back();
            assert!(place.is_sealed(), "it is in the copy");
            let next = [place.one.boundary(&first).await];
            let answer = place.one.ports.state.commit(&next).await;
            assert_eq!(matches!(&answer, Err(PortError::Unavailable(_))), ends, "{answer:?}");
            place.straight(&third).await;
            assert!(matches!(place.one.refused(&late).await, Refusal::Checkpoint { .. }));
            place.close().await;
        });
    }
}

#[test]
fn who_may_not_watch_leaves_boundaries_to_scripts() {
    for command in ["watch", "multi", "exec"] {
        block_on(async {
            let mut place = Place::set(&[&["ACL", "SETUSER", "default", &format!("-{command}")]]).await;
            let draft = Draft::new("acl-1", &["acme"]).stages(STAGES);
            place.one.run(&draft).await;
            let attempt = place.one.begin(&draft.task(0)).await;
            let mut tried = 0;
            while tried < 2 {
                let step = place.one.boundary(&attempt).await;
                assert!(!place.done(&step).await.1);
                tried += u32::from(place.stat(command, "rejected_calls") > 0);
            }
            place.close().await;
        });
    }
}

#[test]
fn a_full_server_says_so_and_work_goes_on_when_it_has_room() {
    block_on(async {
        let mut place = Place::open().await;
        let attempt = place.runs("full-1").await;
        let next = place.one.boundary(&attempt).await;
        let before = place.one.everything().await;
        place.ask::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
        let full = place.one.ports.state.commit(std::slice::from_ref(&next)).await;
        assert!(matches!(&full, Err(PortError::Unavailable(why)) if why.contains("OOM")), "{full:?}");
        place.ask::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
        assert_eq!(place.one.everything().await, before);
        place.one.done(&next).await;
        place.close().await;
    });
}
