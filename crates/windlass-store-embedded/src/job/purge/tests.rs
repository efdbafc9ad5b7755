use super::*;

fn run(from: u8, to: u8) -> Run {
    (vec![from], vec![to])
}

#[test]
fn gaps_grow_together_and_what_is_left_lies_between_them() {
    let mut purged = Purged::default();
    assert_eq!(purged.rest(run(1, 9)), [run(1, 9)]);
    purged.add(run(3, 4));
    purged.add(run(6, 7));
    assert_eq!(purged.rest(run(1, 9)), [run(1, 3), run(4, 6), run(7, 9)]);
    assert_eq!(purged.rest(run(3, 7)), [run(4, 6)]);
    assert_eq!(purged.rest(run(3, 4)), []);
    purged.add(run(4, 6));
    assert_eq!(purged.0, [run(3, 7)]);
    purged.forget(&[7]);
    assert_eq!(purged.0, [run(3, 7)], "the end is not in it");
    purged.forget(&[5, 1]);
    assert_eq!(purged.0, []);
}

#[test]
fn gaps_are_bounded() {
    let mut purged = Purged::default();
    (0..100).for_each(|n| purged.add(run(2 * n, 2 * n + 1)));
    assert_eq!(purged.0.len(), GAPS_MAX);
}
