//! Races between rivals, each on its own way to the store: with one connection, races hide.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use tokio::sync::Barrier;
use windlass_core::job::limit::Scope;
use windlass_core::job::rules::Asked;
use windlass_core::job::{JobStatus, NewJob};
use windlass_core::port::Refusal;

use crate::job::JobHarness;
use crate::job::world::{Client, LATER_MS, done, job_id, new, of, queue_scope, running, tenant_scope, waiting};
use crate::world::RIVALS;

/// How often they meet.
const ROUNDS: u64 = 40;

async fn rivals(h: &dyn JobHarness, ahead_ms: u64) -> Vec<Client> {
    let mut rivals = Vec::new();
    for i in 0..RIVALS {
        rivals.push(Client::ahead(h, &format!("rival-{i}"), ahead_ms).await);
    }
    rivals
}

/// All at once: none begins before all are ready.
async fn meet<T, F>(rivals: &[Client], act: impl Fn(Client, usize) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let barrier = Arc::new(Barrier::new(rivals.len()));
    let begun: Vec<_> = rivals
        .iter()
        .enumerate()
        .map(|(i, rival)| {
            let (act, barrier) = (act(rival.clone(), i), barrier.clone());
            tokio::spawn(async move {
                barrier.wait().await;
                act.await
            })
        })
        .collect();
    let mut answers = Vec::new();
    for task in begun {
        answers.push(task.await.expect("a rival does not panic"));
    }
    answers
}

/// A thousand jobs, sixteen workers: each job is claimed once and completed once.
pub async fn a_thousand_jobs_are_each_claimed_once(h: &dyn JobHarness) {
    let rivals = rivals(h, 0).await;
    rivals[0].add(&(0..1_000).map(|n| of(n, ["a", "b", "c"][n as usize % 3])).collect::<Vec<_>>()).await;
    let claimed = meet(&rivals, |rival, i| async move {
        let mut mine = Vec::new();
        let mut empty = 0;
        // A claim beside others may find what they are about to take, and get nothing.
        while empty < 3 {
            let jobs = rival.claim(1 + i as u32 % 7).await;
            empty = if jobs.is_empty() { empty + 1 } else { 0 };
            for job in &jobs {
                assert_eq!((job.attempt, job.deliveries), (1, 1));
                assert_eq!(rival.settle(job, done()).await, Ok(JobStatus::Completed));
            }
            mine.extend(jobs.into_iter().map(|job| job.id));
        }
        mine
    })
    .await;
    let all: Vec<_> = claimed.into_iter().flatten().collect();
    let different: BTreeSet<_> = all.iter().collect();
    assert_eq!(different.len(), all.len(), "none twice");
    let left = rivals[0].claim(1_000).await;
    assert_eq!(all.len() + left.len(), 1_000, "and none lost");
    assert!(left.is_empty(), "sixteen workers leave nothing: {}", left.len());
}

/// A worker claims what a person cancels: it was cancelled and nobody has it, or it runs and its end was asked for.
pub async fn a_cancel_and_a_claim_have_one_winner(h: &dyn JobHarness) {
    let both = [Client::open(h, "worker").await, Client::open(h, "person").await];
    for round in 0..ROUNDS {
        let id = job_id(round);
        both[0].add(&[new(round)]).await;
        let answers = meet(&both, |rival, i| async move {
            match i {
                0 => Ok(rival.claim(1).await),
                _ => Err(rival.cancel(id).await),
            }
        })
        .await;
        let (Ok(claimed), Err(asked)) = (&answers[0], &answers[1]) else { panic!("one each") };
        let stored = both[0].load(id).await;
        match asked {
            Asked::Cancelled => {
                assert_eq!((claimed.len(), stored.status), (0, JobStatus::Cancelled), "round {round}");
            }
            Asked::Requested => {
                assert_eq!((claimed.len(), stored.status), (1, JobStatus::Running), "round {round}");
                assert!(stored.cancel.is_some());
                both[0].settle(&claimed[0], done()).await.expect("its own");
            }
            other => panic!("round {round}: {other:?}"),
        }
    }
}

/// A worker completes a job whose lease ran out, while another claims it: one of them has it.
pub async fn a_completion_and_the_end_of_a_lease_have_one_winner(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let both = [one.clone(), Client::ahead(h, "later", LATER_MS).await];
    for round in 0..ROUNDS {
        one.add(&[new(round)]).await;
        let job = one.take().await;
        let before = job.clone();
        let answers = meet(&both, move |rival, i| {
            let job = job.clone();
            async move {
                match i {
                    0 => Ok(rival.settle(&job, done()).await),
                    _ => Err(rival.claim(1).await),
                }
            }
        })
        .await;
        let (Ok(settled), Err(claimed)) = (&answers[0], &answers[1]) else { panic!("one each") };
        match settled {
            Ok(status) => {
                assert_eq!((*status, claimed.len()), (JobStatus::Completed, 0), "round {round}");
            }
            Err(why) => {
                assert_eq!(claimed.len(), 1, "round {round}: refused, so somebody has it");
                let stale = Refusal::Stale { given: before.fence, stored: claimed[0].fence };
                assert_eq!(*why, stale);
                both[1].settle(&claimed[0], done()).await.expect("its own");
            }
        }
        assert_eq!(one.stands(before.id).await.0, JobStatus::Completed);
    }
}

/// Sixteen workers want the jobs of one that is gone: each is delivered again once.
pub async fn a_lost_workers_jobs_are_delivered_again_once(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    one.add(&(0..50).map(new).collect::<Vec<_>>()).await;
    assert_eq!(one.claim(50).await.len(), 50);
    let rivals = rivals(h, LATER_MS).await;
    let claimed: Vec<_> =
        meet(&rivals, |rival, _| async move { rival.claim(5).await }).await.into_iter().flatten().collect();
    let different: BTreeSet<_> = claimed.iter().map(|job| job.id).collect();
    assert_eq!(different.len(), claimed.len(), "none twice");
    assert!(claimed.iter().all(|job| job.deliveries == 2));
    let left = rivals[0].claim(99).await;
    assert_eq!(claimed.len() + left.len(), 50);
}

/// Sixteen submit the same job, and the same key under sixteen ids: one job each.
pub async fn one_of_sixteen_submissions_is_the_job(h: &dyn JobHarness) {
    let rivals = rivals(h, 0).await;
    for round in 0..10 {
        let made = meet(&rivals, |rival, i| async move {
            let keyed =
                NewJob { id: job_id(10_000 + round * 100 + i as u64), key: Some(format!("k-{round}")), ..new(0) };
            let mut made = rival.submit(&[new(1 + round)]).await.expect("a repeat");
            made.extend(rival.submit(&[keyed]).await.expect("a repeat"));
            made
        })
        .await;
        for which in [0, 1] {
            assert_eq!(made.iter().filter(|made| !made[which].existing).count(), 1, "round {round}");
            let same: BTreeSet<_> = made.iter().map(|made| made[which].id).collect();
            assert_eq!(same.len(), 1, "everybody is told the same id");
        }
    }
    assert_eq!(rivals[0].everything().await.len(), 20);
}

/// As many as may run, however many ask.
pub async fn limits_on_what_runs_hold_against_sixteen_rivals(h: &dyn JobHarness) {
    let rivals = rivals(h, 0).await;
    for (n, scope) in [queue_scope(), tenant_scope("acme"), Scope::EachTenant].into_iter().enumerate() {
        let first = 1_000 * n as u64;
        rivals[0].add(&(first..first + 100).map(|n| of(n, "acme")).collect::<Vec<_>>()).await;
        rivals[0].rule(scope.clone(), running(5), false).await;
        for _ in 0..6 {
            let claimed = meet(&rivals, |rival, _| async move { rival.claim(2).await }).await;
            let all: Vec<_> = claimed.iter().flatten().cloned().collect();
            assert!(all.len() <= 5, "{} run under {scope}", all.len());
            let more = rivals[0].claim(9).await;
            assert_eq!(all.len() + more.len(), 5, "and every slot is used");
            let all = [all, more].concat();
            meet(&rivals, move |rival, i| {
                let job = all.get(i).cloned();
                async move {
                    if let Some(job) = job {
                        rival.settle(&job, done()).await.expect("its own");
                    }
                }
            })
            .await;
        }
        rivals[0].rule(scope, windlass_core::job::limit::Limits::NONE, false).await;
        for job in rivals[0].claim(1_000).await {
            rivals[0].settle(&job, done()).await.expect("its own");
        }
    }
}

/// As many as may wait, however many submit.
pub async fn limits_on_what_waits_hold_against_sixteen_rivals(h: &dyn JobHarness) {
    let rivals = rivals(h, 0).await;
    for (n, scope) in [queue_scope(), tenant_scope("t-1"), Scope::EachTenant].into_iter().enumerate() {
        rivals[0].rule(scope.clone(), waiting(7), false).await;
        let tenant = format!("t-{n}");
        let answers = meet(&rivals, |rival, i| {
            let tenant = tenant.clone();
            async move { rival.submit(&[of((1_000 * n + i) as u64, &tenant)]).await.is_ok() }
        })
        .await;
        assert_eq!(answers.iter().filter(|taken| **taken).count(), 7, "under {scope}");
        assert_eq!(rivals[0].queue().await.waiting, 7);
        rivals[0].rule(scope, windlass_core::job::limit::Limits::NONE, false).await;
        for job in rivals[0].claim(99).await {
            rivals[0].settle(&job, done()).await.expect("its own");
        }
    }
}
