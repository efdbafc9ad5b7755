//! Steps that need the core's rules: rows are locked and read in one trip, judged here, and written with their COMMIT in a
//! second.

use windlass_core::fence::Fence;
use windlass_core::port::{Each, PortError, Refusal};
use windlass_core::trigger::world::World;

use super::row::{self, Notes};
use super::sql;
use crate::cell::{Cells, params, signed};
use crate::error::Failure;
use crate::pool::{Call, Pool};
use crate::sql::{BEGIN, NOW};
use crate::state::one;

fn writes(world: &World) -> Result<Vec<Call>, PortError> {
    let mut calls = Vec::new();
    for (statement, rows) in [(sql::INSERT, world.changed(true)), (sql::UPDATE, world.changed(false))] {
        if !rows.is_empty() {
            calls.push(row::put(statement, &rows)?);
        }
    }
    let mut notes = Notes::default();
    for (id, seq, note) in world.notes() {
        notes.add(id.as_str(), *seq, note)?;
    }
    calls.extend(notes.call());
    let (ids, seqs): (Vec<String>, Vec<i64>) =
        world.full().into_iter().map(|(id, first)| (id.to_string(), signed(first))).unzip();
    if !ids.is_empty() {
        calls.push(Call::new(sql::FORGET_NOTES, params![ids, seqs]));
    }
    if world.wakes {
        calls.push(Call::bare(sql::CHANGED));
    }
    Ok(calls)
}

/// Judges items one after the other, all in one transaction. `ids` are those it may look at or make.
pub(super) async fn judged<T>(
    pool: &Pool,
    ids: Vec<String>,
    ahead_ms: i64,
    judge: impl Fn(&mut World) -> Vec<Result<T, Refusal>>,
) -> Result<(Vec<Result<T, Refusal>>, bool), PortError> {
    let mut races = 0;
    loop {
        let tx = pool.begin().await?;
        let attempt = async {
            let calls = vec![
                Call::new(sql::LOCK, params![ids.clone()]),
                Call::bare(sql::DRAW),
                Call::new(NOW, params![ahead_ms]),
            ];
            let answers = tx.open(BEGIN, calls).await?;
            let [rows, fence, now] = &answers[..] else {
                return Err(Failure::from(PortError::Corrupt("three answers were expected".to_owned())));
            };
            let kept = rows.iter().map(|row| row::trigger(&mut Cells::of(row))).collect::<Result<Vec<_>, _>>()?;
            let mut world = World::new(kept, Fence(one(fence)?.count()?), one(now)?.at()?);
            let judged = judge(&mut world);
            let wakes = world.wakes;
            tx.commit(writes(&world)?).await?;
            Ok((judged, wakes))
        }
        .await;
        if let Some(done) = tx.settle(attempt, &mut races).await {
            return done;
        }
    }
}

/// What is left after a statement that took the plain ones.
pub(super) fn fill<T>(all: Vec<Option<Result<T, Refusal>>>, rest: Vec<Result<T, Refusal>>) -> Each<T> {
    let mut rest = rest.into_iter();
    let missing = || PortError::Corrupt("an answer is missing".to_owned());
    all.into_iter().map(|answer| answer.or_else(|| rest.next()).ok_or_else(missing)).collect()
}
