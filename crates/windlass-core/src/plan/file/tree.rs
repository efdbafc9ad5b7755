//! The one tree that all formats become, and the builder that the readers of the formats feed. What
//! holds for any format is checked here: depth, repeated keys, numbers.

use std::collections::HashMap;

use serde::ser::{Error as _, Serialize, SerializeMap, Serializer};
use serde_json::Number;

use super::limits::DEPTH_MAX;
use super::place::Place;
use super::problem::{Code, Problems, shown};

/// A value and where it begins.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) place: Place,
    pub(super) value: Value,
}

/// What a value is.
#[derive(Debug)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
    /// Refused, and reported, by the reader: the decoder passes over it in silence.
    Bad,
}

/// A key, where it stands, and its value.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) place: Place,
    pub(super) node: Node,
}

/// The value as JSON, its keys in the order of the file.
impl Serialize for Node {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match &self.value {
            Value::Null => to.serialize_unit(),
            Value::Bool(value) => to.serialize_bool(*value),
            Value::Number(value) => value.serialize(to),
            Value::Text(value) => to.serialize_str(value),
            Value::List(nodes) => to.collect_seq(nodes),
            Value::Map(entries) => {
                let mut map = to.serialize_map(Some(entries.len()))?;
                for entry in entries {
                    map.serialize_entry(&entry.key, &entry.node)?;
                }
                map.end()
            }
            Value::Bad => Err(S::Error::custom("a value that was refused")),
        }
    }
}

/// The text cannot be read any further; the reason has been reported.
pub(super) struct Stop;

/// Builds the tree from what a reader meets, in order: [`open_map`](Builder::open_map), then
/// [`key`](Builder::key) before each value; [`open_list`](Builder::open_list);
/// [`close`](Builder::close). It keeps its own stack, so no file can exhaust the thread's.
pub(super) struct Builder<'p> {
    frames: Vec<Frame>,
    root: Option<Node>,
    problems: &'p mut Problems,
}

struct Frame {
    place: Place,
    within: Within,
}

enum Within {
    List(Vec<Node>),
    Map { entries: Vec<Entry>, key: Option<Key> },
}

/// A key whose value comes next; without a text it was refused, and its value goes nowhere.
struct Key {
    text: Option<String>,
    place: Place,
}

impl<'p> Builder<'p> {
    pub(super) fn new(problems: &'p mut Problems) -> Builder<'p> {
        Builder { frames: Vec::new(), root: None, problems }
    }

    /// The whole tree, once everything is closed.
    pub(super) fn finish(self) -> Option<Node> {
        self.root
    }

    pub(super) fn open_map(&mut self, place: Place) -> Result<(), Stop> {
        self.open(place, Within::Map { entries: Vec::new(), key: None })
    }

    pub(super) fn open_list(&mut self, place: Place) -> Result<(), Stop> {
        self.open(place, Within::List(Vec::new()))
    }

    fn open(&mut self, place: Place, within: Within) -> Result<(), Stop> {
        if self.frames.len() == DEPTH_MAX {
            return Err(self.too_deep(place));
        }
        self.frames.push(Frame { place, within });
        Ok(())
    }

    pub(super) fn too_deep(&mut self, place: Place) -> Stop {
        let message = format!("maps and lists are nested more than {DEPTH_MAX} deep");
        self.stop(Code::TooDeep, place, message, "flatten the value, or keep it elsewhere and refer to it")
    }

    /// Whether a key comes next.
    pub(super) fn wants_key(&self) -> bool {
        matches!(self.frames.last(), Some(Frame { within: Within::Map { key: None, .. }, .. }))
    }

    pub(super) fn key(&mut self, text: String, place: Place) {
        self.set_key(Key { text: Some(text), place });
    }

    /// Reports a key, and drops the value that follows it.
    pub(super) fn refuse_key(&mut self, code: Code, place: Place, message: impl Into<String>, help: impl Into<String>) {
        self.refuse(code, place, message, help);
        self.set_key(Key { text: None, place });
    }

    fn set_key(&mut self, new: Key) {
        if let Some(Frame { within: Within::Map { key, .. }, .. }) = self.frames.last_mut() {
            *key = Some(new);
        }
    }

    pub(super) fn value(&mut self, value: Value, place: Place) {
        let node = Node { place, value };
        match self.frames.last_mut().map(|frame| &mut frame.within) {
            None => self.root = Some(node),
            Some(Within::List(nodes)) => nodes.push(node),
            Some(Within::Map { entries, key }) => {
                if let Some(Key { text: Some(key), place }) = key.take() {
                    entries.push(Entry { key, place, node });
                }
            }
        }
    }

    pub(super) fn close(&mut self) {
        let Some(Frame { place, within }) = self.frames.pop() else { return };
        let value = match within {
            Within::List(nodes) => Value::List(nodes),
            Within::Map { entries, .. } => Value::Map(self.without_repeats(entries)),
        };
        self.value(value, place);
    }

    /// Keeps the first of each key and reports the others.
    fn without_repeats(&mut self, entries: Vec<Entry>) -> Vec<Entry> {
        let mut first: HashMap<&str, Place> = HashMap::with_capacity(entries.len());
        let mut repeats = Vec::new();
        for (i, entry) in entries.iter().enumerate() {
            let Some(before) = first.get(entry.key.as_str()) else {
                first.insert(&entry.key, entry.place);
                continue;
            };
            repeats.push(i);
            let frames = &self.frames;
            let pointer = || pointer(frames) + &segment(&entry.key);
            let message = format!("the key {} is given twice, first at line {}", shown(&entry.key), before.line);
            self.problems.push(Code::RepeatedKey, entry.place, pointer, message, "keep one of the two");
        }
        if repeats.is_empty() {
            return entries;
        }
        let mut at = 0..;
        entries.into_iter().filter(|_| at.next().is_some_and(|i| repeats.binary_search(&i).is_err())).collect()
    }

    /// Reports a problem at the value that comes next.
    pub(super) fn refuse(&mut self, code: Code, place: Place, message: impl Into<String>, help: impl Into<String>) {
        let frames = &self.frames;
        self.problems.push(code, place, || pointer(frames), message, help);
    }

    /// Reports why reading ends here.
    pub(super) fn stop(&mut self, code: Code, at: Place, message: impl Into<String>, help: impl Into<String>) -> Stop {
        self.refuse(code, at, message, help);
        Stop
    }

    /// A whole number, if 64 bits can hold it: JSON has no others that programs agree on.
    pub(super) fn whole(&mut self, written: &str, digits: &str, radix: u32, place: Place) {
        let number = i128::from_str_radix(digits, radix).ok().and_then(Number::from_i128);
        let value = number.filter(|n| n.is_i64() || n.is_u64()).map_or(Value::Bad, Value::Number);
        if matches!(value, Value::Bad) {
            let message = format!("{} does not fit into 64 bits", shown(written));
            self.refuse(
                Code::BadNumber,
                place,
                message,
                "write a smaller number, or put it in quotes if a text will do",
            );
        }
        self.value(value, place);
    }

    /// A number with a fraction or an exponent, if JSON has it.
    pub(super) fn fraction(&mut self, text: &str, place: Place) {
        let number = text.parse().ok().and_then(Number::from_f64);
        if number.is_none() {
            let message = format!("{} is not a number that JSON has", shown(text));
            self.refuse(Code::BadNumber, place, message, "write another number, or put it in quotes if a text will do");
        }
        self.value(number.map_or(Value::Bad, Value::Number), place);
    }
}

/// The JSON pointer of the value that comes next.
fn pointer(frames: &[Frame]) -> String {
    let mut pointer = String::new();
    for frame in frames {
        match &frame.within {
            Within::List(nodes) => pointer.push_str(&format!("/{}", nodes.len())),
            Within::Map { key: Some(Key { text: Some(key), .. }), .. } => pointer.push_str(&segment(key)),
            Within::Map { .. } => {}
        }
    }
    pointer
}

/// A key as a part of a JSON pointer.
pub(super) fn segment(key: &str) -> String {
    format!("/{}", key.replace('~', "~0").replace('/', "~1"))
}
