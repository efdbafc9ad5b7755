//! Memory of tasks that wait.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::task::status::TaskStatus;
use windlass_engine::Options;
use windlass_engine::command::plan::Verb;

use super::super::{Row, Timer, resident_bytes};
use super::{Bench, Gaps, WAITING, caller, start_on, until};
use crate::settings::Settings;

/// Instances on the one store. One carries out 10,000 tasks at most; more of them make small, in what each task adds,
/// that a memtable is nearly full in one look and nearly empty in the other.
const INSTANCES: u32 = 4;

impl Bench<'_> {
    /// Memory of a task that waits in a stage, without its config and context: what one half of the tasks adds when
    /// the other half waits already. Not counted is what has bounds and has grown to them by then, however many tasks
    /// come: connections, rows kept at hand, memtables. The cache of blocks, which 40,000 tasks would not fill, is
    /// given its least size.
    pub(super) async fn waiting(&self) -> anyhow::Result<Row> {
        let gaps = Arc::new(Gaps::default());
        let each_plan = self.scale.tasks;
        let mut settings = Settings::clone(self.settings);
        settings.embedded.cache_mib = 1;
        let stores = self.open("waiting", &settings).await?;
        let mut instances = Vec::new();
        for _ in 0..INSTANCES {
            let options = Options { tasks_max: each_plan, ..self.options() };
            instances.push(start_on(stores.clone(), options, &gaps).await?);
        }
        let windlass = &instances[0];
        let mut plans = Vec::new();
        for n in 0..INSTANCES {
            // What waits is interrupted at the end and keeps its tenants: the next run on this store has its own.
            let name = format!("waiting-{}-{n}", std::process::id());
            let file = self.plan_file(&name, each_plan, 1, "sleep: 1h", each_plan)?;
            plans.push(windlass.create(&file, false, &caller()?).await?.plan);
        }
        let mut looks = Vec::new();
        for half in plans.chunks(plans.len() / 2) {
            for plan in half {
                windlass.plan(plan, Verb::Start, &caller()?).await?;
            }
            for plan in half {
                until(windlass, plan, TaskStatus::Running, each_plan).await?;
            }
            looks.push(settled().await?);
        }
        for instance in &instances {
            instance.stop().await;
        }
        let tasks = each_plan * INSTANCES;
        let grown = looks[1].saturating_sub(looks[0]);
        let each = grown / u64::from(tasks / 2);
        let timer = Timer::new()?.row(WAITING, self.store(), tasks, "tasks", Duration::from_secs(1));
        let row = Row { bench: "plan", resident_bytes: Some(looks[1]), ..timer };
        Ok(row.judged(format!("at most 4096 bytes for each; {each} measured"), each <= 4096))
    }
}

/// Resident memory when work in the background has ended: the least of a few seconds. The allocator gives back what
/// was freed when a thread asks it for something again, so all of them do.
async fn settled() -> anyhow::Result<u64> {
    let mut least = u64::MAX;
    for _ in 0..30 {
        let asked: Vec<_> =
            (0..16).map(|_| tokio::spawn(async { drop(std::hint::black_box(vec![0u8; 1 << 20])) })).collect();
        for thread in asked {
            thread.await?;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        least = least.min(resident_bytes(std::process::id())?);
    }
    Ok(least)
}
