//! A process trusts what it left of a running task only as long as nobody else has written it.

use windlass_conformance::world::step::{self, Draft};
use windlass_conformance::world::{Rival, id};
use windlass_core::port::state::Key;
use windlass_core::task::status::TaskStatus;
use windlass_store_redis::{Options, Redis};

use crate::layout;
use crate::server::space;

/// What is under a prefix, as it was.
struct Copy {
    server: redis::Connection,
    prefix: String,
    /// Keys, how long they had, and what they held.
    kept: Vec<(String, i64, Vec<u8>)>,
}

impl Copy {
    fn of(url: &str, prefix: &str) -> Copy {
        let mut copy = Copy {
            server: redis::Client::open(url).unwrap().get_connection().unwrap(),
            prefix: prefix.to_owned(),
            kept: Vec::new(),
        };
        for key in copy.keys() {
            let left: i64 = redis::cmd("PTTL").arg(&key).query(&mut copy.server).unwrap();
            let held = redis::cmd("DUMP").arg(&key).query(&mut copy.server).unwrap();
            copy.kept.push((key, left, held));
        }
        copy
    }

    fn keys(&mut self) -> Vec<String> {
        redis::cmd("KEYS").arg(format!("{}*", self.prefix)).query(&mut self.server).unwrap()
    }

    /// As a server does that comes back from a copy, or as a replica that had not heard of the last writes.
    fn put_back(&mut self) {
        for key in self.keys() {
            redis::cmd("DEL").arg(key).exec(&mut self.server).unwrap();
        }
        for (key, left, held) in &self.kept {
            redis::cmd("RESTORE").arg(key).arg((*left).max(0)).arg(held).exec(&mut self.server).unwrap();
        }
    }
}

#[test]
fn a_server_that_went_back_and_on_again_is_not_taken_for_what_it_was() {
    windlass_conformance::harness::block_on(async {
        let space = space();
        let options = Options { prefix: space.prefix.clone(), ..Options::default() };
        let mine = Redis::open(&space.url, &options).await.unwrap();
        let theirs = Redis::open(&space.url, &options).await.unwrap();
        let one = Rival { ports: layout::ports(&mine), me: id("one") };
        let other = Rival { ports: layout::ports(&theirs), me: id("other") };
        one.beat(30_000).await;
        let draft = Draft::new("back-1", &["acme"]).stages(6);
        one.run(&draft).await;
        let attempt = one.begin(&draft.task(0)).await;
        one.stage(&attempt).await;
        let mut copy = Copy::of(&space.url, &space.prefix);
        let left = one.stage(&attempt).await;
        let next = one.boundary(&attempt).await;

        // One write is lost and another made: there are as many as before, and the last is not ours.
        copy.put_back();
        let asked = other.done(&step::asks("ask", &attempt.task, &[TaskStatus::Running], step::pause())).await;
        assert_eq!(asked.version, left.version);
        one.refused(&next).await;
        assert!(one.task(&attempt.task).await.control.pause.is_some());
        mine.close().await;
        theirs.close().await;
    });
}

#[test]
fn what_another_process_asks_is_heard_at_the_next_boundary() {
    windlass_conformance::harness::block_on(async {
        let space = space();
        let options = Options { prefix: space.prefix.clone(), ..Options::default() };
        let mine = Redis::open(&space.url, &options).await.unwrap();
        let theirs = Redis::open(&space.url, &options).await.unwrap();
        let one = Rival { ports: layout::ports(&mine), me: id("one") };
        let other = Rival { ports: layout::ports(&theirs), me: id("other") };
        one.beat(30_000).await;
        let draft = Draft::new("asked-1", &["acme"]).stages(6);
        one.run(&draft).await;
        let attempt = one.begin(&draft.task(0)).await;
        let first = one.stage(&attempt).await;
        let second = one.stage(&attempt).await;
        assert_eq!((second.version, second.control.pause), (first.version + 1, None));

        let running = [TaskStatus::Running];
        let asked = other.done(&step::asks("ask", &attempt.task, &running, step::pause())).await;
        let third = one.stage(&attempt).await;
        assert!(third.control.pause.is_some(), "it was asked for elsewhere");
        assert_eq!(third.version, asked.version + 1);
        other.done(&step::asks("again", &attempt.task, &running, windlass_core::task::Request::Unpause)).await;
        assert_eq!(one.stage(&attempt).await.control.pause, None);

        let last = one.stage(&attempt).await;
        let row = one.task(&attempt.task).await;
        assert_eq!((row.version, row.seq, row.checkpoint), (last.version, last.seq, 5));
        let numbers: Vec<u64> =
            one.history(Key::TaskHistory(attempt.task.clone())).await.iter().map(|event| event.seq).collect();
        assert_eq!(numbers, (1..=last.seq).collect::<Vec<_>>(), "each is kept once, in order");
        mine.close().await;
        theirs.close().await;
    });
}
