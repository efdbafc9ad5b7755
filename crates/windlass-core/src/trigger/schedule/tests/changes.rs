//! Every change of the clock in fifty zones, from 2020 to 2040, and the two days before and after it, against an
//! oracle. The oracle walks through UTC minute by minute, looks at what a clock in the zone shows, and applies the two
//! rules of the page to that as they are written. It knows neither spans nor sets of numbers, and each expression is
//! given to it as a Rust condition beside the text.

use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, civil};

use super::*;

const ZONES: [&str; 50] = [
    "Europe/Berlin",
    "Europe/London",
    "Europe/Dublin",
    "Europe/Lisbon",
    "Europe/Kyiv",
    "Europe/Chisinau",
    "Europe/Volgograd",
    "Europe/Istanbul",
    "Europe/Moscow",
    "Atlantic/Azores",
    "America/New_York",
    "America/Chicago",
    "America/Denver",
    "America/Los_Angeles",
    "America/Anchorage",
    "America/Adak",
    "America/Phoenix",
    "America/St_Johns",
    "America/Halifax",
    "America/Havana",
    "America/Mexico_City",
    "America/Chihuahua",
    "America/Ojinaga",
    "America/Santiago",
    "America/Punta_Arenas",
    "America/Asuncion",
    "America/Sao_Paulo",
    "America/Nuuk",
    "America/Scoresbysund",
    "America/Miquelon",
    "America/Whitehorse",
    "America/Port-au-Prince",
    "Pacific/Easter",
    "Pacific/Auckland",
    "Pacific/Chatham",
    "Pacific/Norfolk",
    "Pacific/Fiji",
    "Pacific/Apia",
    "Australia/Sydney",
    "Australia/Adelaide",
    "Australia/Lord_Howe",
    "Antarctica/Troll",
    "Asia/Tehran",
    "Asia/Beirut",
    "Asia/Gaza",
    "Asia/Amman",
    "Asia/Damascus",
    "Asia/Jerusalem",
    "Africa/Casablanca",
    "Africa/Cairo",
];

/// What a clock shows.
#[derive(Clone, Copy)]
struct Shown {
    month: u8,
    day: u8,
    weekday: u8,
    hour: u8,
    minute: u8,
    second: u8,
}

struct Case {
    text: &'static str,
    runs: bool,
    fires: fn(&Shown) -> bool,
}

const CASES: [Case; 15] = [
    // Fixed, in what is left out and in what comes twice, wherever that is: at 0, 1, 2 or 3 o'clock.
    Case { text: "30 2 * * *", runs: false, fires: |t| t.minute == 30 && t.hour == 2 },
    Case { text: "30 0 * * *", runs: false, fires: |t| t.minute == 30 && t.hour == 0 },
    Case { text: "15,45 0-3 * * *", runs: false, fires: |t| matches!(t.minute, 15 | 45) && t.hour <= 3 },
    Case { text: "0 1,2,3 * * *", runs: false, fires: |t| t.minute == 0 && matches!(t.hour, 1..=3) },
    Case { text: "0 0-23 * * *", runs: false, fires: |t| t.minute == 0 },
    Case { text: "59 23 * * *", runs: false, fires: |t| t.minute == 59 && t.hour == 23 },
    Case {
        text: "0 9 * * mon-fri",
        runs: false,
        fires: |t| t.minute == 0 && t.hour == 9 && matches!(t.weekday, 1..=5),
    },
    Case { text: "10 2 * * sun", runs: false, fires: |t| t.minute == 10 && t.hour == 2 && t.weekday == 0 },
    // Either of two days, at a time that may be left out.
    Case {
        text: "5 2 26-31 3,10 sun",
        runs: false,
        fires: |t| t.minute == 5 && t.hour == 2 && matches!(t.month, 3 | 10) && (t.day >= 26 || t.weekday == 0),
    },
    // The last and the second Sunday are days when clocks are changed.
    Case {
        text: "30 1-2 * * sunL,sun#2",
        runs: false,
        fires: |t| {
            let days = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][usize::from(t.month) - 1];
            t.minute == 30 && matches!(t.hour, 1 | 2) && t.weekday == 0 && (matches!(t.day, 8..=14) || t.day + 7 > days)
        },
    },
    // Running.
    Case { text: "*/15 * * * *", runs: true, fires: |t| t.minute % 15 == 0 },
    Case { text: "0 * * * *", runs: true, fires: |t| t.minute == 0 },
    Case { text: "20 */2 * * *", runs: true, fires: |t| t.minute == 20 && t.hour % 2 == 0 },
    Case { text: "*/10 1-2 * * *", runs: true, fires: |t| t.minute % 10 == 0 && matches!(t.hour, 1 | 2) },
    Case { text: "*/20 2 * * sun", runs: true, fires: |t| t.minute % 20 == 0 && t.hour == 2 && t.weekday == 0 },
];

/// In six fields, by the second.
const BY_SECOND: [Case; 4] = [
    Case { text: "30 30 0-3 * * *", runs: false, fires: |t| t.second == 30 && t.minute == 30 && t.hour <= 3 },
    Case { text: "0-59/20 15 2 * * *", runs: false, fires: |t| t.second % 20 == 0 && t.minute == 15 && t.hour == 2 },
    Case { text: "*/30 * * * * *", runs: true, fires: |t| t.second % 30 == 0 },
    Case {
        text: "*/15 30 1-2 * * *",
        runs: true,
        fires: |t| t.second % 15 == 0 && t.minute == 30 && matches!(t.hour, 1 | 2),
    },
];

/// What a clock shows at a local time, which is the seconds it has shown since 1970.
fn shown(local: i64) -> Shown {
    let date = civil::date(1970, 1, 1).checked_add(jiff::Span::new().days(local.div_euclid(86_400))).unwrap();
    let second = local.rem_euclid(86_400);
    Shown {
        month: date.month() as u8,
        day: date.day() as u8,
        weekday: date.weekday().to_sunday_zero_offset() as u8,
        hour: (second / 3_600) as u8,
        minute: (second / 60 % 60) as u8,
        second: (second % 60) as u8,
    }
}

/// What a clock shows at each step of a window, and what it left out before each.
struct Walk {
    steps: Vec<Step>,
}

struct Step {
    utc: i64,
    shown: Shown,
    left_out: Vec<Shown>,
    again: bool,
}

impl Walk {
    fn new(rules: &TimeZone, from: i64, until: i64, step: usize) -> Walk {
        let mut latest = i64::MIN;
        let mut midnight = (i64::MIN, shown(0));
        let steps = (from..until).step_by(step).map(|utc| {
            let local = utc + i64::from(rules.to_offset(Timestamp::from_second(utc).unwrap()).seconds());
            // The date is looked up once a day; the rest is what a clock does.
            if midnight.0 != local.div_euclid(86_400) {
                midnight = (local.div_euclid(86_400), shown(local.div_euclid(86_400) * 86_400));
            }
            let of_day = local.rem_euclid(86_400);
            let [hour, minute, second] = [of_day / 3_600, of_day / 60 % 60, of_day % 60].map(|n| n as u8);
            let again = local <= latest;
            let left_out = if latest == i64::MIN || again {
                latest = latest.max(local);
                Vec::new()
            } else {
                let left_out = (latest + step as i64..local).step_by(step).map(shown).collect();
                latest = local;
                left_out
            };
            Step { utc, shown: Shown { hour, minute, second, ..midnight.1 }, left_out, again }
        });
        Walk { steps: steps.collect() }
    }

    fn fired(&self, case: &Case) -> Vec<Ms> {
        let fires = |step: &&Step| {
            if case.runs {
                (case.fires)(&step.shown)
            } else {
                !step.again && ((case.fires)(&step.shown) || step.left_out.iter().any(case.fires))
            }
        };
        self.steps.iter().filter(fires).map(|step| Ms::new(step.utc as u64 * 1_000)).collect()
    }
}

/// Forwards, backwards and counted.
fn compare(case: &Case, zone: &str, walk: &Walk, from: i64, until: i64) {
    let schedule = cron(case.text, zone);
    let Schedule::Cron(parsed) = &schedule else { unreachable!() };
    assert_eq!(parsed.is_running(), case.runs, "{}", case.text);
    let [from, until] = [from, until].map(|at| Ms::new(at as u64 * 1_000));
    let expected = walk.fired(case);
    let next = |last: &Ms| schedule.next(*last, Ms::ZERO).filter(|at| *at < until);
    let found: Vec<Ms> = std::iter::successors(next(&from.minus(1)), next).collect();
    assert!(found == expected, "{} in {zone} after {from}: {}", case.text, first_difference(&found, &expected));
    let previous = |at: &Ms| schedule.latest(at.minus(1), Ms::ZERO).filter(|at| *at >= from);
    let mut back: Vec<Ms> = std::iter::successors(previous(&until), previous).collect();
    back.reverse();
    assert!(back == expected, "{} in {zone} back to {from}: {}", case.text, first_difference(&back, &expected));
    assert_eq!(schedule.count(from, until, Ms::ZERO), expected.len() as u64, "{} in {zone} from {from}", case.text);
}

fn first_difference(found: &[Ms], expected: &[Ms]) -> String {
    let only = |a: &[Ms], b: &[Ms]| a.iter().find(|at| !b.contains(at)).map(ToString::to_string);
    format!("only found: {:?}; only expected: {:?}", only(found, expected), only(expected, found))
}

fn changes(rules: &TimeZone) -> Vec<i64> {
    let (from, until): (Timestamp, Timestamp) =
        ("2020-01-03T00:00:00Z".parse().unwrap(), "2041-01-01T00:00:00Z".parse().unwrap());
    rules
        .following(from)
        .map(|change| change.timestamp())
        .take_while(|at| *at < until)
        .map(Timestamp::as_second)
        .collect()
}

#[test]
fn every_change_of_the_clock_is_as_the_rules_say() {
    let zones = TimeZoneDatabase::bundled();
    let mut total = 0;
    for zone in ZONES {
        let rules = zones.get(zone).unwrap();
        let changes = changes(&rules);
        total += changes.len();
        for change in changes {
            let (from, until) = (change - 2 * 86_400, change + 2 * 86_400);
            let walk = Walk::new(&rules, from, until, 60);
            CASES.iter().for_each(|case| compare(case, zone, &walk, from, until));
        }
    }
    assert!(total > 1_200, "{total} changes: the zones' rules are not there");
}

#[test]
fn changes_of_the_clock_are_right_to_the_second() {
    let zones = TimeZoneDatabase::bundled();
    for zone in ZONES {
        let rules = zones.get(zone).unwrap();
        for change in changes(&rules).into_iter().take(2) {
            let (from, until) = (change - 3 * 3_600, change + 3 * 3_600);
            let walk = Walk::new(&rules, from, until, 1);
            BY_SECOND.iter().for_each(|case| compare(case, zone, &walk, from, until));
        }
    }
}
