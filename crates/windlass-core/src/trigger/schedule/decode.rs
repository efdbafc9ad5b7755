//! Schedules and misfire policies as people write them. Each refusal names its place, what is wrong and what to
//! write instead.

use serde_json::{Map, Value};

use super::misfire::{CATCH_UP_DEFAULT, CATCH_UP_MAX};
use super::{BadSchedule, Cron, EVERY_MS_MIN, Misfire, Schedule, WAIT_MS_MAX};
use crate::plan::file::nearest::nearest;
use crate::plan::file::problem::shown;
use crate::time::Ms;
use crate::time::duration::{parse_ms, write_ms};

pub(super) const ONE_OF: &str = "write an object with one of the keys `at`, `after`, `every` and `cron`";
const KEYS: [&str; 6] = ["at", "after", "every", "cron", "from", "zone"];
/// The zone of a cron expression that names none.
const ZONE_DEFAULT: &str = "UTC";

type Result<T> = std::result::Result<T, BadSchedule>;

pub(super) fn schedule(value: &Value) -> Result<Schedule> {
    let Value::Object(map) = value else {
        return Err(BadSchedule::new("", format!("a schedule is an object, not {}", kind(value)), ONE_OF));
    };
    if let Some(key) = map.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(unknown(key, &KEYS, ONE_OF));
    }
    let kinds: Vec<&str> = KEYS[..4].iter().copied().filter(|key| map.contains_key(*key)).collect();
    match kinds[..] {
        ["at"] => {
            alone(map, "at", None)?;
            Ok(Schedule::At(time(map, "at")?))
        }
        ["after"] => {
            alone(map, "after", None)?;
            Ok(Schedule::After(wait(map, "after", 0)?))
        }
        ["every"] => {
            alone(map, "every", Some("from"))?;
            let from = map.get("from").map(|_| time(map, "from")).transpose()?;
            Ok(Schedule::Every { every_ms: wait(map, "every", EVERY_MS_MIN)?, from })
        }
        [] => Err(BadSchedule::new("", "the schedule does not say when", ONE_OF)),
        [_] => {
            alone(map, "cron", Some("zone"))?;
            let zone = map.get("zone").map(|_| text(map, "zone", "a time zone such as Europe/Berlin")).transpose()?;
            let expression = text(map, "cron", "a cron expression such as `0 9 * * mon-fri`")?;
            Cron::parse(expression, zone.unwrap_or(ZONE_DEFAULT)).map(Schedule::Cron)
        }
        [one, two, ..] => {
            Err(BadSchedule::new("", format!("the schedule has both `{one}` and `{two}`"), "make two triggers of it"))
        }
    }
}

pub(super) fn misfire(value: &Value) -> Result<Misfire> {
    const ONE_OF: &str = "write `once`, `skip` or `catch_up`";
    match value {
        Value::String(word) => match word.as_str() {
            "once" => Ok(Misfire::Once),
            "skip" => Ok(Misfire::Skip),
            "catch_up" => Ok(Misfire::CatchUp { max: CATCH_UP_DEFAULT }),
            _ => Err(BadSchedule::new("", format!("{} is no misfire policy", shown(word)), ONE_OF)),
        },
        Value::Object(map) if map.len() == 1 && map.contains_key("catch_up") => {
            let help = format!("write {{\"catch_up\": {{\"max\": n}}}} with n from 1 to {CATCH_UP_MAX}");
            let inner = &map["catch_up"];
            let Value::Object(bounds) = inner else {
                let message = format!("the bounds are an object, not {}", kind(inner));
                return Err(BadSchedule::new("/catch_up", message, help));
            };
            if let Some(key) = bounds.keys().find(|key| *key != "max") {
                return Err(unknown(key, &["max"], &help).within("/catch_up"));
            }
            let Some(max) = bounds.get("max") else { return Ok(Misfire::CatchUp { max: CATCH_UP_DEFAULT }) };
            let inside = max.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|n| (1..=CATCH_UP_MAX).contains(n));
            let max = inside.ok_or_else(|| {
                BadSchedule::new("/catch_up/max", format!("{} is not allowed here", shown(&max.to_string())), help)
            })?;
            Ok(Misfire::CatchUp { max })
        }
        Value::Object(_) => Err(BadSchedule::new("", "the object is no misfire policy", ONE_OF)),
        _ => Err(BadSchedule::new("", format!("a misfire policy is a word, not {}", kind(value)), ONE_OF)),
    }
}

impl BadSchedule {
    fn within(mut self, pointer: &str) -> BadSchedule {
        self.pointer.insert_str(0, pointer);
        self
    }
}

fn unknown(key: &str, known: &[&str], help: &str) -> BadSchedule {
    let help = match nearest(key, known) {
        Some(name) => format!("write `{name}` if that is meant"),
        None => help.to_owned(),
    };
    let pointer = format!("/{}", key.replace('~', "~0").replace('/', "~1"));
    BadSchedule::new(&pointer, format!("the key {} is not known", shown(key)), help)
}

/// `from` belongs to `every` and `zone` to `cron`; elsewhere they would be passed over in silence.
fn alone(map: &Map<String, Value>, key: &str, with: Option<&str>) -> Result<()> {
    for (extra, owner) in [("from", "every"), ("zone", "cron")] {
        if map.contains_key(extra) && with != Some(extra) {
            let message = format!("`{extra}` means nothing beside `{key}`");
            return Err(BadSchedule::new(&format!("/{extra}"), message, format!("leave it out, or write `{owner}`")));
        }
    }
    Ok(())
}

fn text<'v>(map: &'v Map<String, Value>, key: &str, wanted: &str) -> Result<&'v str> {
    match &map[key] {
        Value::String(text) => Ok(text),
        other => {
            let message = format!("a text is expected, not {}", kind(other));
            Err(BadSchedule::new(&format!("/{key}"), message, format!("write {wanted}, in quotes")))
        }
    }
}

fn time(map: &Map<String, Value>, key: &str) -> Result<Ms> {
    const WANTED: &str = "a time with its zone such as 2026-12-24T18:00:00Z";
    let written = text(map, key, WANTED)?;
    // Digits alone would be read as milliseconds, which nobody means who writes a text.
    let time = if written.contains('-') { Ms::parse(written) } else { None };
    time.ok_or_else(|| {
        let message = format!("{} is not an RFC 3339 time from 1970 to 9999", shown(written));
        BadSchedule::new(&format!("/{key}"), message, format!("write {WANTED}"))
    })
}

fn wait(map: &Map<String, Value>, key: &str, least: u64) -> Result<u64> {
    const WANTED: &str = "whole numbers with units (d, h, m, s, ms), the larger first: 30s, 1h30m, 250ms";
    let pointer = format!("/{key}");
    if let Value::Number(number) = &map[key] {
        let help = format!("write \"{number}s\" if seconds are meant");
        return Err(BadSchedule::new(&pointer, format!("the duration `{number}` has no unit"), help));
    }
    let written = text(map, key, WANTED)?;
    let Some(ms) = parse_ms(written) else {
        let message = format!("{} is not a duration", shown(written));
        return Err(BadSchedule::new(&pointer, message, format!("write {WANTED}")));
    };
    if !(least..=WAIT_MS_MAX).contains(&ms) {
        let message = format!("the duration {} is outside what is allowed", shown(written));
        let help = format!("write a duration from {} to {}", write_ms(least), write_ms(WAIT_MS_MAX));
        return Err(BadSchedule::new(&pointer, message, help));
    }
    Ok(ms)
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
