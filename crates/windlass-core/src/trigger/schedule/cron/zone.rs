//! Time zones: their names, and their time cut into spans of one offset.

use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase, TimeZoneTransition};

use super::super::BadSchedule;
use crate::plan::file::nearest::distance;
use crate::plan::file::problem::shown;

/// The rules that are built in, and no others: those of the system may differ from machine to machine.
static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// Names that are suggested for one that is not known.
const SUGGESTED: usize = 3;
/// No zone's name is longer, and comparing longer texts would cost.
const NAME_CHARS_MAX: usize = 40;
/// Before all times that we have, and far from where arithmetic ends.
const LONG_AGO: i64 = i64::MIN / 4;
/// After all of them.
const FAR_AHEAD: i64 = i64::MAX / 4;

/// A time zone by its IANA name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Zone {
    rules: TimeZone,
}

/// A stretch of time with one offset. Seconds since 1970, and seconds east of UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    /// Its first second.
    pub(super) start: i64,
    /// The first second after it.
    pub(super) end: i64,
    /// What is added to UTC.
    pub(super) offset: i64,
    /// What was added before; the same if nothing was before.
    pub(super) offset_before: i64,
}

impl Zone {
    pub(super) fn named(name: &str) -> Result<Zone, BadSchedule> {
        let rules = ZONES.get(name).ok().filter(|rules| rules.iana_name().is_some() && !rules.is_unknown());
        rules.map(|rules| Zone { rules }).ok_or_else(|| {
            let message = format!("{} is not a time zone", shown(name));
            let help = match &similar(name)[..] {
                [] => "write a name of the IANA time zone database, such as Europe/Berlin or UTC".to_owned(),
                [one] => format!("write {one} if that is meant"),
                [most @ .., last] => format!("write {} or {last} if that is meant", most.join(", ")),
            };
            BadSchedule::new("/zone", message, help)
        })
    }

    pub(super) fn name(&self) -> &str {
        // There is a name: it was looked up by one.
        self.rules.iana_name().unwrap_or("UTC")
    }

    /// The span that holds a second.
    pub(super) fn span(&self, at: i64) -> Span {
        let changes =
            |change: &TimeZoneTransition<'_>| self.offset(change.timestamp().as_second() - 1) != seconds(change);
        // "Preceding" leaves out the instant itself.
        let start = self.rules.preceding(instant(at + 1)).find(changes).map(|change| change.timestamp().as_second());
        let end = self.rules.following(instant(at)).find(changes).map(|change| change.timestamp().as_second());
        let offset = self.offset(at);
        Span {
            start: start.unwrap_or(LONG_AGO),
            end: end.unwrap_or(FAR_AHEAD),
            offset,
            offset_before: start.map_or(offset, |start| self.offset(start - 1)),
        }
    }

    fn offset(&self, at: i64) -> i64 {
        i64::from(self.rules.to_offset(instant(at)).seconds())
    }
}

fn seconds(change: &TimeZoneTransition<'_>) -> i64 {
    i64::from(change.offset().seconds())
}

fn instant(second: i64) -> Timestamp {
    // Times before 1970 and after 9999 do not come here.
    Timestamp::from_second(second).unwrap_or(Timestamp::MAX)
}

/// The names that are meant most probably, the best first: with few letters changed in the whole or in the part that
/// names the city.
fn similar(written: &str) -> Vec<String> {
    let written = plain(written);
    if written.is_empty() || written.len() > NAME_CHARS_MAX {
        return Vec::new();
    }
    let mut ranked: Vec<(usize, String)> = ZONES
        .available()
        .filter_map(|name| {
            let name = name.as_str();
            let city = name.rsplit('/').next().unwrap_or(name);
            let changes = [name, city].map(|part| distance(&written, &plain(part)));
            let least = changes[0].min(changes[1]);
            (least <= written.len().div_ceil(4)).then(|| (least, name.to_owned()))
        })
        .collect();
    ranked.sort();
    // Once there is a perfect match of a city, near ones only confuse.
    let best = ranked.first().map_or(0, |(changes, _)| *changes);
    ranked.into_iter().filter(|(changes, _)| best > 0 || *changes == 0).map(|(_, name)| name).take(SUGGESTED).collect()
}

fn plain(name: &str) -> Vec<char> {
    let letters = name.chars().filter(|c| !matches!(c, '-' | '_' | ' '));
    letters.map(|c| c.to_ascii_lowercase()).take(NAME_CHARS_MAX + 1).collect()
}
