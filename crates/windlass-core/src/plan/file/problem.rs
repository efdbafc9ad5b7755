//! What is wrong with a plan file, for people and for programs.

use std::fmt;

use super::place::Place;

/// Problems listed one by one; the rest are counted.
pub const PROBLEMS_MAX: usize = 20;

/// Characters of the author's text that a message repeats, and of a pointer.
const SHOWN_CHARS_MAX: usize = 40;
const POINTER_CHARS_MAX: usize = 200;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal)+) => {
        /// The kinds of problems. A code never changes its meaning.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code {$(
            $(#[$doc])*
            $name,
        )+}

        impl Code {
            /// All of them, in order.
            pub const ALL: &[Code] = &[$(Code::$name),+];

            /// The code as people quote it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Code::$name => $code,)+
                }
            }
        }
    };
}

codes! {
    /// More bytes, tasks, stages or characters than allowed.
    TooBig = "WL-1001"
    /// The text is not what its format asks for.
    Syntax = "WL-1002"
    /// Maps and lists inside each other beyond the limit.
    TooDeep = "WL-1003"
    /// One key twice in one map.
    RepeatedKey = "WL-1004"
    /// A feature of YAML that plan files do without.
    YamlFeature = "WL-1005"
    /// A number that JSON or 64 bits cannot hold.
    BadNumber = "WL-1006"
    /// A key that means nothing there.
    UnknownKey = "WL-1007"
    /// A key that must be there.
    MissingKey = "WL-1008"
    /// A text where a list is expected, and the like.
    WrongType = "WL-1009"
    /// Not an identifier.
    BadId = "WL-1010"
    /// A tenant or a stage name twice.
    RepeatedName = "WL-1011"
    /// Not one of the words allowed there.
    BadWord = "WL-1012"
    /// A number or a duration outside its bounds.
    OutOfRange = "WL-1013"
    /// Not a duration.
    BadDuration = "WL-1014"
    /// A stage without an action, with several, or with one that is not allowed there.
    BadAction = "WL-1015"
    /// Keys that exclude each other, or one without the other it needs.
    KeysDisagree = "WL-1016"
    /// Not a URL that can be called.
    BadUrl = "WL-1017"
    /// A header, variable or handler that cannot be named or set like that.
    BadName = "WL-1018"
    /// Nothing where something must be.
    Empty = "WL-1019"
    /// Not a JSON pointer.
    BadPointer = "WL-1020"
    /// A task without stages, neither its own nor the plan's.
    NoStages = "WL-1021"
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Its kind.
    pub code: Code,
    /// The value or key it is about, as a JSON pointer (RFC 6901); empty for the whole file.
    pub pointer: String,
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at line {}, column {}", self.code, self.line, self.column)?;
        if !self.pointer.is_empty() {
            write!(f, " ({})", printable(&self.pointer, POINTER_CHARS_MAX))?;
        }
        write!(f, ": {}\n  help: {}", self.message, self.help)
    }
}

/// All that is wrong with a file: at least one problem, in the order of the text, and how many more
/// there are than are listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems {
    listed: Vec<Problem>,
    more: usize,
}

impl Problems {
    pub(super) const fn none() -> Problems {
        Problems { listed: Vec::new(), more: 0 }
    }

    /// The pointer is made only for what is listed: a hostile file has many problems with long ones.
    pub(super) fn push(
        &mut self,
        code: Code,
        place: Place,
        pointer: impl FnOnce() -> String,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        if self.listed.len() == PROBLEMS_MAX {
            self.more += 1;
            return;
        }
        let Place { line, column } = place;
        let (message, help) = (message.into(), help.into());
        self.listed.push(Problem { code, pointer: pointer(), line, column, message, help });
    }

    /// The value, unless something is wrong.
    pub(super) fn or<T>(mut self, value: Option<T>) -> Result<T, Problems> {
        match value {
            Some(value) if self.listed.is_empty() => Ok(value),
            _ => {
                self.listed.sort_by_key(|problem| (problem.line, problem.column));
                Err(self)
            }
        }
    }

    /// The problems that are listed.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.listed.iter()
    }

    /// How many more there are.
    #[must_use]
    pub fn more(&self) -> usize {
        self.more
    }
}

impl<'a> IntoIterator for &'a Problems {
    type Item = &'a Problem;
    type IntoIter = std::slice::Iter<'a, Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.listed.iter().enumerate() {
            write!(f, "{}{problem}", if i == 0 { "" } else { "\n" })?;
        }
        if self.more > 0 {
            write!(f, "\nand {} more", self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// The author's text in a message: one line, not too long, in backticks.
pub(crate) fn shown(text: &str) -> String {
    if text.is_empty() {
        return "`\"\"`".to_owned();
    }
    format!("`{}`", printable(text, SHOWN_CHARS_MAX))
}

/// Without line breaks and control characters, which could forge or repaint what a terminal shows.
fn printable(text: &str, chars_max: usize) -> String {
    let mut out = String::new();
    for (i, c) in text.chars().enumerate() {
        if i == chars_max {
            out.push('…');
            break;
        }
        match c {
            '\'' | '"' | '\\' => out.push(c),
            _ => out.extend(c.escape_debug()),
        }
    }
    out
}
