//! Retention: a plan goes first, at once; its tasks follow while there is room. Each step is a transaction of its own.

use std::collections::BTreeSet;

use windlass_core::port::PortError;
use windlass_core::time::Ms;

use crate::Inner;
use crate::cell::{Cells, one};
use crate::error::Failure;
use crate::pool::Lent;
use crate::text::{Script, list, literal};

/// Tasks that go in one transaction, at most.
const TASKS_MAX: u64 = 500;

/// How many tasks, operations and instances went.
pub(super) async fn purge(inner: &Inner, before: Ms, limit: u32) -> Result<u32, PortError> {
    let mut left = u64::from(limit);
    while left > 0 {
        let mut races = 0;
        let gone = loop {
            let mut tx = inner.pool.lend().await?;
            let done = attempt_tasks(&mut tx, before, left.min(TASKS_MAX)).await;
            if let Some(done) = tx.settle(done, &mut races).await {
                break done?;
            }
        };
        let Some(gone) = gone else { break };
        left -= gone;
    }
    let now = inner.clock.now();
    let before = literal(before);
    let old = [
        format!("FROM operation WHERE at < {before} ORDER BY at"),
        format!("FROM instance WHERE lease_until < {before} AND lease_until <= {now} ORDER BY instance_id"),
    ];
    for old in old {
        if left == 0 {
            break;
        }
        let mut script = Script::default();
        script.say(&format!("DELETE {old} LIMIT {left}"));
        script.ask("SELECT ROW_COUNT()");
        let rows = inner.pool.run(&script).await?.next()?;
        left = left.saturating_sub(one(&rows)?.parse()?);
    }
    Ok(u32::try_from(u64::from(limit) - left).unwrap_or(limit))
}

/// Tasks of one plan that is going or has to; `None` if there is none.
async fn attempt_tasks(tx: &mut Lent<'_>, before: Ms, limit: u64) -> Result<Option<u64>, Failure> {
    let mut script = Script::begin();
    script.ask("SELECT plan_id FROM plan_gone ORDER BY plan_id LIMIT 1 FOR UPDATE SKIP LOCKED");
    script.ask(&format!(
        "SELECT plan_id FROM plan_state_projection FORCE INDEX (plan_ended) WHERE ended_at < {} \
         AND status IN ('COMPLETED', 'FAILED', 'CANCELLED') ORDER BY ended_at LIMIT 1 FOR UPDATE SKIP LOCKED",
        literal(before)
    ));
    let mut answers = tx.run(&script).await?;
    let (going, ended) = (answers.next()?, answers.next()?);
    let mut script = Script::default();
    let plan = match (going.first(), ended.first()) {
        (None, None) => {
            tx.commit(script).await?;
            return Ok(None);
        }
        (Some(going), _) => literal(Cells::of(going).text()?),
        (None, Some(ended)) => {
            let plan = literal(Cells::of(ended).text()?);
            for table in ["plan_state_projection", "plan_spec", "plan_event"] {
                script.say(&format!("DELETE FROM {table} WHERE plan_id = {plan}"));
            }
            script.say(&format!("INSERT INTO plan_gone (plan_id) VALUES ({plan})"));
            plan
        }
    };
    script.ask(&format!("SELECT task_id, tenant_id FROM task_state_projection WHERE plan_id = {plan} LIMIT {limit}"));
    let rows = tx.run(&script).await?.next()?;
    let (mut tasks, mut tenants) = (BTreeSet::new(), BTreeSet::new());
    for row in &rows {
        let cells = &mut Cells::of(row);
        tasks.insert(cells.text()?);
        tenants.insert(cells.text()?);
    }
    let gone = tasks.len() as u64;
    let mut script = Script::default();
    if gone > 0 {
        forget(&mut script, &list(tasks), &list(tenants));
    }
    if gone < limit {
        script.say(&format!("DELETE FROM plan_gone WHERE plan_id = {plan}"));
    }
    tx.commit(script).await?;
    Ok(Some(gone))
}

fn forget(script: &mut Script, tasks: &str, tenants: &str) {
    for (table, key, ids) in [("tenant_state", "tenant_id", tenants), ("task_state_projection", "task_id", tasks)] {
        script.say(&format!(
            "SELECT 1 FROM {table} FORCE INDEX (PRIMARY) WHERE {key} IN ({ids}) ORDER BY {key} FOR UPDATE"
        ));
    }
    // The fence stays for ever; the names only while what they name is there.
    script.say(&format!(
        "UPDATE tenant_state SET latest_task_id = IF(latest_task_id IN ({tasks}), NULL, latest_task_id), \
         started_task_id = IF(started_task_id IN ({tasks}), NULL, started_task_id) WHERE tenant_id IN ({tenants})"
    ));
    for table in ["task_spec", "task_checkpoint", "task_event", "task_state_projection"] {
        script.say(&format!("DELETE FROM {table} WHERE task_id IN ({tasks})"));
    }
}
