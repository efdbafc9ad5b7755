//! Fairness: tenants of a queue take turns.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::id::TenantId;
use windlass_core::job::{Job, NewJob};
use windlass_core::port::job::Turn;

use crate::job::JobHarness;
use crate::job::world::{Client, LATER_MS, LEASE_MS, done, ids, job_id, new, of, running, tenant_scope, turn};
use crate::world::id;

fn tenants(jobs: &[Job]) -> Vec<String> {
    jobs.iter().map(|job| job.tenant.as_ref().map_or("", TenantId::as_str).to_owned()).collect()
}

/// One tenant's many jobs, all submitted first, do not keep another's few waiting.
pub async fn many_jobs_of_one_tenant_do_not_starve_the_few_of_another(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    one.add(&(0..200).map(|n| NewJob { priority: 9, ..of(n, "many") }).collect::<Vec<_>>()).await;
    one.add(&(200..205).map(|n| of(n, "few")).collect::<Vec<_>>()).await;
    one.add(&(205..210).map(new).collect::<Vec<_>>()).await;
    let claimed = one.claim(30).await;
    assert_eq!(claimed.len(), 30);
    let count = tenants(&claimed).iter().fold(BTreeMap::new(), |mut count, tenant| {
        *count.entry(tenant.clone()).or_insert(0) += 1;
        count
    });
    let wanted = [("", 5), ("few", 5), ("many", 20)].map(|(tenant, n)| (tenant.to_owned(), n));
    assert_eq!(count, BTreeMap::from(wanted), "no tenant is one of its own");
    let of_few: Vec<_> = claimed.iter().filter(|job| job.tenant == Some(id("few"))).cloned().collect();
    assert_eq!(ids(&of_few), (200..205).map(job_id).collect::<Vec<_>>(), "each tenant's in its own order");
}

/// Within one claim: everybody has one before anybody has two, and so on.
pub async fn within_a_claim_everybody_has_one_before_anybody_has_two(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let mut n = 0;
    for (tenant, jobs) in [("a", 9), ("b", 1), ("c", 4), ("d", 2), ("e", 9)] {
        for _ in 0..jobs {
            one.add(&[of(n, tenant)]).await;
            n += 1;
        }
    }
    let claimed = tenants(&one.claim(100).await);
    assert_eq!(claimed.len(), 25);
    let rounds: [&[&str]; 9] = [
        &["a", "b", "c", "d", "e"],
        &["a", "c", "d", "e"],
        &["a", "c", "e"],
        &["a", "c", "e"],
        &["a", "e"],
        &["a", "e"],
        &["a", "e"],
        &["a", "e"],
        &["a", "e"],
    ];
    let mut rest = &claimed[..];
    for round in rounds {
        let (these, after) = rest.split_at(round.len());
        let these: BTreeSet<&str> = these.iter().map(String::as_str).collect();
        assert_eq!(these, round.iter().copied().collect(), "in {claimed:?}");
        rest = after;
    }
}

/// Over claims that come one after another, of any size: nobody is given two while another waits.
pub async fn over_claims_nobody_is_given_two_while_another_waits(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    for n in 0..140 {
        one.add(&[of(n, names[n as usize % 7])]).await;
    }
    let mut given = Vec::new();
    for size in [1, 1, 1, 2, 5, 3, 1, 7, 4, 1, 1, 9, 6, 2, 1, 20, 30] {
        given.extend(tenants(&one.claim(size).await));
    }
    assert_eq!(given.len(), 95);
    for (i, window) in given.windows(7).enumerate() {
        let different: BTreeSet<&String> = window.iter().collect();
        assert_eq!(different.len(), 7, "at {i} of {given:?}");
    }
}

/// Who comes late waits for one round at most.
pub async fn a_tenant_that_comes_late_waits_for_one_round_at_most(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let names = ["b", "d", "f"];
    for n in 0..60 {
        one.add(&[of(n, names[n as usize % 3])]).await;
    }
    for (i, late) in ["a", "c", "e", "g"].into_iter().enumerate() {
        one.claim(i as u32 + 1).await;
        one.add(&[of(100 + i as u64, late)]).await;
        let mut round = Vec::new();
        for _ in 0..4 {
            round.extend(tenants(&one.claim(1).await));
        }
        assert!(round.contains(&late.to_owned()), "{late} in {round:?}");
    }
}

/// A tenant at its limit is passed over, and is back in turn when it has room.
pub async fn a_tenant_at_its_limit_is_passed_over(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    one.rule(tenant_scope("small"), running(2), false).await;
    one.add(&(0..20).map(|n| of(n, "small")).collect::<Vec<_>>()).await;
    one.add(&(20..40).map(|n| of(n, "big")).collect::<Vec<_>>()).await;
    let claimed = one.claim(10).await;
    assert_eq!(tenants(&claimed).iter().filter(|tenant| *tenant == "small").count(), 2);
    assert_eq!(claimed.len(), 10, "the others go on");
    let small = claimed.iter().find(|job| job.tenant == Some(id("small"))).expect("two of them");
    one.settle(small, done()).await.expect("its own");
    let next = tenants(&one.claim(2).await);
    assert_eq!(BTreeSet::from_iter(next), BTreeSet::from(["big".to_owned(), "small".to_owned()]));
}

/// Turns are taken in each queue by itself.
pub async fn queues_do_not_share_their_turns(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    let mut n = 0;
    for queue in ["q", "r"] {
        for tenant in ["a", "b", "a", "b", "a", "b"] {
            one.add(&[NewJob { queue: id(queue), ..of(n, tenant) }]).await;
            n += 1;
        }
    }
    let mut given = BTreeMap::new();
    for _ in 0..6 {
        for job in one.turn(Turn { want: vec![(id("q"), 1), (id("r"), 1)], ..turn(&one.me) }).await.claimed {
            given.entry(job.queue).or_insert_with(Vec::new).push(job.tenant.expect("each has one"));
        }
    }
    for (queue, given) in given {
        assert_eq!(given.len(), 6);
        assert!(given.windows(2).all(|pair| pair[0] != pair[1]), "{queue}: {given:?}");
    }
}

/// A tenant whose workers die again and again gets back what it had, and others get theirs all the same.
pub async fn what_is_delivered_again_takes_nobodys_turn(h: &dyn JobHarness) {
    let one = Client::open(h, "one").await;
    one.add(&(0..3).map(|n| of(n, "bad")).collect::<Vec<_>>()).await;
    assert_eq!(one.claim(3).await.len(), 3);
    one.add(&[of(10, "bad"), of(11, "good"), of(12, "bad"), of(13, "good")]).await;
    let later = Client::ahead(h, "later", LATER_MS).await;
    let wide = Turn { want: vec![(id("q"), 5)], lease_ms: 9 * LEASE_MS, ..turn(&later.me) };
    let claimed = tenants(&later.turn(wide).await.claimed);
    assert_eq!(claimed[..3], ["bad", "bad", "bad"]);
    let turns: BTreeSet<&String> = claimed[3..].iter().collect();
    assert_eq!(turns.len(), 2, "{claimed:?}");
}
