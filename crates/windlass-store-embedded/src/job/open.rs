//! The index as it is made from what is stored.

use std::collections::BTreeSet;

use windlass_core::id::{QueueName, TenantId};
use windlass_core::job::JobStatus;
use windlass_core::job::limit::Rule;

use super::claimed;
use super::index::{Index, Running};
use super::lane::Lane;
use super::record::Kept;
use crate::kv::{KvError, Read};
use crate::{key, record};

pub(crate) fn open(read: &dyn Read) -> Result<Index, KvError> {
    let mut index = Index::default();
    let (from, to) = key::job_rules();
    read.scan(&from, &to, &mut |_, value| {
        let rule: Rule = record::decode(value)?;
        index.rules.insert(rule.scope.clone(), rule);
        Ok(true)
    })?;
    let (from, to) = key::lane_counts();
    read.scan(&from, &to, &mut |key, value| {
        let (queue, whose) = names(&key[1..]).ok_or_else(|| KvError::Corrupt("a lane has no name".into()))?;
        let waiting = record::decode_u64(value)?;
        if let Some(tenant) = &whose {
            index.tenants.entry(tenant.clone()).or_default().waiting += waiting;
        }
        let queue = index.queues.entry(queue).or_default();
        queue.waiting += waiting;
        queue.lanes.insert(whose.clone(), Lane::stored(waiting));
        // Whether something of it is due is seen when its turn comes.
        queue.enter(&whose);
        Ok(true)
    })?;
    running(read, &mut index)?;
    Ok(index)
}

fn running(read: &dyn Read, index: &mut Index) -> Result<(), KvError> {
    let mut claims = Vec::new();
    let (from, to) = key::all_claimed();
    read.scan(&from, &to, &mut |key, value| {
        let number = key[1..].try_into().map(u64::from_be_bytes);
        let number = number.map_err(|_| KvError::Corrupt("a claim has no number".into()))?;
        claims.push((number, claimed::decode(value)?));
        Ok(true)
    })?;
    for (number, jobs) in claims {
        let mut runs = BTreeSet::new();
        let stored = jobs.len();
        for (fence, place) in jobs {
            let Some(value) = read.get(&place)? else { continue };
            let kept = Kept::decode(&value)?;
            // It may have been delivered again, or wait again at the same place.
            if kept.job.status != JobStatus::Running || kept.job.fence != fence {
                continue;
            }
            runs.insert(kept.job.id);
            index.count(&kept.job, 0, 1);
            if let Some(queue) = index.queues.get_mut(&kept.job.queue) {
                queue.leases.insert((kept.job.lease_until, kept.job.id));
            }
            index.running.insert(kept.job.id, Running { kept, claim: number });
        }
        index.claims.found(number, runs, stored);
    }
    Ok(())
}

/// The queue and the tenant that a key made by [`key::lane_count`] names.
fn names(key: &[u8]) -> Option<(QueueName, Option<TenantId>)> {
    let text = std::str::from_utf8(key).ok()?;
    let (queue, tenant) = text.split_once('\0')?;
    let tenant = if tenant.is_empty() { None } else { Some(tenant.parse().ok()?) };
    Some((queue.parse().ok()?, tenant))
}
