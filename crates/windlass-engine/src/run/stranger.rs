//! Who lives. A lease that runs when this instance comes up says only that its instance lived once: after a
//! crash and a quick restart it is that of the dead. Until such an instance is heard of again, this one takes
//! nothing of the plans it conducts, and does not take them over: a restart moves nothing by itself.

use windlass_core::id::InstanceId;
use windlass_core::plan::PlanStatus;
use windlass_core::plan::spec::Recovery;
use windlass_core::port::state::{Filter, InstanceRow, Key, PlanRow, Row, Which};
use windlass_core::port::{Cursor, PAGE_MAX, PortError};

use crate::shared::{Counts, Shared, locked};

impl Shared {
    /// Notes who is there, before this instance is.
    pub(crate) async fn meet(&self) -> Result<(), PortError> {
        let mut after: Option<Cursor> = None;
        loop {
            let page = self.state.list(&Filter::Instances, after.as_ref(), PAGE_MAX).await?;
            for row in page.items {
                if let Row::Instance(InstanceRow { id, until, .. }) = row {
                    locked(&self.strangers).insert(id, until);
                }
            }
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Forgets those that were heard of since; the others may be dead.
    pub(crate) async fn look_for_strangers(&self) -> Result<(), PortError> {
        let ids: Vec<InstanceId> = locked(&self.strangers).keys().cloned().collect();
        if ids.is_empty() {
            return Ok(());
        }
        let keys: Vec<_> = ids.iter().cloned().map(Key::Instance).collect();
        Counts::add(&self.counts.calls);
        let rows = self.state.load(&keys).await?;
        let mut strangers = locked(&self.strangers);
        for (id, row) in ids.iter().zip(rows) {
            match row {
                Some(Row::Instance(row)) if strangers.get(id) == Some(&row.until) => {}
                _ => drop(strangers.remove(id)),
            }
        }
        Ok(())
    }

    /// Whether this plan waits for a person, should its conductor turn out to be dead.
    pub(crate) fn is_strangers(&self, row: &PlanRow) -> bool {
        let conductor = row.plan.conductor.as_ref();
        row.plan.recovery == Recovery::Manual && conductor.is_some_and(|id| locked(&self.strangers).contains_key(id))
    }

    /// What may be taken now: of every plan, or, while some are of strangers whose leases run, of each plan that is not theirs.
    pub(crate) async fn whose(&self, limit: u32) -> Result<Vec<Which>, PortError> {
        self.look_for_strangers().await?;
        let (now, all) = (self.store_now(), vec![Which::Ready { plan: None, limit }]);
        if locked(&self.strangers).values().all(|until| *until <= now) {
            return Ok(all);
        }
        let mut plans = self.open_plans(&[PlanStatus::Running]).await?;
        let running = plans.len();
        plans.retain(|row| !self.is_strangers(row));
        // Who conducts a plan only after this lives.
        if plans.len() == running {
            return Ok(all);
        }
        // The oldest first: it has waited longest.
        Ok(plans.into_iter().rev().map(|row| Which::Ready { plan: Some(row.plan.id), limit }).collect())
    }

    /// Every plan that stands in one of these, the newest first.
    pub(crate) async fn open_plans(&self, statuses: &[PlanStatus]) -> Result<Vec<PlanRow>, PortError> {
        let (mut after, mut plans) = (None, Vec::new());
        loop {
            let filter = Filter::Plans { statuses: statuses.to_vec() };
            Counts::add(&self.counts.calls);
            let page = self.state.list(&filter, after.as_ref(), PAGE_MAX).await?;
            plans.extend(page.items.into_iter().filter_map(|row| match row {
                Row::Plan(row) => Some(row),
                _ => None,
            }));
            after = page.next;
            if after.is_none() {
                return Ok(plans);
            }
        }
    }
}
