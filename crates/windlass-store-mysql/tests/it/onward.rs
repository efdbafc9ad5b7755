//! A process goes on from where it left its tasks without a look, as long as nobody else has written them.

use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;
use windlass_conformance::world::overtaken::Overtaken;
use windlass_conformance::world::step::{self, Draft};
use windlass_conformance::world::{Attempt, BORN, LATER_MS, Rival};
use windlass_core::id::TaskId;
use windlass_core::port::Refusal;
use windlass_core::task::StartKind;
use windlass_core::task::range::Range;
use windlass_core::task::status::TaskStatus;
use windlass_core::time::Ms;

use crate::beside::{WATCHDOG, forget, rival, rival_ahead};
use crate::server::{Database, client, database};

async fn running(database: &Database) -> (Rival, Attempt) {
    let one = rival(&database.url, "one").await;
    let draft = Draft::new("first", &["acme"]).stages(6);
    one.run(&draft).await;
    let attempt = one.begin(&draft.task(0)).await;
    (one, attempt)
}

#[tokio::test]
async fn a_boundary_is_written_without_a_look_at_its_tenant() {
    let database = database().await;
    let (one, attempt) = running(&database).await;
    let mut somebody = client(&database.url).await;
    somebody.query_drop("BEGIN").await.unwrap();
    somebody.query_drop("SELECT * FROM tenant_state FOR UPDATE").await.unwrap();
    let stepped = tokio::time::timeout(WATCHDOG, one.stage(&attempt)).await.expect("nobody waits for the tenant's row");
    somebody.query_drop("COMMIT").await.unwrap();
    let row = one.task(&attempt.task).await;
    assert_eq!((row.version, row.seq, row.task.completed), (stepped.version, stepped.seq, 1));
    let clock = somebody.query_first("SELECT CAST(UNIX_TIMESTAMP(UTC_TIMESTAMP(3)) * 1000 AS UNSIGNED)").await;
    let clock: u64 = clock.unwrap().unwrap();
    let at = row.op.unwrap().at;
    assert_eq!(at, stepped.at, "what a repeat is answered");
    assert!(clock.abs_diff(at.get()) < Duration::from_secs(60).as_millis() as u64, "{clock} and {at}");
}

#[tokio::test]
async fn what_another_process_has_asked_is_seen_at_the_next_boundary() {
    let database = database().await;
    let (one, attempt) = running(&database).await;
    one.stage(&attempt).await;
    let other = rival(&database.url, "other").await;
    other.done(&step::asks("ask", &attempt.task, &[TaskStatus::Running], step::pause())).await;
    assert!(one.stage(&attempt).await.control.pause.is_some());
    let row = one.task(&attempt.task).await;
    assert!(row.task.completed == 2 && row.control.pause.is_some(), "nothing is written over it: {row:?}");
}

#[tokio::test]
async fn a_task_that_is_gone_is_not_made_again() {
    let database = database().await;
    let (one, attempt) = running(&database).await;
    one.stage(&attempt).await;
    let late = one.boundary(&attempt).await;
    let mut somebody = client(&database.url).await;
    somebody.query_drop("DELETE FROM task_state_projection").await.unwrap();
    assert!(matches!(one.commit(&late).await, Err(Refusal::NotFound(_))));
    let left: Option<u64> = somebody.query_first("SELECT COUNT(*) FROM task_state_projection").await.unwrap();
    assert_eq!(left, Some(0));
}

#[tokio::test]
async fn a_task_that_was_made_anew_under_an_old_name_is_another() {
    let database = database().await;
    let (one, attempt) = running(&database).await;
    let stepped = one.stage(&attempt).await;
    let late = one.boundary(&attempt).await;
    forget(&mut client(&database.url).await).await;
    let other = rival(&database.url, "other").await;
    let draft = Draft::new("first", &["acme"]).stages(6).born(Ms::new(BORN.get() + 1));
    other.run(&draft).await;
    one.release(&attempt.held()).await.unwrap();
    let anew = other.begin(&draft.task(0)).await;
    let now = other.stage(&anew).await;
    assert_eq!((&anew.task, now.version), (&attempt.task, stepped.version));
    assert_eq!(one.commit(&late).await, Err(Refusal::Stale { given: attempt.fence, stored: anew.fence }));
    assert_eq!(other.task(&anew.task).await.version, now.version);
}

#[tokio::test]
async fn who_is_overtaken_by_another_process_writes_no_more() {
    let database = database().await;
    let one = rival(&database.url, "one").await;
    let Overtaken { attempt, late, begins } = Overtaken::by(&one, ["past-1", "past-2"]).await;
    let fence = begins.tasks[0].task.fence;
    // A process that knows nothing of the task.
    let stranger = Rival { me: one.me.clone(), ..rival(&database.url, "stranger").await };
    stranger.done(&begins).await;
    assert_eq!(one.commit(&late).await, Err(Refusal::Stale { given: attempt.fence, stored: fence }));
}

#[tokio::test]
async fn who_is_overtaken_in_the_same_transaction_writes_no_more() {
    let database = database().await;
    let one = rival(&database.url, "one").await;
    let Overtaken { attempt, late, begins } = Overtaken::by(&one, ["over-1", "over-2"]).await;
    let fence = begins.tasks[0].task.fence;
    let done = one.ports.state.commit(&[late, begins]).await.unwrap();
    assert!(done.iter().all(Result::is_ok), "the late one was before it: {done:?}");
    let later = one.boundary(&attempt).await;
    assert_eq!(one.commit(&later).await, Err(Refusal::Stale { given: attempt.fence, stored: fence }));
}

async fn overtaken(somebody: &mut Conn, tasks: [&TaskId; 2]) -> [bool; 2] {
    let mut is = [false; 2];
    for (is, task) in is.iter_mut().zip(tasks) {
        let sql = format!("SELECT overtaken FROM task_state_projection WHERE task_id = '{task}'");
        *is = somebody.query_first(sql).await.unwrap().unwrap();
    }
    is
}

#[tokio::test]
async fn who_was_overtaken_and_begins_again_overtakes_the_other() {
    let database = database().await;
    let one = rival(&database.url, "one").await;
    let mut somebody = client(&database.url).await;
    let Overtaken { attempt, begins, .. } = Overtaken::by(&one, ["turn-1", "turn-2"]).await;
    let second =
        Attempt { task: begins.tasks[0].task.id.clone(), fence: begins.tasks[0].task.fence, ..attempt.clone() };
    assert_eq!(overtaken(&mut somebody, [&attempt.task, &second.task]).await, [false, false]);
    one.done(&begins).await;
    assert_eq!(overtaken(&mut somebody, [&attempt.task, &second.task]).await, [true, false]);
    // Long after both have lost their lease and the lock.
    let later = rival_ahead(&database.url, "later", LATER_MS).await;
    let retry = step::start(StartKind::Retry, Range { from: 1, to: 6 }, 1);
    later.done(&step::asks("retry", &attempt.task, &[TaskStatus::Running], retry)).await;
    let again = later.begin(&attempt.task).await;
    assert_eq!(overtaken(&mut somebody, [&again.task, &second.task]).await, [false, true]);
    later.stage(&again).await;
    assert!(matches!(one.commit(&one.boundary(&second).await).await, Err(Refusal::Stale { .. })));
}
