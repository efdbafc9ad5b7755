use super::*;
use proptest::prelude::*;

const ZONES: [&str; 8] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "America/Havana",
    "Antarctica/Troll",
    "Asia/Kathmandu",
];

fn item(min: u32, max: u32) -> impl Strategy<Value = String> {
    prop_oneof![
        2 => Just("*".to_owned()),
        1 => (1..=max).prop_map(|step| format!("*/{step}")),
        4 => (min..=max).prop_map(|n| n.to_string()),
        2 => (min..=max, min..=max).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
        1 => (min..=max, min..=max, 1..=3u32).prop_map(|(a, b, n)| format!("{}-{}/{n}", a.min(b), a.max(b))),
    ]
}

fn field(min: u32, max: u32) -> impl Strategy<Value = String> {
    prop::collection::vec(item(min, max), 1..3).prop_map(|items| items.join(","))
}

fn crons() -> impl Strategy<Value = Schedule> {
    let month_day = prop_oneof![6 => field(1, 31), 1 => Just("L".to_owned()), 1 => Just("LW".to_owned()), 1 => Just("1W,15W".to_owned())];
    let week_day = prop_oneof![6 => field(0, 6), 1 => Just("friL".to_owned()), 1 => Just("2#1,4#5".to_owned())];
    let second = prop_oneof![2 => Just(String::new()), 1 => field(0, 59)];
    (second, field(0, 59), field(0, 23), month_day, field(1, 12), week_day, 0..ZONES.len()).prop_filter_map(
        "fires some day",
        |(s, m, h, d, month, w, zone)| {
            Cron::parse(&format!("{s} {m} {h} {d} {month} {w}"), ZONES[zone]).ok().map(Schedule::Cron)
        },
    )
}

fn schedules() -> impl Strategy<Value = Schedule> {
    let from = prop::option::of(times());
    prop_oneof![
        1 => times().prop_map(Schedule::At),
        1 => (0..=WAIT_MS_MAX).prop_map(Schedule::After),
        3 => (prop_oneof![EVERY_MS_MIN..10_000_000, EVERY_MS_MIN..=WAIT_MS_MAX], from)
            .prop_map(|(every_ms, from)| Schedule::Every { every_ms, from }),
        6 => crons(),
    ]
}

/// From 2020 to 2040.
fn times() -> impl Strategy<Value = Ms> {
    (1_577_836_800_000u64..2_208_988_800_000).prop_map(Ms::new)
}

fn policies() -> impl Strategy<Value = Misfire> {
    prop_oneof![Just(Misfire::Once), Just(Misfire::Skip), (1..=20u32).prop_map(|max| Misfire::CatchUp { max })]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn what_is_written_is_read_again(schedule in schedules()) {
        let text = serde_json::to_string(&schedule).unwrap();
        prop_assert_eq!(serde_json::from_str::<Schedule>(&text).unwrap(), schedule);
    }

    #[test]
    fn any_text_is_taken_or_refused(text in "[ -~]{0,40}", field in "[0-9*/,#LW?-]{1,6}") {
        let _ = Schedule::parse(&text);
        let _ = Cron::parse(&text, &text);
        let _ = Cron::parse(&format!("{field} {field} {field} * {field}"), "UTC");
    }

    #[test]
    fn occurrences_come_in_order_and_none_is_between(schedule in schedules(), anchor in times(), after in times()) {
        let listed = schedule.upcoming(after, anchor, 20);
        prop_assert_eq!(listed.first().copied(), schedule.next(after, anchor));
        let mut before = after;
        for at in listed {
            prop_assert!(at > before);
            prop_assert_eq!(schedule.next(at.minus(1), anchor), Some(at));
            prop_assert_eq!(schedule.next(Ms::new(before.get().midpoint(at.get() - 1)), anchor), Some(at));
            before = at;
        }
    }

    #[test]
    fn backwards_and_counting_agree_with_forwards(schedule in schedules(), anchor in times(), after in times()) {
        let listed = schedule.upcoming(after, anchor, 20);
        for (i, at) in listed.iter().enumerate() {
            prop_assert_eq!(schedule.latest(*at, anchor), Some(*at));
            let earlier = i.checked_sub(1).map(|i| listed[i]);
            prop_assert_eq!(schedule.latest(at.minus(1), anchor).filter(|earlier| *earlier > after), earlier);
            prop_assert_eq!(schedule.count(after.plus(1), *at, anchor), i as u64);
            prop_assert_eq!(schedule.count(after.plus(1), at.plus(1), anchor), i as u64 + 1);
            prop_assert_eq!(schedule.nth_newest(i as u32 + 1, *at, anchor), Some(listed[0]));
        }
    }

    /// Fired, missed and to come are together every occurrence, each once.
    #[test]
    fn a_verdict_loses_nothing_and_makes_nothing_up(
        schedule in schedules(),
        misfire in policies(),
        saved in times(),
        due_index in 0usize..5,
        late_index in 0usize..40,
        extra_ms in 0u64..100_000,
        grace_ms in prop_oneof![Just(0u64), 0u64..100_000, 0u64..1_000_000_000],
    ) {
        let first = schedule.first(saved).unwrap();
        let all: Vec<Ms> = std::iter::once(first).chain(schedule.upcoming(first, saved, 50)).collect();
        let all = if schedule.is_recurring() { all } else { vec![first] };
        let due_at = due_index.min(all.len() - 1);
        let now = all[(due_at + late_index).min(all.len() - 1)].plus(extra_ms);
        let verdict = judge(&schedule, misfire, all[due_at], now, grace_ms, saved);

        let missed = verdict.missed.map_or(0, |missed| missed.count);
        let fired_at = due_at + missed as usize;
        if let Some(missed) = verdict.missed {
            prop_assert!(missed.count > 0 && missed.last <= now);
            prop_assert_eq!(missed.first, all[due_at]);
            if let Some(last) = all.get(fired_at - 1) { prop_assert_eq!(missed.last, *last); }
        }
        if let (Some(fire), Some(expected)) = (verdict.fire, all.get(fired_at)) {
            prop_assert_eq!(fire, *expected);
            prop_assert!(fire <= now);
        }
        let next_at = fired_at + usize::from(verdict.fire.is_some());
        if next_at < 45 {
            prop_assert_eq!(verdict.next, all.get(next_at).copied());
        }
        if verdict.fire.is_none() {
            prop_assert_eq!(misfire, Misfire::Skip);
            prop_assert!(verdict.next.is_none_or(|next| next > now));
        }
        // Nothing that is within the grace is passed over, except by a policy that fires once for all.
        if let (Misfire::Skip, Some(missed)) = (misfire, verdict.missed) {
            prop_assert!(now.since(missed.last) > grace_ms);
        }
        if let (Misfire::CatchUp { max }, Some(fire)) = (misfire, verdict.fire) {
            let behind = 1 + schedule.count(fire.plus(1), now.plus(1), saved);
            prop_assert!(behind <= u64::from(max) || now.since(all[due_at]) <= grace_ms);
        }
        if let (Misfire::CatchUp { max }, Some(_)) = (misfire, verdict.missed) {
            prop_assert_eq!(schedule.count(verdict.fire.unwrap(), now.plus(1), saved), u64::from(max));
        }
    }
}
