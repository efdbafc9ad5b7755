//! Races between sixteen rivals, each on its own way to the store, for many rounds: with one
//! connection, races hide.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use tokio::sync::Barrier;
use windlass_core::event::Fact;
use windlass_core::fence::Fence;
use windlass_core::lock::LOCK_MS;
use windlass_core::port::Refusal;
use windlass_core::port::state::{Key, Row};
use windlass_core::task::status::TaskStatus;

use crate::Harness;
use crate::world::step::{self, Draft};
use crate::world::{Attempt, RIVALS, Rival, id};

/// How often they meet.
const ROUNDS: usize = 12;

/// Sixteen instances with leases, each on its own way.
async fn rivals(h: &dyn Harness) -> Vec<Rival> {
    let mut rivals = Vec::new();
    for i in 0..RIVALS {
        rivals.push(Rival::up(h, &format!("rival-{i}"), 0).await);
    }
    rivals
}

/// All at once: every rival does the same, and none begins before all are ready.
async fn meet<T, F>(rivals: &[Rival], act: impl Fn(Rival, usize) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let barrier = Arc::new(Barrier::new(rivals.len()));
    let begun = rivals.iter().enumerate().map(|(i, rival)| {
        let (act, barrier) = (act(rival.clone(), i), barrier.clone());
        tokio::spawn(async move {
            barrier.wait().await;
            act.await
        })
    });
    let begun: Vec<_> = begun.collect();
    let mut answers = Vec::new();
    for task in begun {
        answers.push(task.await.expect("a rival does not panic"));
    }
    answers
}

/// One lock, sixteen tasks.
pub async fn one_of_sixteen_gets_the_lock(h: &dyn Harness) {
    let rivals = rivals(h).await;
    for round in 0..ROUNDS {
        let tenant = format!("tenant-{round}");
        let answers = meet(&rivals, |rival, i| {
            let tenant = tenant.clone();
            async move { rival.acquire(&tenant, &format!("task-{i}"), LOCK_MS).await }
        })
        .await;
        let granted: Vec<_> = answers.iter().flatten().collect();
        assert_eq!(granted.len(), 1, "one lock, one holder, in round {round}: {granted:?}");
        for refused in answers.iter().filter_map(|answer| answer.as_ref().err()) {
            assert_eq!(*refused, Refusal::Held(granted[0].clone()), "the others are told who holds it");
        }
        assert_eq!(rivals[0].lock(&id(&tenant)).await.holder.as_ref(), Some(granted[0]));
    }
}

/// One task, sixteen instances.
pub async fn one_of_sixteen_takes_the_named_task(h: &dyn Harness) {
    let rivals = rivals(h).await;
    let draft = Draft::wide("p", ROUNDS);
    rivals[0].run(&draft).await;
    for round in 0..ROUNDS {
        let task = draft.task(round);
        let answers = meet(&rivals, |rival, _| {
            let task = task.clone();
            async move { rival.take(&task).await }
        })
        .await;
        let winners: Vec<_> = answers.iter().flatten().collect();
        assert_eq!(winners.len(), 1, "one task, one owner, in round {round}");
        let owner = winners[0].task.owner.clone();
        for refused in answers.iter().filter_map(|answer| answer.as_ref().err()) {
            assert!(matches!(refused, Refusal::Owned { owner: told, .. } if *told == owner), "{refused}");
        }
        assert_eq!(rivals[0].task(&task).await.task.owner, owner);
    }
}

/// One id, sixteen plans.
pub async fn one_of_sixteen_creates_the_plan(h: &dyn Harness) {
    let rivals = rivals(h).await;
    for round in 0..ROUNDS {
        let plan = format!("plan-{round}");
        let answers = meet(&rivals, |rival, i| {
            let mut step = Draft::new(&plan, &[&format!("tenant-of-{i}")]).step();
            step.op.id = id(&format!("create-{round}-by-{i}"));
            async move { rival.commit(&step).await }
        })
        .await;
        let winners: Vec<usize> = (0..RIVALS).filter(|i| answers[*i].is_ok()).collect();
        assert_eq!(winners.len(), 1, "one id, one plan, in round {round}");
        let lost = answers.iter().filter(|answer| matches!(answer, Err(Refusal::Exists(_)))).count();
        assert_eq!(lost, RIVALS - 1, "the others are told that it exists: {answers:?}");
        let task = rivals[0].task(&id(&format!("{plan}-0"))).await.task;
        assert_eq!(task.tenant, id(&format!("tenant-of-{}", winners[0])), "plan and tasks are of one writer");
    }
}

/// One operation id, sixteen clients that repeat it: it is done once and all get the same answer.
pub async fn sixteen_repeats_of_one_operation_are_done_once(h: &dyn Harness) {
    let rivals = rivals(h).await;
    for round in 0..ROUNDS {
        let mut step = Draft::new(&format!("plan-{round}"), &["acme"]).step();
        step.answer = Some(windlass_core::json::Json::of(&round).expect("a number"));
        let answers = meet(&rivals, |rival, _| {
            let step = step.clone();
            async move { rival.commit(&step).await }
        })
        .await;
        let first = answers[0].as_ref().expect("a repeat is no conflict");
        assert!(answers.iter().all(|answer| answer.as_ref() == Ok(first)), "{answers:?}");
        let plan = rivals[0].plan(&id(&format!("plan-{round}"))).await;
        assert_eq!((plan.version, plan.seq), (1, 1), "it was done once");
    }
}

/// One version, sixteen writers.
pub async fn one_of_sixteen_writes_the_plan_at_a_version(h: &dyn Harness) {
    let rivals = rivals(h).await;
    let draft = Draft::new("p", &["acme"]);
    rivals[0].run(&draft).await;
    for round in 0..ROUNDS {
        let row = rivals[0].plan(&draft.id()).await;
        let answers = meet(&rivals, |rival, i| {
            let fact = Fact::PlanResumed { conductor: rival.me.clone() };
            let step = step::plan(&format!("resume-{round}-by-{i}"), &row, fact);
            async move { rival.commit(&step).await }
        })
        .await;
        let winners: Vec<usize> = (0..RIVALS).filter(|i| answers[*i].is_ok()).collect();
        assert_eq!(winners.len(), 1, "one version, one writer, in round {round}");
        let (given, stored) = (row.version, row.version + 1);
        let lost = answers.iter().filter(|answer| **answer == Err(Refusal::Version { given, stored })).count();
        assert_eq!(lost, RIVALS - 1, "{answers:?}");
        let now = rivals[0].plan(&draft.id()).await;
        assert_eq!((now.version, now.seq), (row.version + 1, row.seq + 1));
        assert_eq!(now.plan.conductor, Some(rivals[winners[0]].me.clone()));
    }
}

/// One checkpoint version, sixteen writes of an owner that lost its answers: each with an id of its own.
pub async fn one_of_sixteen_writes_the_next_checkpoint(h: &dyn Harness) {
    let rivals = rivals(h).await;
    let draft = Draft::new("p", &["acme"]).stages(ROUNDS as u32 + 1);
    rivals[0].run(&draft).await;
    let attempt = rivals[0].begin(&draft.task(0)).await;
    for round in 0..ROUNDS {
        let step = rivals[0].boundary(&attempt).await;
        let answers = meet(&rivals, |rival, i| {
            let mut step = step.clone();
            step.op.id = id(&format!("stage-{round}-by-{i}"));
            async move { rival.commit(&step).await }
        })
        .await;
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1, "in round {round}: {answers:?}");
        let row = rivals[0].task(&attempt.task).await;
        assert_eq!(row.checkpoint, round as u64 + 1);
        let history = rivals[0].history(Key::TaskHistory(attempt.task.clone())).await;
        let seqs: Vec<u64> = history.iter().map(|event| event.seq).collect();
        assert_eq!(seqs, (1..=row.seq).collect::<Vec<_>>(), "no event twice, none lost");
    }
}

/// A plan's slots hold against everybody at once, and every slot is used.
pub async fn max_concurrency_holds_against_sixteen_rivals(h: &dyn Harness) {
    let rivals = rivals(h).await;
    for round in 0..ROUNDS {
        let slots = 1 + round % 5;
        let draft = Draft::wide(&format!("plan-{round}"), 24).at_once(slots as u32);
        rivals[0].run(&draft).await;
        let mut seen = BTreeSet::new();
        for wave in 0..3 {
            let plan = draft.id();
            let answers = meet(&rivals, |rival, i| {
                let plan = plan.clone();
                async move { rival.ready(Some(&plan), 1 + (i % 3) as u32).await }
            })
            .await;
            let mut taken: Vec<_> = answers.into_iter().flatten().collect();
            assert!(taken.len() <= slots, "{} taken, {slots} slots in round {round}", taken.len());
            // Rivals may have stood in each other's way; alone, one gets what they left.
            taken.extend(rivals[wave].ready(Some(&draft.id()), 24).await);
            assert!(taken.iter().all(Result::is_ok), "what is not ready is not refused, it is left out: {taken:?}");
            assert_eq!(taken.len(), slots, "{slots} slots in round {round}, wave {wave}");
            for row in taken.into_iter().flatten() {
                assert!(seen.insert(row.task.id.clone()), "{} was handed out twice", row.task.id);
                let owner = rivals.iter().find(|rival| Some(&rival.me) == row.task.owner.as_ref());
                let owner = owner.expect("it belongs to a rival");
                let attempt = owner.begin(&row.task.id).await;
                owner.fail(&attempt).await;
            }
        }
    }
}

/// Two plans, one tenant, one lock: every fence is drawn once, whoever draws it.
pub async fn fences_are_unique_and_grow(h: &dyn Harness) {
    let rivals = rivals(h).await;
    let mut highest = Fence::NONE;
    for round in 0..ROUNDS {
        let answers = meet(&rivals, |rival, i| async move {
            let mut drawn = Vec::new();
            for n in 0..8 {
                // Some tenants are one rival's alone, one is everybody's.
                let tenant = if n % 4 == 3 { "everybodys".to_owned() } else { format!("tenant-{i}-{n}") };
                if let Ok(holder) = rival.acquire(&tenant, &format!("task-{i}"), LOCK_MS).await {
                    drawn.push(holder.fence);
                }
            }
            drawn
        })
        .await;
        for drawn in &answers {
            assert!(drawn.is_sorted_by(|a, b| a < b), "one rival's fences grow: {drawn:?}");
        }
        let all: Vec<Fence> = answers.into_iter().flatten().collect();
        let unique: BTreeSet<Fence> = all.iter().copied().collect();
        assert_eq!(unique.len(), all.len(), "a fence was drawn twice in round {round}");
        assert!(*unique.first().expect("some were drawn") > highest, "later ones are larger than all before");
        highest = *unique.last().expect("some were drawn");
    }
}

/// Sixteen ask, the owner commits its boundaries: nobody is refused, and no request is lost.
pub async fn requests_and_boundaries_cross_without_a_loss(h: &dyn Harness) {
    let rivals = rivals(h).await;
    let draft = Draft::new("p", &["acme"]).stages(ROUNDS as u32 + 1);
    rivals[0].run(&draft).await;
    let attempt = rivals[0].begin(&draft.task(0)).await;
    for round in 0..ROUNDS {
        let before = rivals[0].task(&attempt.task).await;
        let boundary = rivals[0].boundary(&attempt).await;
        let answers = meet(&rivals, |rival, i| {
            let request = if i % 2 == 0 { step::pause() } else { step::cancel() };
            let ask = step::asks(&format!("ask-{round}-{i}"), &attempt.task, &[TaskStatus::Running], request);
            let step = if i == 0 { boundary.clone() } else { ask };
            async move { rival.commit(&step).await }
        })
        .await;
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        let row = rivals[0].task(&attempt.task).await;
        assert_eq!(row.version, before.version + RIVALS as u64, "every write counts once");
        assert!(row.control.pause.is_some() && row.control.cancel.is_some());
        assert_eq!(row.checkpoint, before.checkpoint + 1);
    }
}

/// Sixteen attempts of one tenant with one fence each, their first commits at once: whatever the
/// order, the highest is the tenant's in the end and nobody below it writes afterwards.
pub async fn the_highest_of_sixteen_fences_stays(h: &dyn Harness) {
    let rivals = rivals(h).await;
    for round in 0..ROUNDS {
        let tenant = format!("tenant-{round}");
        let mut begun = Vec::new();
        for (i, rival) in rivals.iter().enumerate() {
            let draft = Draft::new(&format!("plan-{round}-{i}"), &[&tenant]);
            rival.create(&draft).await;
            let row = rival.take(&draft.task(0)).await.expect("free");
            let fence = Fence(1_000 + ((i * 7) % RIVALS) as u64);
            let attempt = Attempt { task: draft.task(0), tenant: id(&tenant), instance: rival.me.clone(), fence };
            begun.push((step::begins(&format!("begin-{round}-{i}"), &row, &attempt), attempt));
        }
        let answers = meet(&rivals, |rival, i| {
            let step = begun[i].0.clone();
            async move { rival.commit(&step).await }
        })
        .await;
        let highest = Fence(1_000 + RIVALS as u64 - 1);
        let row = rivals[0].load(Key::Tenant(id(&tenant))).await;
        assert!(matches!(row, Some(Row::Tenant(row)) if row.fence == highest), "in round {round}");
        for ((_, attempt), answer) in begun.iter().zip(&answers) {
            match (answer, attempt.fence == highest) {
                (Err(why), true) => panic!("the highest fence was refused: {why}"),
                (Ok(_), false) => {
                    let owner = rivals.iter().find(|rival| rival.me == attempt.instance).expect("a rival");
                    let late = owner.commit(&owner.boundary(attempt).await).await;
                    assert!(matches!(late, Err(Refusal::Stale { .. })), "{late:?}");
                }
                (Err(why), false) => assert!(matches!(why, Refusal::Stale { .. }), "{why}"),
                (Ok(_), true) => {}
            }
        }
    }
}
