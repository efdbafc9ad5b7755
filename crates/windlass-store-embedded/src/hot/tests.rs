use super::*;

fn id(n: usize) -> TaskId {
    format!("t{n}").parse().unwrap()
}

#[test]
fn however_many_rows_are_written_only_the_last_ones_are_kept() {
    let mut lately = Lately::<TaskId, usize>::default();
    for n in 0..10 * LATELY {
        lately.insert(id(n), n);
        let kept = lately.young.len() + lately.old.len();
        assert!(kept <= 2 * LATELY, "{kept} after {n}");
        for back in [0, 1, LATELY / 2, LATELY - 1] {
            let wanted = n.checked_sub(back);
            assert_eq!(wanted.and_then(|n| lately.get(id(n).as_str()).copied()), wanted, "{back} before {n}");
        }
    }
    assert_eq!(lately.get(id(0).as_str()), None);
}

#[test]
fn rows_that_are_written_again_and_again_stay_whatever_else_is_written() {
    let mut lately = Lately::<TaskId, usize>::default();
    for n in 0..10 * LATELY {
        lately.insert(id(n), n);
        lately.insert(id(0), n);
        assert_eq!(lately.get(id(0).as_str()), Some(&n), "the newest of it");
    }
}

#[test]
fn what_is_removed_is_gone_from_both_halves() {
    let mut lately = Lately::<TaskId, usize>::default();
    (0..=LATELY).for_each(|n| lately.insert(id(n), n));
    for n in [0, LATELY] {
        assert_eq!(lately.get(id(n).as_str()), Some(&n));
        lately.remove(id(n).as_str());
        assert_eq!(lately.get(id(n).as_str()), None);
    }
    // One that was in the older half and was written again has no older self left.
    lately.insert(id(1), 100);
    lately.remove(id(1).as_str());
    assert_eq!(lately.get(id(1).as_str()), None);
}
