//! A process trusts what it knows of its tasks only as long as nobody else has written them.

use windlass_conformance::world::overtaken::Overtaken;
use windlass_conformance::world::step::{self, Draft};
use windlass_conformance::world::{Attempt, Rival, id};
use windlass_core::event::Fact;
use windlass_core::port::Refusal;
use windlass_core::port::state::Key;
use windlass_core::task::status::TaskStatus;
use windlass_core::task::{Cause, Control, Request};
use windlass_store_redis::{Options, Redis};

use crate::layout;
use crate::server::{Space, space};

/// What is under a prefix, as it was.
pub(crate) struct Copy {
    server: redis::Connection,
    prefix: String,
    /// Keys, how long they had, and what they held.
    kept: Vec<(String, i64, Vec<u8>)>,
}

impl Copy {
    pub(crate) fn of(url: &str, prefix: &str) -> Copy {
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
    pub(crate) fn put_back(&mut self) {
        for key in self.keys() {
            redis::cmd("DEL").arg(key).exec(&mut self.server).unwrap();
        }
        for (key, left, held) in &self.kept {
            redis::cmd("RESTORE").arg(key).arg((*left).max(0)).arg(held).exec(&mut self.server).unwrap();
        }
    }
}

/// Two processes on one server.
struct Two {
    space: Space,
    stores: [Redis; 2],
    one: Rival,
    other: Rival,
}

impl Two {
    async fn open() -> Two {
        let space = space();
        let options = Options { prefix: space.prefix.clone(), ..Options::default() };
        let stores =
            [Redis::open(&space.url, &options).await.unwrap(), Redis::open(&space.url, &options).await.unwrap()];
        let one = Rival { ports: layout::ports(&stores[0]), me: id("one") };
        let other = Rival { ports: layout::ports(&stores[1]), me: id("other") };
        one.beat(30_000).await;
        other.beat(30_000).await;
        Two { space, stores, one, other }
    }

    fn copy(&self) -> Copy {
        Copy::of(&self.space.url, &self.space.prefix)
    }

    async fn close(self) {
        for store in self.stores {
            store.close().await;
        }
    }
}

const RUNNING: &[TaskStatus] = &[TaskStatus::Running];

#[test]
fn a_server_that_went_back_and_on_again_is_not_taken_for_what_it_was() {
    windlass_conformance::harness::block_on(async {
        let two = Two::open().await;
        let (one, other) = (&two.one, &two.other);
        let draft = Draft::new("back-1", &["acme"]).stages(6);
        one.run(&draft).await;
        let attempt = one.begin(&draft.task(0)).await;
        one.stage(&attempt).await;
        let mut copy = two.copy();
        one.stage(&attempt).await;
        let left = one.stage(&attempt).await;
        let next = one.boundary(&attempt).await;

        // Two writes are lost and two others made: there are as many as before, and nothing else tells that they are not ours.
        copy.put_back();
        other.done(&step::asks("ask", &attempt.task, RUNNING, step::pause())).await;
        let now = other.done(&step::asks("again", &attempt.task, RUNNING, Request::Unpause)).await;
        assert_eq!(now.version, left.version);
        one.refused(&next).await;
        assert_eq!(one.task(&attempt.task).await.version, now.version);
        two.close().await;
    });
}

#[test]
fn what_another_process_claimed_while_the_server_had_gone_back_is_not_begun() {
    windlass_conformance::harness::block_on(async {
        let two = Two::open().await;
        let (one, other) = (&two.one, &two.other);
        let draft = Draft::new("back-2", &["acme"]);
        one.run(&draft).await;
        let task = draft.task(0);
        let mut copy = two.copy();
        let mine = one.take(&task).await.unwrap();

        copy.put_back();
        let theirs = other.take(&task).await.unwrap();
        assert_eq!(theirs.version, mine.version);
        let fence = one.acquire("acme", task.as_str(), 30_000).await.unwrap().fence;
        let attempt = Attempt { task: task.clone(), tenant: mine.task.tenant.clone(), instance: one.me.clone(), fence };
        let refused = one.refused(&step::begins("begin", &mine, &attempt)).await;
        assert!(matches!(refused, Refusal::Owned { owner: Some(owner), .. } if owner == other.me));
        assert_eq!(one.task(&task).await, theirs);
        two.close().await;
    });
}

#[test]
fn what_is_asked_here_is_known_here_unless_the_server_forgot_it() {
    windlass_conformance::harness::block_on(async {
        let two = Two::open().await;
        let (one, other) = (&two.one, &two.other);
        let draft = Draft::new("here-1", &["acme", "oak"]).stages(6);
        one.run(&draft).await;
        for (position, forgets) in [(0, false), (1, true)] {
            let attempt = one.begin(&draft.task(position)).await;
            let mut copy = two.copy();
            one.done(&step::asks(&format!("ask-{position}"), &attempt.task, RUNNING, step::pause())).await;
            if forgets {
                copy.put_back();
                other.done(&step::asks("other", &attempt.task, RUNNING, step::cancel())).await;
            }
            let row = one.task(&attempt.task).await;
            assert_eq!((row.control.pause.is_some(), row.control.cancel.is_some()), (!forgets, forgets));
            let pauses = vec![Fact::TaskPaused { cause: Cause::Person }];
            let stepped = one.done(&step::owner(&format!("pause-{position}"), &row, &attempt, pauses)).await;
            let row = one.task(&attempt.task).await;
            assert_eq!((row.task.status, row.version), (TaskStatus::Paused, stepped.version));
            assert_eq!((&row.control, &stepped.control), (&Control::default(), &Control::default()));
            assert!(one.beat(30_000).await.asked.is_empty(), "nothing is wanted any more");
        }
        two.close().await;
    });
}

#[test]
fn what_another_process_asks_is_heard_at_the_next_boundary() {
    windlass_conformance::harness::block_on(async {
        let two = Two::open().await;
        let (one, other) = (&two.one, &two.other);
        let draft = Draft::new("asked-1", &["acme"]).stages(6);
        one.run(&draft).await;
        let attempt = one.begin(&draft.task(0)).await;
        let first = one.stage(&attempt).await;
        let second = one.stage(&attempt).await;
        assert_eq!((second.version, second.control.pause), (first.version + 1, None));

        let asked = other.done(&step::asks("ask", &attempt.task, RUNNING, step::pause())).await;
        let third = one.stage(&attempt).await;
        assert!(third.control.pause.is_some(), "it was asked for elsewhere");
        assert_eq!(third.version, asked.version + 1);
        other.done(&step::asks("again", &attempt.task, RUNNING, Request::Unpause)).await;
        assert_eq!(one.stage(&attempt).await.control.pause, None);

        other.done(&step::asks("once-more", &attempt.task, RUNNING, step::pause())).await;
        let unasked = other.done(&step::asks("and-back", &attempt.task, RUNNING, Request::Unpause)).await;
        let last = one.stage(&attempt).await;
        assert_eq!(last.version, unasked.version + 1);
        let row = one.task(&attempt.task).await;
        assert_eq!((row.version, row.seq, row.checkpoint), (last.version, last.seq, 5));
        let numbers: Vec<u64> =
            one.history(Key::TaskHistory(attempt.task.clone())).await.iter().map(|event| event.seq).collect();
        assert_eq!(numbers, (1..=last.seq).collect::<Vec<_>>(), "each is kept once, in order");
        two.close().await;
    });
}

#[test]
fn who_is_overtaken_the_long_way_writes_no_more() {
    windlass_conformance::harness::block_on(async {
        let two = Two::open().await;
        let one = &two.one;
        let Overtaken { attempt, late, begins } = Overtaken::by(one, ["past-1", "past-2"]).await;
        let fence = begins.tasks[0].task.fence;
        // A process that knows nothing of the task.
        let stranger = Rival { me: one.me.clone(), ..two.other.clone() };
        stranger.done(&begins).await;
        assert_eq!(one.commit(&late).await, Err(Refusal::Stale { given: attempt.fence, stored: fence }));
        two.close().await;
    });
}

#[test]
fn who_was_overtaken_and_begins_again_overtakes_the_other() {
    windlass_conformance::harness::block_on(async {
        let two = Two::open().await;
        let one = &two.one;
        let (first, second) = (Draft::new("turn-1", &["acme"]).stages(6), Draft::new("turn-2", &["acme"]));
        one.run(&first).await;
        one.run(&second).await;
        let mut copy = two.copy();
        let mut overtaken = || -> [bool; 2] {
            [&first, &second].map(|draft| {
                let key = format!("{}executor:task:{}", two.space.prefix, draft.task(0));
                let op: Option<String> = redis::cmd("HGET").arg(key).arg("op").query(&mut copy.server).unwrap();
                op.is_some_and(|op| op.ends_with('!'))
            })
        };
        for (draft, is) in [(&first, [false, false]), (&second, [true, false]), (&first, [false, true])] {
            let attempt = one.begin(&draft.task(0)).await;
            assert_eq!(overtaken(), is);
            one.fail(&attempt).await;
            let op = format!("retry-{}-{}", attempt.task, attempt.fence);
            one.done(&step::asks(&op, &attempt.task, &[TaskStatus::Failed], step::retry())).await;
        }
        two.close().await;
    });
}

#[test]
fn who_is_overtaken_in_the_same_call_writes_no_more() {
    // On one thread what is begun together goes out together, in this order.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let two = Two::open().await;
        let one = &two.one;
        let Overtaken { attempt, begins, .. } = Overtaken::by(one, ["over-1", "over-2"]).await;
        let row = one.task(&attempt.task).await;
        let late = step::owner("late", &row, &attempt, vec![Fact::TaskPaused { cause: Cause::Person }]);
        let fence = begins.tasks[0].task.fence;
        let (begun, late) = tokio::join!(one.commit(&begins), one.commit(&late));
        begun.unwrap();
        assert_eq!(late, Err(Refusal::Stale { given: attempt.fence, stored: fence }));
        assert_eq!(one.commit(&one.boundary(&attempt).await).await.unwrap_err(), late.unwrap_err(), "and never again");
        two.close().await;
    });
}
