use super::*;

fn want(task: &str) -> Acquire {
    Acquire { tenant: "acme".parse().unwrap(), plan: "p".parse().unwrap(), task: task.parse().unwrap(), ttl_ms: 100 }
}

fn held(task: &str, fence: u64) -> Held {
    Held { tenant: "acme".parse().unwrap(), task: task.parse().unwrap(), fence: Fence(fence) }
}

#[test]
fn a_free_lock_is_granted_and_a_held_one_names_its_holder() {
    let first = acquire(None, None, &want("a"), Fence(1), Ms::new(10)).unwrap();
    assert_eq!((first.fence, first.since, first.until), (Fence(1), Ms::new(10), Ms::new(110)));
    assert_eq!(acquire(Some(&first), None, &want("b"), Fence(2), Ms::new(20)), Err(NotGranted::Held(first)));
}

#[test]
fn an_expired_lock_is_granted_with_a_higher_fence() {
    let first = acquire(None, None, &want("a"), Fence(1), Ms::new(10)).unwrap();
    assert!(acquire(Some(&first), None, &want("b"), Fence(2), Ms::new(109)).is_err());
    let second = acquire(Some(&first), None, &want("b"), Fence(2), Ms::new(110)).unwrap();
    assert_eq!((second.task.as_str(), second.fence, second.since), ("b", Fence(2), Ms::new(110)));
}

#[test]
fn its_own_task_gets_it_again_under_a_higher_fence_and_the_old_one_is_void() {
    let first = acquire(None, None, &want("a"), Fence(1), Ms::new(10)).unwrap();
    let again = acquire(Some(&first), None, &want("a"), Fence(2), Ms::new(20)).unwrap();
    assert_eq!((again.fence, again.since, again.until), (Fence(2), Ms::new(10), Ms::new(120)));
    assert!(still(Some(&again), &held("a", 1), Ms::new(30)).is_none(), "late renew or release");
    assert!(still(Some(&again), &held("a", 2), Ms::new(30)).is_some());
    assert!(still(Some(&again), &held("b", 2), Ms::new(30)).is_none(), "another task");
    assert!(still(Some(&again), &held("a", 2), Ms::new(120)).is_none(), "expired");
}

#[test]
fn a_frozen_tenant_grants_nothing_even_to_its_holder() {
    let freeze = Freeze { tenant: "acme".parse().unwrap(), by: "sre".parse().unwrap(), reason: None, at: Ms::ZERO };
    let refused = acquire(None, Some(&freeze), &want("a"), Fence(1), Ms::ZERO);
    assert_eq!(refused, Err(NotGranted::Frozen(freeze)));
}
