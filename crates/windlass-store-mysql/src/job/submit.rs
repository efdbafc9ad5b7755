//! Submissions of many callers: what is stored and what may wait is read in one trip, judged by the core, and written with the
//! COMMIT in a second. Where there is a limit on what waits, whoever counts does so alone.

use std::collections::BTreeSet;
use std::sync::Arc;

use mysql_async::Row;
use windlass_core::id::TenantId;
use windlass_core::job::limit::{Limits, Rule, Scope, of_tenant};
use windlass_core::job::rules::accept;
use windlass_core::job::submission::{Room, Stored, key_of};
use windlass_core::job::{Job, NewJob};
use windlass_core::port::job::Submitted;
use windlass_core::port::{PortError, Refusal};

use super::{row, rule};
use crate::Inner;
use crate::cell::{Cells, one};
use crate::error::Failure;
use crate::line::{Line, Work};
use crate::pool::Lent;
use crate::text::{Script, list, literal};
use crate::wake::{self, Port};

/// Jobs of one transaction, at most, and their payloads, in bytes.
const JOBS_MAX: usize = 2_000;
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// The submissions of one caller.
pub(crate) struct Submit(pub(super) Vec<Vec<NewJob>>);

type Answers = Vec<Result<Vec<Submitted>, Refusal>>;

#[derive(Default)]
pub(crate) struct Batch {
    jobs: usize,
    bytes: usize,
}

impl Work for Submit {
    type Answer = Answers;
    type Batch = Batch;
    const UNDER_WAY_MAX: usize = 2;

    fn line(inner: &Inner) -> &Line<Submit> {
        &inner.submits
    }

    fn join(&self, batch: &mut Batch) -> bool {
        let jobs = self.0.iter().flatten();
        batch.jobs += self.0.iter().map(Vec::len).sum::<usize>();
        batch.bytes += jobs.filter_map(|job| job.payload.as_ref()).map(|payload| payload.as_str().len()).sum::<usize>();
        batch.jobs <= JOBS_MAX && batch.bytes <= BYTES_MAX
    }

    async fn run(inner: &Arc<Inner>, batch: &[Submit]) -> Result<Vec<Answers>, PortError> {
        let groups: Vec<&Vec<NewJob>> = batch.iter().flat_map(|submit| &submit.0).collect();
        let mut races = 0;
        let mut answers = loop {
            let mut tx = inner.pool.lend().await?;
            let done = attempt(&mut tx, inner, &groups).await;
            if let Some(done) = tx.settle(done, &mut races).await {
                break done?.into_iter();
            }
        };
        Ok(batch.iter().map(|submit| answers.by_ref().take(submit.0.len()).collect()).collect())
    }
}

async fn attempt(tx: &mut Lent<'_>, inner: &Inner, groups: &[&Vec<NewJob>]) -> Result<Answers, Failure> {
    let checked: Vec<Result<(), Refusal>> =
        groups.iter().map(|group| group.iter().try_for_each(NewJob::check)).collect();
    let good =
        || groups.iter().zip(&checked).filter(|(_, checked)| checked.is_ok()).flat_map(|(group, _)| group.iter());
    if good().next().is_none() {
        return Ok(checked.into_iter().map(|checked| checked.map(|()| Vec::new())).collect());
    }
    let mut scopes: BTreeSet<Scope> = good().map(|job| Scope::Queue(job.queue.clone())).collect();
    scopes.extend(good().filter_map(|job| job.tenant.clone()).map(Scope::Tenant));
    scopes.insert(Scope::EachTenant);
    let mut script = Script::begin();
    rule::ask(&mut script, &scopes, "waiting IS NOT NULL OR running IS NOT NULL");
    ask_stored(&mut script, good());
    inner.clock.ask(&mut script);
    let mut answers = tx.run(&script).await?;
    let rules = rule::read(&answers.next()?)?;
    let mut stored = stored(&answers.next()?, &answers.next()?)?;
    let now = answers.now()?;
    let tenants = good().filter_map(|job| job.tenant.as_ref()).collect();
    count(tx, &rules, tenants, &mut stored).await?;
    let mut new: Vec<(usize, &NewJob)> = Vec::new();
    let mut done = Vec::with_capacity(groups.len());
    for (n, (group, checked)) in groups.iter().zip(checked).enumerate() {
        done.push(match checked {
            Ok(()) => stored.group(n, group, &mut new),
            Err(refusal) => Err(refusal),
        });
    }
    let jobs: Vec<Job> = new.iter().map(|(_, job)| accept(job, 0, now)).collect();
    let mut script = Script::default();
    row::insert(&mut script, &jobs, now);
    if !jobs.is_empty() {
        wake::count(&mut script, Port::Jobs);
    }
    tx.commit(script).await?;
    if !jobs.is_empty() {
        inner.wake.tell();
    }
    Ok(done)
}

fn ask_stored<'j>(script: &mut Script, jobs: impl Iterator<Item = &'j NewJob> + Clone) {
    let columns = "SELECT task_id, queue, tenant_id, `key`, digest FROM async_tasks";
    let ids = list(jobs.clone().map(|job| job.id.to_string()));
    script.ask(&format!("{columns} WHERE task_id IN ({ids})"));
    let keys = jobs.filter_map(key_of).map(|(queue, tenant, key)| {
        format!("(queue = {} AND tenant_id = {} AND `key` = {})", literal(queue), literal(tenant), literal(key))
    });
    let keys: Vec<String> = keys.collect();
    let keys = if keys.is_empty() { "FALSE".to_owned() } else { keys.join(" OR ") };
    script.ask(&format!("{columns} WHERE {keys}"));
}

fn stored(ids: &[Row], keys: &[Row]) -> Result<Stored, PortError> {
    let mut stored = Stored::default();
    for row in ids.iter().chain(keys) {
        let cells = &mut Cells::of(row);
        let id = cells.parse()?;
        let (queue, tenant, key) = (cells.text()?, cells.text()?, cells.text_or_none()?);
        let digest = cells.parse()?;
        stored.ids.insert(id, digest);
        if let Some(key) = key {
            stored.keys.insert((queue.to_owned(), tenant.to_owned(), key.to_owned()), (id, digest));
        }
    }
    Ok(stored)
}

/// Counts what waits where that is limited, alone until the end of the transaction.
async fn count(
    tx: &mut Lent<'_>,
    rules: &[Rule],
    tenants: BTreeSet<&TenantId>,
    stored: &mut Stored,
) -> Result<(), Failure> {
    let each = rules.iter().find(|rule| rule.scope == Scope::EachTenant);
    let mut limited: Vec<(Scope, u32)> = Vec::new();
    for rule in rules {
        if let (Scope::Queue(_), Some(limit)) = (&rule.scope, rule.limits.waiting) {
            limited.push((rule.scope.clone(), limit));
        }
    }
    for tenant in tenants {
        let own = rules.iter().find(|rule| matches!(&rule.scope, Scope::Tenant(of) if of == tenant));
        if let (Limits { waiting: Some(limit), .. }, _) = of_tenant(own, each) {
            limited.push((Scope::Tenant(tenant.clone()), limit));
        }
    }
    if limited.is_empty() {
        return Ok(());
    }
    let mut script = Script::default();
    rule::lock(&mut script, rules.iter().filter(|rule| rule.limits.waiting.is_some()).map(|rule| &rule.scope));
    script.ask(
        "SELECT queue, live FROM async_tasks FORCE INDEX (async_tasks_live) WHERE live IN (1, 2) GROUP BY live, queue",
    );
    let queues = tx.run(&script).await?.next()?;
    let queues: Vec<&str> = queues.iter().map(|row| Cells::of(row).text()).collect::<Result<_, _>>()?;
    let mut script = Script::default();
    for (scope, limit) in &limited {
        let of = match scope {
            Scope::Queue(queue) => format!("queue = {}", literal(queue.as_str())),
            Scope::Tenant(tenant) => {
                format!("queue IN ({}) AND tenant_id = {}", list(&queues), literal(tenant.as_str()))
            }
            Scope::EachTenant => continue,
        };
        script.ask(&format!(
            "SELECT COUNT(*) FROM (SELECT 1 FROM async_tasks FORCE INDEX (async_tasks_live) WHERE live IN (1, 2) AND {of} \
             LIMIT {limit}) w"
        ));
    }
    let mut answers = tx.run(&script).await?;
    for (scope, limit) in limited {
        let room = Room { limit, waiting: one(&answers.next()?)?.parse()? };
        match scope {
            Scope::Queue(queue) => drop(stored.queues.insert(queue, room)),
            Scope::Tenant(tenant) => drop(stored.tenants.insert(tenant, room)),
            Scope::EachTenant => {}
        }
    }
    Ok(())
}
