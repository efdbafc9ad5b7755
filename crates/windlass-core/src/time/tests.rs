use super::*;

#[test]
fn text_and_milliseconds_agree() {
    let at = Ms::new(1_763_892_600_123);
    assert_eq!(at.to_string(), "2025-11-23T10:10:00.123Z");
    assert_eq!(Ms::parse("2025-11-23T10:10:00.123Z"), Some(at));
    assert_eq!(Ms::parse("2025-11-23T11:10:00.123+01:00"), Some(at));
    assert_eq!(Ms::parse("1763892600123"), Some(at));
    assert_eq!(Ms::parse("yesterday"), None);
    assert_eq!(Ms::parse("1969-12-31T23:59:59Z"), None);
}

#[test]
fn arithmetic_stops_at_both_ends() {
    assert_eq!(Ms::new(u64::MAX), Ms::MAX);
    assert_eq!(Ms::MAX.plus(u64::MAX), Ms::MAX);
    assert_eq!(Ms::ZERO.minus(1), Ms::ZERO);
    assert_eq!(Ms::ZERO.since(Ms::MAX), 0);
    assert_eq!(Ms::MAX.to_string(), "9999-12-30T00:00:00.000Z");
}

#[test]
fn a_time_after_9999_is_refused_when_decoded() {
    assert!(serde_json::from_str::<Ms>("253402128000000").is_ok());
    assert!(serde_json::from_str::<Ms>("253402128000001").is_err());
}

#[test]
fn durations_are_read_as_people_write_them() {
    for (text, ms) in [("30s", 30_000), ("5m", 300_000), ("1h30m", 5_400_000), ("250ms", 250), ("2d", 172_800_000)] {
        assert_eq!(duration::parse_ms(text), Some(ms), "{text}");
        assert_eq!(duration::write_ms(ms), text);
    }
    assert_eq!(duration::parse_ms(" 1d 2h 3m 4s 5ms "), Some(93_784_005));
    for text in ["", " ", "s", "1", "1 s", "1S", "-1s", "1s1s", "1s1m", "1.5s", "1µs", "18446744073709551615d"] {
        assert_eq!(duration::parse_ms(text), None, "{text}");
    }
}
