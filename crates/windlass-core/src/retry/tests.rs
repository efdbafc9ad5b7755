use super::*;
use proptest::prelude::*;

const THREE: Retry = Retry { max: 3, backoff_ms: 1_000, max_backoff_ms: 3_000 };

#[test]
fn pauses_double_up_to_the_maximum_and_then_the_failure_counts() {
    let pauses: Vec<_> = (1..=4).map(|tried| THREE.delay_ms(tried, 0.0)).collect();
    assert_eq!(pauses, [Some(1_000), Some(2_000), Some(3_000), None]);
    assert_eq!(Retry::NONE.delay_ms(1, 0.0), None);
}

proptest! {
    #[test]
    fn a_pause_is_between_half_and_all_of_the_doubled_one(tried in 1u32..200, base in 0u64..u64::MAX, cap in 0u64..1 << 40, jitter in 0.0f64..1.0) {
        let retry = Retry { max: u32::MAX, backoff_ms: base, max_backoff_ms: cap };
        let full = retry.delay_ms(tried, 0.0).unwrap();
        let pause = retry.delay_ms(tried, jitter).unwrap();
        prop_assert!(full <= cap);
        prop_assert!(pause <= full && pause >= full / 2);
    }
}
