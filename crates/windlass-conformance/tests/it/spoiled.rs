//! Stores that break one rule each: the random sequences must find them out, and say how to see it again.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests, outside a test function")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use async_trait::async_trait;
use windlass_conformance::model::Model;
use windlass_conformance::{Harness, Ports, random};
use windlass_core::id::InstanceId;
use windlass_core::port::state::{Beat, Filter, Key, Row, State, Step, Stepped, Take, TaskRow, Writer};
use windlass_core::port::{Cursor, Each, Mark, Page, PortError};
use windlass_core::task::status::{Statuses, TaskStatus};
use windlass_core::time::Ms;

/// What the store does wrong.
#[derive(Clone, Copy)]
enum Sin {
    /// It takes whatever version a person gives.
    Versions,
    /// It takes an owner's write from wherever the task stands.
    From,
    /// It does not know repeats.
    Repeats,
    /// It forgets the last row of a page.
    Pages,
}

struct Spoiled(Model, Sin);

struct SpoiledState(Arc<dyn State>, Sin);

#[async_trait]
impl Harness for Spoiled {
    async fn open(&self, ahead_ms: u64) -> Ports {
        let Ports { state, locks } = self.0.open(ahead_ms).await;
        Ports { state: Arc::new(SpoiledState(state, self.1)), locks }
    }

    async fn restart(&self) {}
}

impl SpoiledState {
    async fn spoil(&self, step: &Step) -> Step {
        let mut step = step.clone();
        match (self.1, &step.by) {
            (Sin::Versions, Writer::Person(_)) => {
                for put in &mut step.tasks {
                    if let Ok(Some(Row::Task(row))) = self.0.load(&[Key::Task(put.task.id.clone())]).await.map(one) {
                        put.version = row.version;
                    }
                }
            }
            (Sin::From, Writer::Owner { .. }) => {
                let to = step.tasks[0].task.status;
                let from = TaskStatus::ALL.into_iter().filter(|from| from.may_become(to));
                step.tasks[0].from = from.collect::<Statuses>();
            }
            (Sin::Repeats, _) => {
                let mark = self.0.changed(Mark::default(), 0).await.map_or(0, |mark| mark.0);
                step.op.id = format!("{}-{mark}", step.op.id).parse().unwrap();
            }
            _ => {}
        }
        step
    }
}

fn one<T>(mut all: Vec<T>) -> T {
    all.remove(0)
}

#[async_trait]
impl State for SpoiledState {
    fn at_once(&self) -> Option<usize> {
        self.0.at_once()
    }

    fn enough(&self) -> Option<usize> {
        self.0.enough()
    }

    async fn commit(&self, steps: &[Step]) -> Each<Stepped> {
        let mut spoiled = Vec::new();
        for step in steps {
            spoiled.push(self.spoil(step).await);
        }
        self.0.commit(&spoiled).await
    }

    async fn take(&self, take: &Take) -> Each<TaskRow> {
        self.0.take(take).await
    }

    async fn beat(&self, instance: &InstanceId, lease_ms: u64) -> Result<Beat, PortError> {
        self.0.beat(instance, lease_ms).await
    }

    async fn load(&self, keys: &[Key]) -> Result<Vec<Option<Row>>, PortError> {
        self.0.load(keys).await
    }

    async fn list(&self, filter: &Filter, after: Option<&Cursor>, limit: u32) -> Result<Page<Row>, PortError> {
        let mut page = self.0.list(filter, after, limit).await?;
        if matches!(self.1, Sin::Pages) && page.next.is_some() {
            page.items.pop();
        }
        Ok(page)
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.0.changed(since, wait_ms).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        self.0.purge(before, limit).await
    }
}

/// What the comparison says about such a store.
fn found_out(sin: Sin) -> String {
    let compared = catch_unwind(AssertUnwindSafe(|| random::compare(|| async { Spoiled(Model::default(), sin) })));
    let why = compared.expect_err("a spoiled store must be found out");
    why.downcast_ref::<String>().expect("a report").clone()
}

#[test]
fn a_store_that_compares_no_versions_is_found_out() {
    let report = found_out(Sin::Versions);
    assert!(report.contains("cargo nextest run -p windlass-conformance random"), "{report}");
    assert!(report.contains("Err Version"), "{report}");
}

#[test]
fn a_store_that_takes_any_status_is_found_out_by_a_short_sequence() {
    let report = found_out(Sin::From);
    let calls = report.lines().filter(|line| line.starts_with("  Call {")).count();
    assert!(calls < 15, "cut down to what matters: {report}");
}

#[test]
fn a_store_that_knows_no_repeats_is_found_out() {
    assert!(found_out(Sin::Repeats).contains("WINDLASS_SEED="));
}

#[test]
fn a_store_that_loses_a_row_between_pages_is_found_out() {
    assert!(found_out(Sin::Pages).contains("List"));
}
