use super::cron::CRON_BYTES_MAX;
use super::*;

mod broken;
mod changes;
mod misfire;
mod property;

fn ms(text: &str) -> Ms {
    Ms::parse(text).unwrap()
}

fn schedule(text: &str) -> Schedule {
    Schedule::parse(text).unwrap_or_else(|bad| panic!("{text}: {bad}"))
}

fn cron(text: &str, zone: &str) -> Schedule {
    Schedule::Cron(Cron::parse(text, zone).unwrap_or_else(|bad| panic!("{text}: {bad}")))
}

/// The next occurrences, without fractions of seconds.
fn upcoming(schedule: &Schedule, after: &str, n: usize) -> Vec<String> {
    schedule.upcoming(ms(after), Ms::ZERO, n).iter().map(|at| at.to_string().replace(".000Z", "Z")).collect()
}

#[test]
fn a_schedule_is_written_as_it_is_read() {
    for (text, written) in [
        (r#"{"at":"2026-12-24T18:00:00+01:00"}"#, r#"{"at":"2026-12-24T17:00:00.000Z"}"#),
        (r#"{"after":"90s"}"#, r#"{"after":"1m30s"}"#),
        (r#"{"after":"0s"}"#, r#"{"after":"0s"}"#),
        (r#"{"every":"100ms"}"#, r#"{"every":"100ms"}"#),
        (r#"{"every":"3650d"}"#, r#"{"every":"3650d"}"#),
        (r#"{"from":"2026-01-01T06:00:00Z","every":"24h"}"#, r#"{"every":"1d","from":"2026-01-01T06:00:00.000Z"}"#),
        (r#"{"cron":"0 9 * * mon-fri"}"#, r#"{"cron":"0 9 * * mon-fri","zone":"UTC"}"#),
        (r#"{"cron":" 0 9  L * ? ","zone":"europe/berlin"}"#, r#"{"cron":"0 9 L * ?","zone":"Europe/Berlin"}"#),
    ] {
        let read = schedule(text);
        assert_eq!(serde_json::to_string(&read).unwrap(), written);
        assert_eq!(serde_json::from_str::<Schedule>(written).unwrap(), read);
    }
}

#[test]
fn a_misfire_policy_is_written_as_it_is_read() {
    for (text, written, policy) in [
        (r#""once""#, r#""once""#, Misfire::Once),
        (r#""skip""#, r#""skip""#, Misfire::Skip),
        (r#""catch_up""#, r#"{"catch_up":{"max":100}}"#, Misfire::CatchUp { max: 100 }),
        (r#"{"catch_up":{}}"#, r#"{"catch_up":{"max":100}}"#, Misfire::CatchUp { max: 100 }),
        (r#"{"catch_up":{"max":1000}}"#, r#"{"catch_up":{"max":1000}}"#, Misfire::CatchUp { max: 1_000 }),
    ] {
        assert_eq!(serde_json::from_str::<Misfire>(text).unwrap(), policy);
        assert_eq!(serde_json::to_string(&policy).unwrap(), written);
    }
    assert_eq!(Misfire::default(), Misfire::Once);
}

#[test]
fn a_single_schedule_has_one_occurrence() {
    let saved = ms("2026-06-01T12:00:00Z");
    let at = schedule(r#"{"at":"2026-06-01T11:00:00Z"}"#);
    assert_eq!(at.first(saved), Some(ms("2026-06-01T11:00:00Z")), "a time that has passed is due at once");
    assert_eq!(at.next(saved, saved), None);
    assert_eq!(at.next(ms("2026-06-01T10:59:59.999Z"), saved), at.first(saved));
    assert_eq!(at.next(ms("2026-06-01T11:00:00Z"), saved), None);
    let after = schedule(r#"{"after":"90s"}"#);
    assert_eq!(after.first(saved), Some(ms("2026-06-01T12:01:30Z")));
    assert_eq!(after.next(saved, saved), after.first(saved));
    assert_eq!(after.next(ms("2026-06-01T12:01:30Z"), saved), None);
    assert!(!at.is_recurring() && !after.is_recurring());
}

#[test]
fn an_interval_stays_on_the_grid_of_its_beginning() {
    let saved = ms("2026-06-01T12:00:00.250Z");
    let every = schedule(r#"{"every":"5m"}"#);
    assert!(every.is_recurring());
    assert_eq!(every.first(saved), Some(ms("2026-06-01T12:05:00.250Z")));
    assert_eq!(every.next(ms("2026-06-01T12:05:00.250Z"), saved), Some(ms("2026-06-01T12:10:00.250Z")));
    assert_eq!(every.next(ms("2026-06-01T13:07:33Z"), saved), Some(ms("2026-06-01T13:10:00.250Z")));
    assert_eq!(every.next(Ms::ZERO, saved), every.first(saved));
    let future = schedule(r#"{"every":"1d","from":"2026-07-01T06:00:00Z"}"#);
    assert_eq!(future.first(saved), Some(ms("2026-07-01T06:00:00Z")));
    let past = schedule(r#"{"every":"1d","from":"2020-01-01T06:00:00Z"}"#);
    assert_eq!(past.first(saved), Some(ms("2026-06-02T06:00:00Z")));
    assert_eq!(past.first(ms("2026-06-02T06:00:00Z")), Some(ms("2026-06-02T06:00:00Z")));
}

#[test]
fn time_ends_in_9999() {
    for text in [r#"{"every":"100ms"}"#, r#"{"every":"3650d"}"#, r#"{"cron":"* * * * * *"}"#] {
        assert_eq!(schedule(text).next(Ms::MAX, Ms::ZERO), None, "{text}");
    }
    assert_eq!(schedule(r#"{"cron":"0 1 * * *"}"#).next(Ms::MAX.minus(1), Ms::ZERO), None);
    assert_eq!(schedule(r#"{"cron":"0 0 * * *"}"#).next(Ms::MAX.minus(1), Ms::ZERO), Some(Ms::MAX));
    assert_eq!(schedule(r#"{"every":"3650d"}"#).next(Ms::MAX.minus(1), Ms::ZERO), None);
}

#[test]
fn a_preview_is_bounded() {
    let every = schedule(r#"{"every":"1s"}"#);
    assert_eq!(every.upcoming(Ms::ZERO, Ms::ZERO, usize::MAX).len(), UPCOMING_MAX);
    assert_eq!(every.upcoming(Ms::ZERO, Ms::ZERO, 0), []);
    assert_eq!(schedule(r#"{"at":"2026-06-01T11:00:00Z"}"#).upcoming(Ms::ZERO, Ms::ZERO, 5).len(), 1);
}

#[test]
fn the_fields_of_cron_mean_what_the_page_says() {
    let after = "2026-01-15T12:34:56Z"; // A Thursday.
    for (text, expected) in [
        ("*/20 * * * *", ["2026-01-15T12:40:00Z", "2026-01-15T13:00:00Z", "2026-01-15T13:20:00Z"]),
        ("*/30 34 12 * * *", ["2026-01-16T12:34:00Z", "2026-01-16T12:34:30Z", "2026-01-17T12:34:00Z"]),
        ("58,59 34 12 15 1 *", ["2026-01-15T12:34:58Z", "2026-01-15T12:34:59Z", "2027-01-15T12:34:58Z"]),
        ("0 9 * * MON-fri", ["2026-01-16T09:00:00Z", "2026-01-19T09:00:00Z", "2026-01-20T09:00:00Z"]),
        ("0 0 * * sat-sun", ["2026-01-17T00:00:00Z", "2026-01-18T00:00:00Z", "2026-01-24T00:00:00Z"]),
        ("0 0 * * 7", ["2026-01-18T00:00:00Z", "2026-01-25T00:00:00Z", "2026-02-01T00:00:00Z"]),
        ("0 0 * * */3", ["2026-01-17T00:00:00Z", "2026-01-18T00:00:00Z", "2026-01-21T00:00:00Z"]),
        ("5-59/25 0 1 feb,apr *", ["2026-02-01T00:05:00Z", "2026-02-01T00:30:00Z", "2026-02-01T00:55:00Z"]),
        // Both restricted: either. One open, also with a step: both.
        ("0 0 20 * tue", ["2026-01-20T00:00:00Z", "2026-01-27T00:00:00Z", "2026-02-03T00:00:00Z"]),
        ("0 0 */10 * tue", ["2026-03-31T00:00:00Z", "2026-04-21T00:00:00Z", "2026-07-21T00:00:00Z"]),
        ("0 0 20 * ?", ["2026-01-20T00:00:00Z", "2026-02-20T00:00:00Z", "2026-03-20T00:00:00Z"]),
        ("0 0 L * *", ["2026-01-31T00:00:00Z", "2026-02-28T00:00:00Z", "2026-03-31T00:00:00Z"]),
        ("0 0 LW * *", ["2026-01-30T00:00:00Z", "2026-02-27T00:00:00Z", "2026-03-31T00:00:00Z"]),
        // The 1st of February and of March 2026 are Sundays, the 1st of August is a Saturday.
        ("0 0 1W 2,8 *", ["2026-02-02T00:00:00Z", "2026-08-03T00:00:00Z", "2027-02-01T00:00:00Z"]),
        ("0 0 31W * *", ["2026-01-30T00:00:00Z", "2026-03-31T00:00:00Z", "2026-05-29T00:00:00Z"]),
        ("0 0 * * friL", ["2026-01-30T00:00:00Z", "2026-02-27T00:00:00Z", "2026-03-27T00:00:00Z"]),
        ("0 0 * * 5#2", ["2026-02-13T00:00:00Z", "2026-03-13T00:00:00Z", "2026-04-10T00:00:00Z"]),
        ("0 0 * * sun#5", ["2026-03-29T00:00:00Z", "2026-05-31T00:00:00Z", "2026-08-30T00:00:00Z"]),
        ("0 0 29 2 *", ["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z", "2036-02-29T00:00:00Z"]),
        ("@weekly", ["2026-01-18T00:00:00Z", "2026-01-25T00:00:00Z", "2026-02-01T00:00:00Z"]),
        ("@yearly", ["2027-01-01T00:00:00Z", "2028-01-01T00:00:00Z", "2029-01-01T00:00:00Z"]),
    ] {
        assert_eq!(upcoming(&cron(text, "UTC"), after, 3), expected, "{text}");
    }
}

#[test]
fn the_rarest_day_is_found_across_a_century_without_a_leap_year() {
    for (day, text) in ["sun", "mon", "tue", "wed", "thu", "fri", "sat"].iter().zip(0..) {
        for zone in ["UTC", "Africa/Casablanca"] {
            let found = upcoming(&cron(&format!("0 12 * 2 {day}#5"), zone), "2026-01-01T00:00:00Z", 8);
            assert_eq!(found.len(), 8, "{day}");
            assert!(found.iter().all(|at| at.contains("-02-29T")), "{text} {found:?}");
        }
    }
    let mondays = upcoming(&cron("0 12 * 2 mon#5", "UTC"), "2064-01-01T00:00:00Z", 4);
    assert_eq!(
        mondays,
        ["2072-02-29T12:00:00Z", "2112-02-29T12:00:00Z", "2140-02-29T12:00:00Z", "2168-02-29T12:00:00Z"]
    );
}

#[test]
fn a_fixed_time_fires_once_on_days_when_the_clock_is_changed() {
    let at = |text, after, n| upcoming(&cron(text, "Europe/Berlin"), after, n);
    // 2026-03-29: 02:00 is 03:00 at once, at 01:00Z. 2026-10-25: 03:00 is 02:00 again, at 01:00Z.
    let half_past_two = ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"];
    assert_eq!(at("30 2 * * *", "2026-03-28T00:00:00Z", 3), half_past_two);
    assert_eq!(
        at("0,30 2,3 * * *", "2026-03-29T00:00:00Z", 3),
        ["2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z", "2026-03-30T00:00:00Z"]
    );
    assert_eq!(at("30 2 * * *", "2026-10-24T12:00:00Z", 2), ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]);
    assert_eq!(
        at("0 2-3 * * *", "2026-10-24T12:00:00Z", 3),
        ["2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z", "2026-10-26T01:00:00Z"]
    );
}

#[test]
fn a_running_expression_follows_the_clock() {
    let at = |text, after, n| upcoming(&cron(text, "Europe/Berlin"), after, n);
    let spring = ["2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"];
    assert_eq!(at("*/30 * * * *", "2026-03-29T00:10:00Z", 3), spring);
    assert_eq!(at("*/30 2 * * *", "2026-03-29T00:00:00Z", 1), ["2026-03-30T00:00:00Z"]);
    let autumn = ["2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"];
    assert_eq!(at("0 * * * *", "2026-10-24T23:10:00Z", 3), autumn);
    assert_eq!(at("* 30 2 * * *", "2026-10-25T00:30:58Z", 2), ["2026-10-25T00:30:59Z", "2026-10-25T01:30:00Z"]);
}

#[test]
fn which_sort_an_expression_is_can_be_seen_from_its_text() {
    for (text, running) in [
        ("*/5 * * * *", true),
        ("0 * * * *", true),
        ("*/10 9-17 * * *", true),
        ("30 */2 * * *", true),
        ("* 30 2 * * *", true),
        ("5,*/30 2 * * *", true),
        ("30 2 * * *", false),
        ("0 9-17 * * *", false),
        ("0-59 0-23 * * *", false),
        ("0 30 2 * * *", false),
    ] {
        assert_eq!(Cron::parse(text, "UTC").unwrap().is_running(), running, "{text}");
    }
}

#[test]
fn a_day_that_a_zone_left_out_is_made_up_for() {
    // Samoa went from the 29th to the 31st of December 2011, at 10:00Z.
    let days = upcoming(&cron("0 9 * * *", "Pacific/Apia"), "2011-12-29T00:00:00Z", 4);
    assert_eq!(days, ["2011-12-29T19:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T19:00:00Z", "2011-12-31T19:00:00Z"]);
    let hours = upcoming(&cron("0 */12 * * *", "Pacific/Apia"), "2011-12-29T21:00:00Z", 3);
    assert_eq!(hours, ["2011-12-29T22:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"]);
}
