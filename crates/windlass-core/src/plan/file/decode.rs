//! The decoder's tools: where it stands in the tree, and how the simple kinds of values are read.
//! Every reader answers `None` after it has reported why, so that the caller goes on with the rest.

use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::id::BadId;
use crate::json::Json;
use crate::time::duration;

use super::limits::TEMPLATE_BYTES_MAX;
use super::nearest::nearest;
use super::place::Place;
use super::problem::{Code, Problems, shown};
use super::tree::{Entry, Node, Value, segment};

/// What is expected somewhere, and what to do when it is not there.
pub(super) type Wanted = (&'static str, &'static str);

const TEXT: Wanted = ("a text", "write a text");
const DURATION: Wanted = ("a duration", "write a duration such as 30s, 1h30m or 250ms");

/// A node and the way to it.
#[derive(Clone, Copy)]
pub(super) struct Spot<'a> {
    pub(super) node: &'a Node,
    step: Step<'a>,
    up: Option<&'a Spot<'a>>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Key(&'a Entry),
    Index(usize),
}

impl<'a> Spot<'a> {
    pub(super) fn root(node: &'a Node) -> Spot<'a> {
        Spot { node, step: Step::Root, up: None }
    }

    pub(super) fn under(&'a self, entry: &'a Entry) -> Spot<'a> {
        Spot { node: &entry.node, step: Step::Key(entry), up: Some(self) }
    }

    pub(super) fn at(&'a self, index: usize, node: &'a Node) -> Spot<'a> {
        Spot { node, step: Step::Index(index), up: Some(self) }
    }

    fn pointer(&self) -> String {
        let above = self.up.map(Spot::pointer).unwrap_or_default();
        match self.step {
            Step::Root => above,
            Step::Key(entry) => above + &segment(&entry.key),
            Step::Index(index) => format!("{above}/{index}"),
        }
    }

    /// Reports a problem with the value.
    pub(super) fn refuse<T>(
        &self,
        problems: &mut Problems,
        code: Code,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Option<T> {
        problems.push(code, self.node.place, || self.pointer(), message, help);
        None
    }

    /// Reports a problem with the key, or with the value where there is no key.
    pub(super) fn refuse_key<T>(
        &self,
        problems: &mut Problems,
        code: Code,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Option<T> {
        problems.push(code, self.key_place(), || self.pointer(), message, help);
        None
    }

    pub(super) fn key_place(&self) -> Place {
        match self.step {
            Step::Key(entry) => entry.place,
            Step::Root | Step::Index(_) => self.node.place,
        }
    }

    pub(super) fn wrong_type<T>(&self, problems: &mut Problems, (wanted, help): Wanted) -> Option<T> {
        // YAML reads `42` without quotes as a number where its author may have meant a text.
        let (found, unquoted) = match &self.node.value {
            Value::Bad => return None,
            Value::Null => ("nothing".to_owned(), None),
            Value::List(_) => ("a list".to_owned(), None),
            Value::Map(_) => ("a map".to_owned(), None),
            Value::Text(text) => (format!("the text {}", shown(text)), None),
            Value::Bool(value) => (format!("`{value}`"), Some(value.to_string())),
            Value::Number(value) => (format!("the number `{value}`"), Some(value.to_string())),
        };
        let help = match unquoted.filter(|_| wanted.starts_with(TEXT.0)) {
            Some(value) => format!("put it in quotes: \"{value}\""),
            None if matches!(self.node.value, Value::Null) => {
                format!("{help}; a key that is not needed may be left out")
            }
            None => help.to_owned(),
        };
        self.refuse(problems, Code::WrongType, format!("expected {wanted}, found {found}"), help)
    }
}

/// A map whose keys are known.
pub(super) struct Fields<'a> {
    spot: &'a Spot<'a>,
    entries: &'a [Entry],
    /// Known keys that unknown ones were probably meant to be: not reported as missing as well.
    meant: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    /// Reads a map and reports the keys it should not have.
    pub(super) fn of(
        spot: &'a Spot<'a>,
        known: &[&'static str],
        wanted: Wanted,
        problems: &mut Problems,
    ) -> Option<Fields<'a>> {
        let Value::Map(entries) = &spot.node.value else { return spot.wrong_type(problems, wanted) };
        let mut meant = Vec::new();
        for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            let near = nearest(&entry.key, known);
            meant.extend(near);
            let guess = near.map(|name| format!("did you mean `{name}`? ")).unwrap_or_default();
            let help = format!("{guess}known keys: {}", known.join(", "));
            let message = format!("unknown key {}", shown(&entry.key));
            spot.under(entry).refuse_key::<()>(problems, Code::UnknownKey, message, help);
        }
        Some(Fields { spot, entries, meant })
    }

    pub(super) fn get(&self, name: &str) -> Option<Spot<'a>> {
        self.entries.iter().find(|entry| entry.key == name).map(|entry| self.spot.under(entry))
    }

    /// Whether an unknown key was probably meant to be this one.
    pub(super) fn meant(&self, name: &str) -> bool {
        self.meant.contains(&name)
    }

    /// A key that must be there.
    pub(super) fn required(&self, name: &str, help: &str, problems: &mut Problems) -> Option<Spot<'a>> {
        let found = self.get(name);
        if found.is_none() && !self.meant(name) {
            self.spot.refuse::<()>(problems, Code::MissingKey, format!("the key `{name}` is missing"), help);
        }
        found
    }

    /// A key that may be left out.
    pub(super) fn or<T>(&self, name: &str, default: T, read: impl FnOnce(&Spot<'a>) -> Option<T>) -> Option<T> {
        match self.get(name) {
            Some(spot) => read(&spot),
            None => Some(default),
        }
    }
}

/// A list with 1 to `max` values.
pub(super) fn list<'a>(spot: &Spot<'a>, wanted: Wanted, max: usize, problems: &mut Problems) -> Option<&'a [Node]> {
    let Value::List(nodes) = &spot.node.value else { return spot.wrong_type(problems, wanted) };
    if nodes.is_empty() {
        return spot.refuse(problems, Code::Empty, "the list is empty", wanted.1);
    }
    if nodes.len() > max {
        let message = format!("the list has {} values; at most {max} are allowed", nodes.len());
        return spot.refuse(problems, Code::TooBig, message, "split it up, over several plans if need be");
    }
    Some(nodes)
}

/// Reads every value of a list, also after one was refused.
pub(super) fn each<'a, T>(
    spot: &Spot<'a>,
    nodes: &'a [Node],
    mut read: impl FnMut(&Spot<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    let read: Vec<Option<T>> = nodes.iter().enumerate().map(|(i, node)| read(&spot.at(i, node))).collect();
    read.into_iter().collect()
}

pub(super) fn text<'a>(spot: &Spot<'a>, problems: &mut Problems) -> Option<&'a str> {
    match &spot.node.value {
        Value::Text(text) => Some(text),
        _ => spot.wrong_type(problems, TEXT),
    }
}

/// A text that is rendered later.
pub(super) fn template(spot: &Spot<'_>, problems: &mut Problems) -> Option<String> {
    let text = text(spot, problems)?;
    if !fits(spot, text, problems) {
        return None;
    }
    Some(text.to_owned())
}

/// A template that must say something.
pub(super) fn filled_template(spot: &Spot<'_>, problems: &mut Problems) -> Option<String> {
    let text = template(spot, problems)?;
    if text.trim().is_empty() {
        return spot.refuse(problems, Code::Empty, "the text is empty", "write something here");
    }
    Some(text)
}

fn fits(spot: &Spot<'_>, text: &str, problems: &mut Problems) -> bool {
    let fits = text.len() <= TEMPLATE_BYTES_MAX;
    if !fits {
        let message = format!("the text has {} bytes; at most {TEMPLATE_BYTES_MAX} (64 KiB) are allowed", text.len());
        spot.refuse::<()>(problems, Code::TooBig, message, "shorten it, or let the stage fetch it");
    }
    fits
}

pub(super) fn id<T: FromStr<Err = BadId>>(spot: &Spot<'_>, problems: &mut Problems) -> Option<T> {
    let text = text(spot, problems)?;
    match text.parse() {
        Ok(id) => Some(id),
        Err(why) => {
            let help = "use 1 to 64 letters, digits, '_' and '-'";
            spot.refuse(problems, Code::BadId, format!("the identifier {} {why}", shown(text)), help)
        }
    }
}

/// One of a few words.
pub(super) fn word<T: Copy>(spot: &Spot<'_>, words: &[(&str, T)], problems: &mut Problems) -> Option<T> {
    let text = text(spot, problems)?;
    if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
        return Some(*value);
    }
    let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let guess = nearest(text, &known).map(|word| format!("did you mean `{word}`? ")).unwrap_or_default();
    let help = format!("{guess}allowed: {}", known.join(", "));
    spot.refuse(problems, Code::BadWord, format!("{} is not allowed here", shown(text)), help)
}

/// A whole number within bounds that fit into its type.
pub(super) fn whole<T: TryFrom<u64>>(
    spot: &Spot<'_>,
    within: RangeInclusive<u64>,
    problems: &mut Problems,
) -> Option<T> {
    let Value::Number(number) = &spot.node.value else {
        return spot.wrong_type(problems, ("a whole number", "write a whole number, without quotes"));
    };
    let inside = number.as_u64().filter(|n| within.contains(n)).and_then(|n| T::try_from(n).ok());
    if inside.is_some() {
        return inside;
    }
    let wrong = if number.is_f64() { "is not a whole number" } else { "is outside what is allowed" };
    let help = format!("write a whole number from {} to {}", within.start(), within.end());
    spot.refuse(problems, Code::OutOfRange, format!("`{number}` {wrong}"), help)
}

/// A duration within bounds, in milliseconds.
pub(super) fn duration(spot: &Spot<'_>, within: RangeInclusive<u64>, problems: &mut Problems) -> Option<u64> {
    const HELP: &str = "write whole numbers with units (d, h, m, s, ms), the larger first: 30s, 1h30m, 250ms";
    let written = match &spot.node.value {
        Value::Text(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return spot.wrong_type(problems, DURATION),
    };
    let Some(ms) = duration::parse_ms(&written) else {
        if !written.is_empty() && written.bytes().all(|byte| byte.is_ascii_digit()) {
            let message = format!("the duration {} has no unit", shown(&written));
            return spot.refuse(
                problems,
                Code::BadDuration,
                message,
                format!("write {} if seconds are meant", shown(&format!("{written}s"))),
            );
        }
        return spot.refuse(problems, Code::BadDuration, format!("{} is not a duration", shown(&written)), HELP);
    };
    if within.contains(&ms) {
        return Some(ms);
    }
    let [least, most] = [*within.start(), *within.end()].map(duration::write_ms);
    let message = format!("the duration {} is outside what is allowed", shown(&written));
    spot.refuse(problems, Code::OutOfRange, message, format!("write a duration from {least} to {most}"))
}

/// Any value, as JSON of a bounded size.
pub(super) fn json(spot: &Spot<'_>, bytes_max: usize, problems: &mut Problems) -> Option<Json> {
    // It fails only on a value that was refused, and reported, before.
    let json = Json::of(spot.node).ok()?;
    let bytes = json.as_str().len();
    if bytes > bytes_max {
        let message = format!("the value has {bytes} bytes as JSON; at most {bytes_max} are allowed");
        return spot.refuse(problems, Code::TooBig, message, "shorten it, or keep it elsewhere and refer to it");
    }
    Some(json)
}

/// Any value whose texts are templates.
pub(super) fn json_template(spot: &Spot<'_>, bytes_max: usize, problems: &mut Problems) -> Option<Json> {
    let json = json(spot, bytes_max, problems);
    let fit = texts_fit(spot, problems);
    json.filter(|_| fit)
}

fn texts_fit(spot: &Spot<'_>, problems: &mut Problems) -> bool {
    match &spot.node.value {
        Value::Text(text) => fits(spot, text, problems),
        Value::List(nodes) => {
            let misfits = nodes.iter().enumerate().filter(|(i, node)| !texts_fit(&spot.at(*i, node), problems)).count();
            misfits == 0
        }
        Value::Map(entries) => {
            let misfits = entries.iter().filter(|entry| !texts_fit(&spot.under(entry), problems)).count();
            misfits == 0
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Bad => true,
    }
}
