//! Several who write at once: what is written is named by its key, and what is known of a row holds for that row alone.

use std::sync::Arc;
use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;
use windlass_conformance::harness::Ports;
use windlass_conformance::world::step::{self, Draft};
use windlass_conformance::world::{Attempt, Rival, id};
use windlass_core::lock::{Acquire, Held};
use windlass_core::port::Refusal;
use windlass_core::port::state::CheckpointPut;
use windlass_core::task::advance;
use windlass_core::time::Ms;
use windlass_store_mysql::{MySql, Options};

use crate::server::{client, database};

/// Longer than anything here takes: whoever waits for good is seen.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(8);

pub(crate) async fn rival(url: &str, me: &str) -> Rival {
    rival_ahead(url, me, 0).await
}

pub(crate) async fn rival_ahead(url: &str, me: &str, ahead_ms: u64) -> Rival {
    let store = MySql::open(url, &Options { ahead_ms, ..Options::default() }).await.unwrap();
    let rival = Rival { ports: Ports { state: Arc::new(store.clone()), locks: Arc::new(store) }, me: id(me) };
    rival.beat(60_000).await;
    rival
}

/// A server that finds a table small reads it whole for a list of keys, and waits for whoever has locked any of its rows.
#[tokio::test]
async fn rows_that_others_have_locked_are_not_waited_for() {
    let database = database().await;
    let one = rival(&database.url, "one").await;
    let draft = Draft::wide("first", 13).stages(3).at_once(13);
    one.run(&draft).await;
    let mut attempts: Vec<Attempt> = Vec::new();
    for position in 0..13 {
        let attempt = one.begin(&draft.task(position)).await;
        one.stage(&attempt).await;
        attempts.push(attempt);
    }

    let other = attempts.remove(6);
    let mut somebody = client(&database.url).await;
    for sql in [
        "BEGIN".to_owned(),
        format!("SELECT 1 FROM task_checkpoint WHERE task_id = '{}' FOR UPDATE", other.task),
        format!("SELECT 1 FROM tenant_lock WHERE tenant_id = '{}' FOR UPDATE", other.tenant),
        "INSERT INTO fence_counter VALUES (NULL)".to_owned(),
    ] {
        somebody.query_drop(sql).await.unwrap();
    }

    let mut ends = Vec::new();
    for attempt in &attempts {
        let row = one.task(&attempt.task).await;
        let outcome = advance::Outcome::Failed(step::failure("it broke"));
        let facts = advance::ended(&row.task, step::at(row.task.completed), outcome);
        let ended = step::owner(&format!("end-{}", attempt.task), &row, attempt, facts);
        ends.push(windlass_core::port::state::Step { checkpoint: CheckpointPut::Remove, ..ended });
    }
    let held: Vec<Held> = attempts.iter().map(Attempt::held).collect();
    let want = |n: usize| Acquire {
        tenant: id(&format!("t-{n}")),
        plan: id("p"),
        task: id(&format!("k-{n}")),
        ttl_ms: 60_000,
    };
    let want: Vec<Acquire> = (0..12).map(want).collect();
    let done = tokio::time::timeout(WATCHDOG, async {
        let ended = one.ports.state.commit(&ends).await.unwrap();
        let released = one.ports.locks.release(&held).await.unwrap();
        let acquired = one.ports.locks.acquire(&want).await.unwrap();
        ended.iter().all(Result::is_ok) && released.iter().all(Result::is_ok) && acquired.iter().all(Result::is_ok)
    });
    assert_eq!(done.await, Ok(true), "nobody waits for what is not theirs");
    somebody.query_drop("COMMIT").await.unwrap();

    for attempt in &attempts {
        assert_eq!(one.checkpoint(&attempt.task).await, None);
        assert_eq!(one.lock(&attempt.tenant).await.holder, None);
    }
    assert!(one.checkpoint(&other.task).await.is_some() && one.lock(&other.tenant).await.holder.is_some());
    let left: Option<u64> = somebody.query_first("SELECT COUNT(*) FROM tenant_lock").await.unwrap();
    assert_eq!(left, Some(13), "the other's, and the twelve that were acquired");
}

/// Removes every plan, with all that is kept of it.
pub(crate) async fn forget(somebody: &mut Conn) {
    for table in [
        "plan_state_projection",
        "task_state_projection",
        "plan_event",
        "task_event",
        "plan_spec",
        "task_spec",
        "task_checkpoint",
        "operation",
    ] {
        somebody.query_drop(format!("DELETE FROM {table}")).await.unwrap();
    }
}

#[tokio::test]
async fn a_task_that_was_made_anew_under_an_old_name_is_another() {
    let database = database().await;
    let (one, two) = (rival(&database.url, "one").await, rival(&database.url, "two").await);
    let draft = Draft::wide("first", 1);
    one.run(&draft).await;
    let taken = one.ready(None, 1).await.remove(0).unwrap();

    // Long after, retention has removed the plan, and somebody has used its name again.
    forget(&mut client(&database.url).await).await;
    two.run(&draft.clone().born(Ms::new(taken.task.created_at.get() + 1))).await;
    let again = two.ready(None, 1).await.remove(0).unwrap();
    assert_eq!((again.task.id.clone(), again.version), (taken.task.id.clone(), taken.version));

    let late = step::gives_back("late", &taken);
    match one.commit(&late).await {
        Err(Refusal::Owned { owner, until }) => assert!(owner == Some(two.me.clone()) && until > Ms::ZERO),
        other => panic!("it is another's by now: {other:?}"),
    }
    assert_eq!(two.task(&again.task.id).await.task.owner, Some(two.me.clone()));
}
