//! The instance's lease: renewed in time, and with every renewal what people want of the tasks that run
//! here. Finds out, too, when the store answers again, and which attempts are not this instance's any more.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;
use windlass_core::port::state::{Beat, Key, Row};
use windlass_core::port::{BATCH_MAX, Mark, PortError};
use windlass_core::task::Control;

use super::dispatch::pause;
use crate::bus::News;
use crate::query::pulse::Part;
use crate::shared::{Counts, Shared, locked};

/// How soon a store that does not answer is asked again.
const AGAIN_MS: u64 = 250;
/// Between two looks at what people want, at least: many changes are one look.
const LOOK_MS: u64 = 20;

/// Keeps the lease until the engine stops; it ends last.
pub(crate) async fn keep(engine: Arc<Shared>) {
    let mut due = Instant::now();
    loop {
        engine.rounds.came(Part::Lease);
        let whole = Instant::now() >= due;
        let ok = beat(&engine, whole).await;
        if whole && ok {
            due = Instant::now() + Duration::from_millis(engine.options.beat_ms);
        }
        let next = if ok { due } else { Instant::now() + Duration::from_millis(AGAIN_MS.min(engine.options.beat_ms)) };
        tokio::select! {
            biased;
            () = engine.stopped(), if locked(&engine.running).is_empty() => return,
            () = engine.asked.notified() => {}
            () = engine.idle.notified(), if engine.is_stopping() => {}
            // Somebody found the store away: whether it is back is not left to the next whole beat.
            () = engine.health.down(), if ok => pause(AGAIN_MS.min(engine.options.beat_ms)).await,
            () = tokio::time::sleep_until(next) => {}
        }
    }
}

/// One beat; a whole one also looks at what has become of the attempts that run here. `false` when the
/// store did not answer.
async fn beat(engine: &Shared, whole: bool) -> bool {
    Counts::add(&engine.counts.calls);
    let tellings = engine.tellings.load(Ordering::Relaxed);
    match engine.state.beat(&engine.instance, engine.options.lease_ms).await {
        Ok(beat) => {
            // Dated by the answer: this clock may be behind the store's, and is never ahead of it. Whose lease is over here is
            // over there too, so nothing of the dead is taken in between.
            *locked(&engine.store_clock) = Some((Instant::now(), beat.until.minus(engine.options.lease_ms)));
            let was_down = engine.health.down_since().is_some();
            engine.store_is_up();
            tell_attempts(engine, &beat, tellings);
            if (whole || was_down)
                && let Err(error) = look_after(engine).await
            {
                engine.store_is_down(&error);
                return false;
            }
            true
        }
        Err(error) => {
            engine.store_is_down(&error);
            false
        }
    }
}

/// What people want of the tasks that run here; nothing, of those not named. Whoever was told something
/// since the beat was sent knows better, or is told by the next one.
fn tell_attempts(engine: &Shared, beat: &Beat, sent: u64) {
    let nothing = Control::default();
    let asked: BTreeMap<_, _> = beat.asked.iter().map(|(task, control)| (task, control)).collect();
    for (id, here) in locked(&engine.running).iter().filter(|(_, here)| here.unsaved.is_none()) {
        let control = asked.get(id).copied().unwrap_or(&nothing);
        let (concerned, same) = here
            .signal
            .look(|signal| (signal.control().wants_owner() || control.wants_owner(), signal.control() == control));
        match here.told.1 >= sent {
            true if concerned && !same => engine.asked.notify_one(),
            false if concerned => here.tell(control),
            _ => {}
        }
    }
}

/// Attempts whose task is somebody else's stop; those of a frozen tenant pause at their boundary; the
/// others' progress is told.
async fn look_after(engine: &Shared) -> Result<(), PortError> {
    let here: Vec<_> = {
        let running = locked(&engine.running);
        running.iter().map(|(id, here)| (id.clone(), here.tenant.clone(), here.fence)).collect()
    };
    for chunk in here.chunks(BATCH_MAX) {
        let keys: Vec<_> = chunk.iter().map(|(id, _, _)| Key::Task(id.clone())).collect();
        let tenants: Vec<_> = chunk.iter().map(|(_, tenant, _)| tenant.clone()).collect();
        Counts::add(&engine.counts.calls);
        let rows = engine.state.load(&keys).await?;
        Counts::add(&engine.counts.calls);
        let locks = engine.locks.load(&tenants).await?;
        for (((id, _, fence), row), lock) in chunk.iter().zip(rows).zip(locks) {
            let Some(Row::Task(row)) = row else { continue };
            let another = row.task.owner.as_ref().is_some_and(|owner| *owner != engine.instance);
            let taken = lock.holder.as_ref().is_some_and(|holder| holder.fence > *fence);
            if another || row.task.fence > *fence || taken {
                engine.set_lost(id, *fence);
                continue;
            }
            if let Some(freeze) = &lock.freeze {
                engine.pause_frozen(&row, freeze).await?;
            }
            let (completed, stages) = (row.task.completed, row.task.stages);
            engine.bus.tell(News::TaskProgress { task: id.clone(), completed, stages });
        }
    }
    Ok(())
}

/// Something changed in the store: perhaps somebody asked something of a task that runs here.
pub(crate) async fn watch_state(engine: Arc<Shared>) {
    let mut mark = Mark::default();
    while !engine.is_stopping() {
        match engine.state.changed(mark, engine.options.scan_ms).await {
            Ok(now) if now == mark => {}
            Ok(now) => {
                mark = now;
                if !locked(&engine.running).is_empty() {
                    engine.asked.notify_one();
                }
                engine.conducting.notify_one();
                pause(LOOK_MS).await;
            }
            Err(error) => engine.outlast(&error).await,
        }
    }
}
