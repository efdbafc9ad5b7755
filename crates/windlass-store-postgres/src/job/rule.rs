//! Limits and holds.

use windlass_core::job::limit::{Limits, Rule, Scope};
use windlass_core::port::PortError;

use crate::cell::{Cells, json, params};
use crate::pool::{Call, Pool};
use crate::sql;

/// A scope as it is stored.
fn name(scope: &Scope) -> (&'static str, String) {
    match scope {
        Scope::Queue(queue) => ("queue", queue.to_string()),
        Scope::Tenant(tenant) => ("tenant", tenant.to_string()),
        Scope::EachTenant => ("each", String::new()),
    }
}

pub(super) async fn set(pool: &Pool, rules: &[Rule]) -> Result<(), PortError> {
    // The last that is said of a scope holds.
    let last = |n: usize| rules[n + 1..].iter().all(|later| later.scope != rules[n].scope);
    let rules = rules.iter().enumerate().filter(|(n, _)| last(*n)).map(|(_, rule)| rule);
    let (gone, kept): (Vec<&Rule>, Vec<&Rule>) =
        rules.partition(|rule| rule.limits == Limits::NONE && rule.held.is_none());
    let scopes =
        |rules: &[&Rule]| -> (Vec<&'static str>, Vec<String>) { rules.iter().map(|rule| name(&rule.scope)).unzip() };
    let held = kept.iter().map(|rule| rule.held.as_ref().map(json).transpose()).collect::<Result<Vec<_>, _>>()?;
    let bounds = |of: fn(&Limits) -> Option<u32>| -> Vec<Option<i64>> {
        kept.iter().map(|rule| of(&rule.limits).map(i64::from)).collect()
    };
    let ((gone_scopes, gone_names), (scopes, names)) = (scopes(&gone), scopes(&kept));
    let (running, waiting) = (bounds(|limits| limits.running), bounds(|limits| limits.waiting));
    let mut races = 0;
    loop {
        let tx = pool.begin().await?;
        let calls = vec![
            Call::new(sql::REMOVE_RULES, params![gone_scopes.clone(), gone_names.clone()]),
            Call::new(
                sql::PUT_RULES,
                params![scopes.clone(), names.clone(), running.clone(), waiting.clone(), held.clone()],
            ),
            Call::bare(sql::JOBS_CHANGED),
        ];
        let done = async {
            tx.open(sql::BEGIN, calls).await?;
            tx.commit(Vec::new()).await.map(drop)
        };
        let done = done.await;
        if let Some(done) = tx.settle(done, &mut races).await {
            return done;
        }
    }
}

pub(super) async fn load(pool: &Pool, wanted: &[Scope]) -> Result<Vec<Rule>, PortError> {
    let (scopes, names): (Vec<&'static str>, Vec<String>) = wanted.iter().map(name).unzip();
    let rows = pool.query(&Call::new(sql::LOAD_RULES, params![scopes, names])).await?;
    let rules = rows.iter().map(|row| {
        let cells = &mut Cells::of(row);
        let nth: usize = cells.count()?;
        let bound = |n: Option<i64>| n.and_then(|n| u32::try_from(n).ok());
        let limits = Limits { running: bound(cells.get()?), waiting: bound(cells.get()?) };
        let scope = wanted.get(nth.wrapping_sub(1)).cloned();
        let scope = scope.ok_or_else(|| PortError::Corrupt("a rule that was not asked for".to_owned()))?;
        Ok(Rule { scope, limits, held: cells.json_or_none()? })
    });
    rules.collect()
}
