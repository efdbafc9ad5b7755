//! The hash of a task, as it lies in Redis.

use redis::Connection;
use windlass_conformance::world::step::Draft;
use windlass_conformance::world::{Rival, id};
use windlass_core::id::{InstanceId, OpId};
use windlass_core::port::Refusal;
use windlass_core::port::state::{LastOp, Op};
use windlass_core::task::Task;
use windlass_core::time::Ms;
use windlass_store_redis::{Options, Redis};

use crate::layout;
use crate::server::{Space, space};

/// One instance, and a look at what it stores.
struct One {
    store: Redis,
    rival: Rival,
    server: Connection,
    space: Space,
}

impl One {
    async fn open(me: &str) -> One {
        let space = space();
        let options = Options { prefix: space.prefix.clone(), ..Options::default() };
        let store = Redis::open(&space.url, &options).await.unwrap();
        let rival = Rival { ports: layout::ports(&store), me: id(me) };
        rival.beat(30_000).await;
        let server = redis::Client::open(space.url.as_str()).unwrap().get_connection().unwrap();
        One { store, rival, server, space }
    }

    /// Asks the server something of a task's hash.
    fn ask<T: redis::FromRedisValue>(&mut self, words: &[&str], draft: &Draft, more: &[&str]) -> T {
        let key = format!("{}executor:task:{}", self.space.prefix, draft.task(0));
        redis::cmd(words[0]).arg(&words[1..]).arg(key).arg(more).query(&mut self.server).unwrap()
    }
}

#[test]
fn a_task_that_runs_is_one_piece_of_memory_however_much_its_instance_has_done() {
    windlass_conformance::harness::block_on(async {
        let me = format!("i-{}", "0".repeat(32));
        let mut one = One::open(&me).await;
        let tenant = "t".repeat(64);
        let draft = Draft::new("piece-1", &[&tenant]).stages(100);
        one.rival.run(&draft).await;
        let attempt = one.rival.begin(&draft.task(0)).await;
        let instance: InstanceId = me.parse().unwrap();
        // The numbers of operations are as long as they can become: as a boundary that knows its row writes them, and as one that does not.
        let longest = |less: u64| Op { id: OpId::of(&instance, 9_999_999_999 - less), digest: 9_999_999_999 - less };
        for less in 0..3 {
            let mut step = one.rival.boundary(&attempt).await;
            step.op = longest(less);
            let done = one.rival.done(&step).await;
            assert_eq!(one.ask::<String>(&["OBJECT", "ENCODING"], &draft, &[]), "listpack");
            let last = LastOp { id: step.op.id.clone(), digest: step.op.digest, at: done.at };
            let row = one.rival.task(&draft.task(0)).await;
            assert_eq!((row.op, row.task.completed), (Some(last), u32::try_from(less).unwrap() + 1));
            assert_eq!(one.rival.commit(&step).await, Ok(done), "the same again");
            step.op.digest = 1;
            assert!(matches!(one.rival.commit(&step).await, Err(Refusal::OpReused)));
        }
        one.store.close().await;
    });
}

#[test]
fn what_is_seldom_of_a_task_is_written_by_a_boundary_too() {
    windlass_conformance::harness::block_on(async {
        let one = One::open("one").await;
        let draft = Draft::new("seldom-1", &["acme"]).stages(20);
        one.rival.run(&draft).await;
        let attempt = one.rival.begin(&draft.task(0)).await;
        // It comes, it changes, it goes; and between, as it stays.
        let attempt_is = |task: &mut Task, number| task.attempt.as_mut().unwrap().number = number;
        let changes: [&dyn Fn(&mut Task); 11] = [
            &|_| (),
            &|task| task.retries = 2,
            &|_| (),
            &|task| attempt_is(task, 3),
            &|task| task.retries = 0,
            &|task| attempt_is(task, 1),
            &|task| task.ready_at = Ms::new(7),
            &|task| task.started_at = Some(Ms::new(8)),
            &|task| task.ended_at = Some(Ms::new(9)),
            &|_| (),
            &|task| (task.started_at, task.ended_at) = (None, None),
        ];
        for change in changes {
            let mut step = one.rival.boundary(&attempt).await;
            change(&mut step.tasks[0].task);
            one.rival.done(&step).await;
            assert_eq!(one.rival.task(&draft.task(0)).await.task, step.tasks[0].task);
        }
        one.store.close().await;
    });
}

#[test]
fn a_row_of_an_earlier_layout_is_read_and_goes_on() {
    windlass_conformance::harness::block_on(async {
        for takes in [false, true] {
            let mut one = One::open("one").await;
            let draft = Draft::new("earlier-1", &["acme"]).stages(6);
            one.rival.run(&draft).await;
            let attempt = one.rival.begin(&draft.task(0)).await;
            one.rival.stage(&attempt).await;
            let row = one.rival.task(&draft.task(0)).await;

            let op = row.op.as_ref().unwrap();
            let op = format!("{} {} {}", op.id, op.digest, op.at.get());
            let detail = r#"{"stages":6,"completed":1,"stage":1,"attempt":{"number":1,"kind":"FIRST","range":{"from":0,"to":6},"done":1}}"#;
            one.ask::<u32>(&["HDEL"], &draft, &["stages", "completed", "stage", "attempt", "done"]);
            one.ask::<u32>(&["HSET"], &draft, &["detail", detail, "op", &op]);
            assert_eq!(one.rival.task(&draft.task(0)).await, row);

            // Whoever did not write it writes it as it is written now.
            let options = Options { prefix: one.space.prefix.clone(), ..Options::default() };
            let store = Redis::open(&one.space.url, &options).await.unwrap();
            let next = Rival { ports: layout::ports(&store), me: one.rival.me.clone() };
            if takes {
                assert_eq!(next.take(&attempt.task).await, Ok(row));
            }
            next.stage(&attempt).await;
            store.close().await;
            assert_eq!(one.rival.task(&draft.task(0)).await.task.completed, 2);
            assert_eq!(
                one.ask::<[String; 3]>(&["HMGET"], &draft, &["stages", "completed", "detail"]),
                ["6".to_owned(), "2".to_owned(), String::new()]
            );
            one.store.close().await;
        }
    });
}
