//! Limits and holds.

use std::collections::{BTreeSet, HashMap};

use mysql_async::Row;
use windlass_core::job::limit::{Limits, Rule, Scope};
use windlass_core::port::PortError;

use crate::Inner;
use crate::cell::{Cells, json};
use crate::error::{Failure, corrupt};
use crate::pool::Lent;
use crate::text::{Script, literal, row};
use crate::wake::{self, Port};

/// A scope as it is stored.
pub(super) fn name(scope: &Scope) -> (&'static str, &str) {
    match scope {
        Scope::Queue(queue) => ("queue", queue.as_str()),
        Scope::Tenant(tenant) => ("tenant", tenant.as_str()),
        Scope::EachTenant => ("each", ""),
    }
}

fn of<'s>(scopes: impl IntoIterator<Item = &'s Scope>) -> String {
    let each = scopes.into_iter().map(|scope| {
        let (scope, name) = name(scope);
        format!("(scope = '{scope}' AND name = {})", literal(name))
    });
    let each: Vec<String> = each.collect();
    if each.is_empty() { "FALSE".to_owned() } else { each.join(" OR ") }
}

/// Asks for the rules of some scopes.
pub(super) fn ask<'s>(script: &mut Script, scopes: impl IntoIterator<Item = &'s Scope>, such: &str) {
    let scopes = of(scopes);
    script.ask(&format!("SELECT scope, name, running, waiting, held FROM job_rule WHERE ({scopes}) AND ({such})"));
}

/// Locks rules, in one order for everybody: whoever counts what a limit is about does so alone.
pub(super) fn lock<'s>(script: &mut Script, scopes: impl IntoIterator<Item = &'s Scope>) {
    let sorted: BTreeSet<&Scope> = scopes.into_iter().collect();
    let scopes = of(sorted);
    script.say(&format!("SELECT 1 FROM job_rule FORCE INDEX (PRIMARY) WHERE {scopes} ORDER BY scope, name FOR UPDATE"));
}

pub(super) fn read(rows: &[Row]) -> Result<Vec<Rule>, PortError> {
    rows.iter().map(|row| one(&mut Cells::of(row))).collect()
}

/// Reads scope, name, running, waiting, held.
pub(super) fn one(cells: &mut Cells<'_>) -> Result<Rule, PortError> {
    let scope = match cells.text()? {
        "queue" => Scope::Queue(cells.parse()?),
        "tenant" => Scope::Tenant(cells.parse()?),
        "each" => {
            cells.text()?;
            Scope::EachTenant
        }
        other => return Err(corrupt("scope", format!("{other:?} is none"))),
    };
    let limits = Limits { running: cells.parse_or_none()?, waiting: cells.parse_or_none()? };
    Ok(Rule { scope, limits, held: cells.json_or_none()? })
}

pub(super) async fn set(inner: &Inner, rules: &[Rule]) -> Result<(), PortError> {
    // The last that is said of a scope holds.
    let last: HashMap<&Scope, &Rule> = rules.iter().map(|rule| (&rule.scope, rule)).collect();
    let sorted: BTreeSet<&Scope> = last.keys().copied().collect();
    let mut races = 0;
    loop {
        let mut tx = inner.pool.lend().await?;
        let done = attempt(&mut tx, sorted.iter().filter_map(|scope| last.get(scope).copied())).await;
        if let Some(done) = tx.settle(done, &mut races).await {
            return done;
        }
    }
}

async fn attempt(tx: &mut Lent<'_>, rules: impl Iterator<Item = &Rule>) -> Result<(), Failure> {
    let (gone, kept): (Vec<&Rule>, Vec<&Rule>) =
        rules.partition(|rule| rule.limits == Limits::NONE && rule.held.is_none());
    let mut script = Script::begin();
    if !gone.is_empty() {
        script.say(&format!("DELETE FROM job_rule WHERE {}", of(gone.iter().map(|rule| &rule.scope))));
    }
    let rows = kept.iter().map(|rule| {
        let (scope, name) = name(&rule.scope);
        let held = rule.held.as_ref().map(json).transpose()?;
        Ok(row![scope, name, rule.limits.running, rule.limits.waiting, held])
    });
    script.rows(
        "INSERT INTO job_rule (scope, name, running, waiting, held) VALUES ",
        rows.collect::<Result<Vec<_>, PortError>>()?,
        "ON DUPLICATE KEY UPDATE running = VALUES(running), waiting = VALUES(waiting), held = VALUES(held)",
    );
    wake::count(&mut script, Port::Jobs);
    tx.commit(script).await?;
    Ok(())
}

pub(super) async fn load(inner: &Inner, wanted: &[Scope]) -> Result<Vec<Rule>, PortError> {
    let mut script = Script::default();
    ask(&mut script, wanted, "TRUE");
    let rows = inner.pool.run(&script).await?.next()?;
    let known: HashMap<Scope, Rule> = read(&rows)?.into_iter().map(|rule| (rule.scope.clone(), rule)).collect();
    Ok(wanted.iter().filter_map(|scope| known.get(scope).cloned()).collect())
}
