//! How answers are printed: tables for people, JSON for programs.

use std::io::IsTerminal as _;

use clap::ValueEnum;
use windlass_core::json::Json;
use windlass_core::time::Ms;

use super::{note, say};
use crate::client::{Answer, Page};

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people.
    Table,
    /// One document per line.
    Json,
}

/// Where answers are shown.
#[derive(Clone, Copy)]
pub(super) struct Screen {
    pub(super) output: Output,
    colour: bool,
}

impl Screen {
    /// Colours only for people at a terminal who did not say no to them.
    pub(super) fn new(output: Output, no_colour: bool) -> Screen {
        Screen { output, colour: !no_colour && std::io::stdout().is_terminal() }
    }

    /// A list: the documents, or a table of them.
    pub(super) fn list<T>(self, page: &Page<T>, heads: &[&str], row: impl Fn(&T) -> Vec<String>) {
        match self.output {
            Output::Json => page.items.iter().for_each(|item| say(item.json.as_str())),
            Output::Table if page.items.is_empty() => note("nothing"),
            Output::Table => self.table(heads, page.items.iter().map(|item| row(&item.view)).collect()),
        }
        if page.more {
            note("there is more; --limit shows more of it");
        }
    }

    /// One thing: the document, or what people want to know of it.
    pub(super) fn one<T>(self, answer: &Answer<T>, rows: impl FnOnce(&T) -> Vec<(&'static str, String)>) {
        match self.output {
            Output::Json => say(answer.json.as_str()),
            Output::Table => {
                let rows = rows(&answer.view);
                let wide = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
                for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
                    say(&format!("{name:wide$}  {}", self.painted(value)));
                }
            }
        }
    }

    /// A sentence about what was done, or the document.
    pub(super) fn told(self, json: &Json, sentence: &str) {
        match self.output {
            Output::Json => say(json.as_str()),
            Output::Table => say(sentence),
        }
    }

    pub(super) fn table(self, heads: &[&str], rows: Vec<Vec<String>>) {
        let mut wide: Vec<usize> = heads.iter().map(|head| head.chars().count()).collect();
        for row in &rows {
            for (column, cell) in row.iter().enumerate() {
                wide[column] = wide[column].max(cell.chars().count());
            }
        }
        let line = |cells: Vec<String>| {
            let mut text = String::new();
            for (column, cell) in cells.iter().enumerate() {
                let space = wide[column].saturating_sub(cell.chars().count());
                text += &format!("{}{:space$}  ", self.painted(cell), "");
            }
            text.trim_end().to_owned()
        };
        say(&line(heads.iter().map(|head| head.to_uppercase()).collect()));
        rows.into_iter().for_each(|row| say(&line(row)));
    }

    /// A status in its colour.
    pub(super) fn painted(self, text: &str) -> String {
        let colour = match text.split(' ').next().unwrap_or_default() {
            _ if !self.colour => None,
            "COMPLETED" => Some(32),
            "FAILED" | "ROLLBACK_FAILED" | "DEAD" => Some(31),
            "RUNNING" | "ROLLING_BACK" | "PROCESSING" => Some(36),
            "PAUSED" | "CANCELLED" | "ROLLED_BACK" => Some(33),
            _ => None,
        };
        match colour {
            Some(colour) => format!("\x1b[{colour}m{text}\x1b[0m"),
            None => text.to_owned(),
        }
    }
}

/// A time that people can read, to the second.
pub(super) fn at(ms: Ms) -> String {
    let text = ms.to_string();
    text.split('.').next().map_or_else(|| text.clone(), |seconds| format!("{seconds}Z"))
}

pub(super) fn maybe<T: ToString>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// The first line of a text, cut to what a table has room for.
pub(super) fn short(text: &str, chars: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}
