//! Plan files: YAML, TOML or JSON in, a checked [`PlanFile`] or a list of problems out.
//!
//! Each format is read into one tree of nodes that know their line and column; one decoder walks
//! that tree. So a rule is written once and holds, with the same words, in all three formats. No
//! I/O: whoever calls has the text already. Templates are not rendered here, only measured.

use std::path::Path;

use crate::json::Json;
use crate::plan::spec::PlanFile;
use tree::Node;

mod action;
mod decode;
mod json;
mod limits;
pub mod nearest;
mod place;
mod plan;
pub(crate) mod problem;
mod stage;
mod toml;
mod tree;
mod yaml;

pub use limits::{DEPTH_MAX, SETTINGS_BYTES_MAX, TEMPLATE_BYTES_MAX, TEXT_BYTES_MAX};
pub use problem::{Code, PROBLEMS_MAX, Problem, Problems};

/// How a plan file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// YAML 1.2, one document, without anchors, aliases and tags.
    Yaml,
    /// TOML 1.1.
    Toml,
    /// JSON as RFC 8259 has it, without repeated keys.
    Json,
}

impl Format {
    /// The format that files with this extension (`yaml`, `yml`, `toml`, `json`) have.
    #[must_use]
    pub fn from_extension(extension: &str) -> Option<Format> {
        match extension.to_ascii_lowercase().as_str() {
            "yaml" | "yml" => Some(Format::Yaml),
            "toml" => Some(Format::Toml),
            "json" => Some(Format::Json),
            _ => None,
        }
    }

    /// The format that a file's name tells.
    #[must_use]
    pub fn from_path(path: &Path) -> Option<Format> {
        Format::from_extension(path.extension()?.to_str()?)
    }
}

/// Reads a plan file. A text that cannot be read at all has one problem; otherwise every problem is
/// reported, so that a file is repaired in one go.
pub fn parse(text: &str, format: Format) -> Result<PlanFile, Problems> {
    read(text, format).map(|(plan, _)| plan)
}

/// A plan file as JSON, whatever it is written in, if it has no problem.
pub fn to_json(text: &str, format: Format) -> Result<Json, Problems> {
    let (_, tree) = read(text, format)?;
    Json::of(&tree).map_err(|error| {
        let mut problems = Problems::none();
        problems.push(Code::Syntax, place::START, String::new, error.to_string(), "write the plan as JSON");
        problems
    })
}

fn read(text: &str, format: Format) -> Result<(PlanFile, Node), Problems> {
    let mut problems = Problems::none();
    if text.len() > TEXT_BYTES_MAX {
        let message = format!("the file has {} bytes; at most {TEXT_BYTES_MAX} (16 MiB) are read", text.len());
        problems.push(Code::TooBig, place::START, String::new, message, "split the plan into several files");
        return Err(problems);
    }
    // Some editors put a byte order mark first; it is no part of any of the formats' text.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let tree = match format {
        Format::Yaml => yaml::read(text, &mut problems),
        Format::Toml => toml::read(text, &mut problems),
        Format::Json => json::read(text, &mut problems),
    };
    let plan = tree.and_then(|tree| Some((plan::decode(&tree, &mut problems)?, tree)));
    problems.or(plan)
}

#[cfg(test)]
mod tests;
