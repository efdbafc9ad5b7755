//! Every refusal, word for word: these are what people have when a schedule is not taken.

use super::*;

fn bad(text: &str) -> String {
    match Schedule::parse(text) {
        Ok(schedule) => panic!("{text} was taken: {schedule:?}"),
        Err(bad) => bad.to_string(),
    }
}

#[test]
fn a_schedule_that_is_none_is_refused_with_what_to_write() {
    const ONE_OF: &str = "write an object with one of the keys `at`, `after`, `every` and `cron`";
    for (text, message) in [
        ("[]", format!("a schedule is an object, not a list; {ONE_OF}")),
        ("5", format!("a schedule is an object, not a number; {ONE_OF}")),
        ("\"5m\"", format!("a schedule is an object, not a text; {ONE_OF}")),
        ("null", format!("a schedule is an object, not null; {ONE_OF}")),
        ("true", format!("a schedule is an object, not true or false; {ONE_OF}")),
        ("{}", format!("the schedule does not say when; {ONE_OF}")),
        (r#"{"zone":"UTC"}"#, format!("the schedule does not say when; {ONE_OF}")),
        (r#"{"weekly":"mon"}"#, format!("/weekly: the key `weekly` is not known; {ONE_OF}")),
        (r#"{"a/b~":1}"#, format!("/a~1b~0: the key `a/b~` is not known; {ONE_OF}")),
        (r#"{"evry":"5m"}"#, "/evry: the key `evry` is not known; write `every` if that is meant".into()),
        (r#"{"at":"x","cron":"x"}"#, "the schedule has both `at` and `cron`; make two triggers of it".into()),
        (r#"{"at":"x","from":"x"}"#, "/from: `from` means nothing beside `at`; leave it out, or write `every`".into()),
        (
            r#"{"every":"1s","zone":"UTC"}"#,
            "/zone: `zone` means nothing beside `every`; leave it out, or write `cron`".into(),
        ),
        (
            r#"{"cron":"x","from":"x"}"#,
            "/from: `from` means nothing beside `cron`; leave it out, or write `every`".into(),
        ),
    ] {
        assert_eq!(bad(text), message);
    }
    assert!(bad("{").starts_with("the schedule is not JSON: EOF while parsing"));
    assert_eq!(serde_json::from_str::<Schedule>("{}").unwrap_err().to_string(), bad("{}"));
}

#[test]
fn a_time_or_a_duration_that_is_none_is_refused_with_what_to_write() {
    const TIME: &str = "write a time with its zone such as 2026-12-24T18:00:00Z";
    const DURATION: &str = "write whole numbers with units (d, h, m, s, ms), the larger first: 30s, 1h30m, 250ms";
    for (text, message) in [
        (r#"{"at":5}"#, format!("/at: a text is expected, not a number; {TIME}, in quotes")),
        (
            r#"{"at":"1700000000000"}"#,
            format!("/at: `1700000000000` is not an RFC 3339 time from 1970 to 9999; {TIME}"),
        ),
        (
            r#"{"at":"2026-12-24T18:00:00"}"#,
            format!("/at: `2026-12-24T18:00:00` is not an RFC 3339 time from 1970 to 9999; {TIME}"),
        ),
        (r#"{"every":"1s","from":"soon"}"#, format!("/from: `soon` is not an RFC 3339 time from 1970 to 9999; {TIME}")),
        (r#"{"after":90}"#, "/after: the duration `90` has no unit; write \"90s\" if seconds are meant".into()),
        (r#"{"after":null}"#, format!("/after: a text is expected, not null; {DURATION}, in quotes")),
        (r#"{"every":"often"}"#, format!("/every: `often` is not a duration; {DURATION}")),
        (
            r#"{"every":"99ms"}"#,
            "/every: the duration `99ms` is outside what is allowed; write a duration from 100ms to 3650d".into(),
        ),
        (
            r#"{"every":"3650d1ms"}"#,
            "/every: the duration `3650d1ms` is outside what is allowed; write a duration from 100ms to 3650d".into(),
        ),
        (
            r#"{"after":"3651d"}"#,
            "/after: the duration `3651d` is outside what is allowed; write a duration from 0s to 3650d".into(),
        ),
    ] {
        assert_eq!(bad(text), message);
    }
}

#[test]
fn a_zone_that_is_none_is_refused_with_the_nearest_names() {
    let zone = |zone: &str| bad(&format!(r#"{{"cron":"0 9 * * *","zone":"{zone}"}}"#));
    const ANY: &str = "write a name of the IANA time zone database, such as Europe/Berlin or UTC";
    assert_eq!(zone("Europe/Berln"), "/zone: `Europe/Berln` is not a time zone; write Europe/Berlin if that is meant");
    assert_eq!(zone("berlin"), "/zone: `berlin` is not a time zone; write Europe/Berlin if that is meant");
    assert_eq!(zone("New York"), "/zone: `New York` is not a time zone; write America/New_York if that is meant");
    assert_eq!(
        zone("louisville"),
        "/zone: `louisville` is not a time zone; write America/Kentucky/Louisville or America/Louisville if that is meant"
    );
    for none in ["", "+02:00", "Xyzzy/Nowhere", "Etc/Unknown"] {
        assert_eq!(zone(none), format!("/zone: {} is not a time zone; {ANY}", crate::plan::file::problem::shown(none)));
    }
    assert!(zone(&"x".repeat(10_000)).ends_with(ANY));
    assert_eq!(
        bad(r#"{"cron":"0 9 * * *","zone":1}"#),
        "/zone: a text is expected, not a number; write a time zone such as Europe/Berlin, in quotes"
    );
}

#[test]
fn a_cron_expression_that_is_none_is_refused_with_what_to_write() {
    const FIELDS: &str = "write minute, hour, day-of-month, month and day-of-week, as in `0 9 * * mon-fri`; a sixth in front is the second";
    const LONGER: &str = "write a smaller step, or use the schedule `every` for longer intervals";
    let never = |text: &str| {
        format!(
            "`{text}` never fires: no month it names has such a day; change the day or the month; `L` is the last day of any month"
        )
    };
    for (text, message) in [
        ("", format!("`\"\"` has 0 fields; 5 or 6 are expected; {FIELDS}")),
        ("* * * *", format!("`* * * *` has 4 fields; 5 or 6 are expected; {FIELDS}")),
        ("0 0 0 1 1 * 2026", format!("`0 0 0 1 1 * 2026` has 7 fields; 5 or 6 are expected; {FIELDS}")),
        ("@reboot", "`@reboot` is not known; write five fields, or one of @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually".into()),
        ("60 * * * *", "`60` is no minute; write a number from 0 to 59".into()),
        ("60 0 * * * *", "`60` is no second; write a number from 0 to 59".into()),
        ("0 24 * * *", "`24` is no hour; write a number from 0 to 23".into()),
        ("0 0 0 * *", "`0` is no day-of-month; write a number from 1 to 31".into()),
        ("0 0 32W * *", "`32` is no day-of-month; write a number from 1 to 31".into()),
        ("0 0 * 13 *", "`13` is no month; write a number from 1 to 12 or a name from jan to dec".into()),
        ("0 0 * * 8", "`8` is no day-of-week; write a number from 0 to 7 or a name from sun to sat".into()),
        ("0 0 * * L", "`\"\"` is no day-of-week; write a number from 0 to 7 or a name from sun to sat".into()),
        ("0 0 * * fri#6", "`fri#6` in the day-of-week field names no week of a month; write a number from 1 to 5 after `#`, as in `fri#2`".into()),
        ("0,,5 * * * *", "`\"\"` is no minute; write a number from 0 to 59".into()),
        ("+5 * * * *", "`+5` is no minute; write a number from 0 to 59".into()),
        ("? * * * *", "`?` is no minute; write a number from 0 to 59".into()),
        ("*/90 * * * *", format!("the step of `*/90` in the minute field is not from 1 to 60; {LONGER}")),
        ("*/0 * * * *", format!("the step of `*/0` in the minute field is not from 1 to 60; {LONGER}")),
        ("0 0 * * */8", format!("the step of `*/8` in the day-of-week field is not from 1 to 7; {LONGER}")),
        ("5/15 * * * *", "`5/15` in the minute field has a step but no range; write where it ends, as in `5-59/n`".into()),
        ("0 22-2 * * *", "`22-2` in the hour field ends before it begins; write two ranges, as in `22-23,0-2`".into()),
        ("0 0 30 2 *", never("0 0 30 2 *")),
        ("0 0 31W 2,4,6 ?", never("0 0 31W 2,4,6 ?")),
    ] {
        assert_eq!(bad(&serde_json::json!({ "cron": text }).to_string()), format!("/cron: {message}"));
    }
    let long = serde_json::json!({ "cron": format!("0{} * * * *", ",0".repeat(150)) }).to_string();
    let message = format!(
        "/cron: the expression has 309 bytes; at most {CRON_BYTES_MAX} are allowed; make several triggers of it"
    );
    assert_eq!(bad(&long), message);
    let number =
        "/cron: a text is expected, not a number; write a cron expression such as `0 9 * * mon-fri`, in quotes";
    assert_eq!(bad(r#"{"cron":5}"#), number);
}

#[test]
fn a_misfire_policy_that_is_none_is_refused_with_what_to_write() {
    const ONE_OF: &str = "write `once`, `skip` or `catch_up`";
    const MAX: &str = "write {\"catch_up\": {\"max\": n}} with n from 1 to 1000";
    for (text, message) in [
        ("\"twice\"", format!("`twice` is no misfire policy; {ONE_OF}")),
        ("5", format!("a misfire policy is a word, not a number; {ONE_OF}")),
        ("{}", format!("the object is no misfire policy; {ONE_OF}")),
        (r#"{"catch_up":5}"#, format!("/catch_up: the bounds are an object, not a number; {MAX}")),
        (
            r#"{"catch_up":{"maxx":5}}"#,
            "/catch_up/maxx: the key `maxx` is not known; write `max` if that is meant".into(),
        ),
        (r#"{"catch_up":{"most":5}}"#, format!("/catch_up/most: the key `most` is not known; {MAX}")),
        (r#"{"catch_up":{"max":0}}"#, format!("/catch_up/max: `0` is not allowed here; {MAX}")),
        (r#"{"catch_up":{"max":1001}}"#, format!("/catch_up/max: `1001` is not allowed here; {MAX}")),
    ] {
        assert_eq!(serde_json::from_str::<Misfire>(text).unwrap_err().to_string(), message);
    }
}
