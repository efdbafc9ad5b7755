//! What went wrong with a job, as its worker tells it: class, message, code, where, and what caused it.

use serde::{Deserialize, Deserializer, Serialize};

use crate::port::Refusal;

/// Errors in a chain of causes, at most.
pub const ERROR_DEPTH_MAX: usize = 16;
/// All text of a chain, in bytes.
pub const ERROR_BYTES_MAX: usize = 64 * 1024;

/// The code of a job whose worker never answered.
pub const LOST: &str = "LOST";
/// The code of a job that ended because a person asked for it.
pub const CANCELLED: &str = "CANCELLED";
/// The code of an attempt that took longer than it may.
pub const TIMEOUT: &str = "TIMEOUT";

/// An error and its causes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JobError {
    /// What sort, as the worker's language calls it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub class: String,
    /// For people.
    pub message: String,
    /// For programs; a number is taken as text.
    #[serde(default, deserialize_with = "code", skip_serializing_if = "String::is_empty")]
    pub code: String,
    /// Where in the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// See [`JobError::file`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// How it came there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// What caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Box<JobError>>,
}

fn code<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Code {
        Text(String),
        Number(i64),
    }
    Ok(match Code::deserialize(from)? {
        Code::Text(text) => text,
        Code::Number(number) => number.to_string(),
    })
}

impl JobError {
    /// An error of Windlass itself.
    #[must_use]
    pub fn of(code: &str, message: impl Into<String>) -> JobError {
        JobError { class: "windlass".into(), message: message.into(), code: code.into(), ..JobError::default() }
    }

    /// The chain, this one first.
    fn chain(&self) -> impl Iterator<Item = &JobError> {
        std::iter::successors(Some(self), |error| error.previous.as_deref())
    }

    fn bytes(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        self.class.len() + self.message.len() + self.code.len() + text(&self.file) + text(&self.trace)
    }

    /// Whether it is within its bounds.
    pub fn check(&self) -> Result<(), Refusal> {
        let depth = self.chain().count();
        if depth > ERROR_DEPTH_MAX {
            return Err(Refusal::Invalid(format!(
                "the error is {depth} errors deep; at most {ERROR_DEPTH_MAX} are kept: leave out inner causes"
            )));
        }
        let bytes: usize = self.chain().map(JobError::bytes).sum();
        if bytes > ERROR_BYTES_MAX {
            return Err(Refusal::Invalid(format!(
                "the error has {bytes} bytes of text; at most {ERROR_BYTES_MAX} are kept: shorten its traces"
            )));
        }
        Ok(())
    }

    /// The same within its bounds: innermost causes go first, then the ends of long texts.
    #[must_use]
    pub fn cut(mut self) -> JobError {
        let mut level = &mut self;
        for _ in 1..ERROR_DEPTH_MAX {
            match level.previous {
                Some(ref mut inner) => level = inner,
                None => break,
            }
        }
        level.previous = None;
        let each = ERROR_BYTES_MAX / ERROR_DEPTH_MAX / 4;
        if self.check().is_err() {
            let mut level = Some(&mut self);
            while let Some(error) = level {
                for text in [&mut error.class, &mut error.message, &mut error.code] {
                    text.truncate(text.floor_char_boundary(each / 2));
                }
                for text in [&mut error.file, &mut error.trace].into_iter().flatten() {
                    text.truncate(text.floor_char_boundary(each));
                }
                level = error.previous.as_deref_mut();
            }
        }
        self
    }
}

impl std::fmt::Display for JobError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, error) in self.chain().enumerate() {
            let between = if i == 0 { "" } else { ": " };
            write!(f, "{between}{}", error.message)?;
        }
        Ok(())
    }
}

impl std::error::Error for JobError {}
