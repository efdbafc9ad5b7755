//! Races between rivals, each on its own way to the store: with one connection, races hide.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use tokio::sync::Barrier;
use windlass_core::port::Refusal;
use windlass_core::trigger::Trigger;
use windlass_core::trigger::rules::{fire, pause};

use crate::trigger::TriggerHarness;
use crate::trigger::world::{Client, LATER_MS, asker, daily, done, due, once};
use crate::world::{BORN, RIVALS};

/// How often they meet.
const ROUNDS: u64 = 40;

async fn rivals(h: &dyn TriggerHarness, ahead_ms: u64) -> Vec<Client> {
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

/// A thousand due, sixteen schedulers: each is claimed once and fired once.
pub async fn a_thousand_due_triggers_are_each_claimed_once(h: &dyn TriggerHarness) {
    let rivals = rivals(h, 0).await;
    rivals[0].add(&(0..1_000).map(|n| once(&format!("t-{n}"), BORN.plus(n % 10))).collect::<Vec<_>>()).await;
    let claimed = meet(&rivals, |rival, i| async move {
        let (mut mine, mut empty) = (Vec::new(), 0);
        // A claim beside others may find what they are about to take, and get nothing.
        while empty < 3 {
            let due = rival.claim(1 + i as u32 * 3).await;
            empty = if due.is_empty() { empty + 1 } else { 0 };
            for owned in &due {
                assert_eq!(rival.settle(owned, done(owned, BORN)).await, Ok(()));
            }
            mine.extend(due.into_iter().map(|owned| owned.id));
        }
        mine
    })
    .await;
    let all: Vec<_> = claimed.into_iter().flatten().collect();
    let different: BTreeSet<_> = all.iter().collect();
    assert_eq!(different.len(), all.len(), "none twice");
    let left = rivals[0].claim(1_000).await;
    assert_eq!(all.len() + left.len(), 1_000, "and none lost");
    assert!(left.is_empty(), "sixteen schedulers leave nothing: {}", left.len());
}

/// Two schedulers, a person who fires it, and in every other round one who removes it.
pub async fn a_fire_and_a_timer_and_a_removal_have_one_winner(h: &dyn TriggerHarness) {
    let rivals = rivals(h, 0).await;
    for round in 0..ROUNDS {
        let name = format!("t-{round}");
        let removes = round % 2 == 1;
        rivals[0].add(&[due(&name)]).await;
        let read = rivals[0].load(&name).await;
        let answers = meet(&rivals[..if removes { 4 } else { 3 }], |rival, i| {
            let (read, name) = (read.clone(), name.clone());
            async move {
                match i {
                    0 | 1 => rival.claim(1).await,
                    2 => {
                        let (fired, note) = fire(&read, &asker(BORN.plus(1))).expect("it waits");
                        let saved = rival.save_with(&fired, &[note]).await;
                        let beaten = matches!(
                            saved,
                            Ok(2) | Err(Refusal::Version { .. } | Refusal::NotFound(_) | Refusal::Owned { .. })
                        );
                        assert!(beaten, "{saved:?}");
                        Vec::new()
                    }
                    _ => {
                        assert!(rival.remove(&name).await);
                        Vec::new()
                    }
                }
            }
        })
        .await;
        let mut claimed: Vec<Trigger> = answers.into_iter().flatten().collect();
        claimed.extend(rivals[0].claim(1).await);
        assert!(claimed.len() <= 1, "round {round}: {} have it", claimed.len());
        assert!(removes || claimed.len() == 1, "round {round}: nobody has it");
        for owned in &claimed {
            let settled = rivals[0].settle(owned, done(owned, BORN)).await;
            assert_eq!(settled.is_ok(), !removes, "round {round}: {settled:?}");
        }
        assert_eq!(rivals[0].find(&name).await.is_some(), !removes);
    }
}

/// An owner settles what it was too slow for, while another claims it: one of them has it.
pub async fn a_settle_and_the_end_of_a_lease_have_one_winner(h: &dyn TriggerHarness) {
    let one = Client::open(h, "one").await;
    let both = [one.clone(), Client::ahead(h, "later", LATER_MS).await];
    for round in 0..ROUNDS {
        let name = format!("t-{round}");
        one.add(&[due(&name)]).await;
        let owned = one.take().await;
        let answers = meet(&both, |rival, i| {
            let owned = owned.clone();
            async move {
                match i {
                    0 => Ok(rival.settle(&owned, done(&owned, BORN)).await),
                    _ => Err(rival.claim(1).await),
                }
            }
        })
        .await;
        let (Ok(settled), Err(claimed)) = (&answers[0], &answers[1]) else { panic!("one each") };
        match settled {
            Ok(()) => assert!(claimed.is_empty(), "round {round}: both"),
            Err(why) => {
                assert_eq!(claimed.len(), 1, "round {round}: refused, so somebody has it");
                let stale = Refusal::Stale { given: owned.run.fence, stored: claimed[0].run.fence };
                assert_eq!(*why, stale);
                both[1].settle(&claimed[0], done(&claimed[0], BORN)).await.expect("its own");
            }
        }
        assert_eq!(one.notes(&name).await.len(), 1, "it fired once");
    }
}

/// Sixteen make the same trigger, and then sixteen change it.
pub async fn one_of_sixteen_saves_is_the_trigger(h: &dyn TriggerHarness) {
    let rivals = rivals(h, 0).await;
    for round in 0..10 {
        let name = format!("t-{round}");
        for version in 0..2 {
            let saved = meet(&rivals, |rival, _| {
                let new = Trigger { version, ..daily(&name) };
                async move { rival.save(&new).await }
            })
            .await;
            let taken = saved.iter().filter(|saved| **saved == Ok(version + 1)).count();
            assert_eq!((taken, saved.iter().filter(|saved| saved.is_ok()).count()), (1, 1), "round {round}: {saved:?}");
        }
    }
}

/// A person pauses what is being settled: neither is lost.
pub async fn a_pause_and_a_settle_are_both_kept(h: &dyn TriggerHarness) {
    let both = [Client::open(h, "one").await, Client::open(h, "person").await];
    for round in 0..ROUNDS {
        let name = format!("t-{round}");
        both[0].add(&[daily(&name)]).await;
        let owned = both[0].take().await;
        let settled = meet(&both, |rival, i| {
            let owned = owned.clone();
            async move {
                match i {
                    0 => rival.settle(&owned, done(&owned, BORN)).await.is_ok(),
                    _ => loop {
                        let read = rival.load(owned.id.as_str()).await;
                        match rival.save(&pause(&read, &asker(BORN))).await {
                            Ok(_) => return true,
                            Err(Refusal::Version { .. }) => {}
                            Err(why) => panic!("{why}"),
                        }
                    },
                }
            }
        })
        .await;
        assert_eq!(settled, [true, true], "round {round}");
        let stored = both[0].load(&name).await;
        assert!(stored.paused.is_some() && stored.run.made.is_some(), "round {round}: {stored:?}");
    }
}
