//! Templates: what plan files write with `{{ … }}`. A text without such marks is never parsed. Rendering is
//! strict about names, bounded in steps and in what it writes, and reads nothing but what the stage is told.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, OnceLock};

use minijinja::value::{Enumerator, Object, Value, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};
use windlass_core::failure::FailureKind;
use windlass_core::json::Json;

use super::strings::{self, Place};
use super::{Told, Trouble};

/// What one template may write, at most.
pub const RENDERED_BYTES_MAX: usize = 1024 * 1024;
/// Steps that one rendering may take: a loop over thousands of items, not one over millions.
pub const STEPS_MAX: u64 = 100_000;

/// Characters of a template that an error message quotes.
const QUOTED_CHARS: usize = 120;
const NAMES: &[&str] = &["config", "previous", "tenant", "plan", "task", "stage", "attempt", "fence", "context"];

/// The one set of filters, tests and bounds that every template is rendered with.
pub(super) struct Templates {
    environment: Environment<'static>,
}

impl Templates {
    pub(super) fn new() -> Templates {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_fuel(Some(STEPS_MAX));
        environment.set_recursion_limit(50);
        // Errors then say which expression they are about.
        environment.set_debug(true);
        environment.set_formatter(|out, _, value| match value.kind() {
            ValueKind::Undefined => Ok(()),
            ValueKind::String => out.write_str(value.as_str().unwrap_or_default()).map_err(Error::from),
            _ => out.write_str(&to_json(value)?).map_err(Error::from),
        });
        // It prints everything there is.
        environment.remove_global("debug");
        Templates { environment }
    }

    /// For the texts of one stage.
    pub(super) fn over<'a>(&'a self, told: &'a Told) -> Rendering<'a> {
        Rendering { templates: self, told, names: OnceLock::new() }
    }
}

/// Renders the texts of one stage.
pub(super) struct Rendering<'a> {
    templates: &'a Templates,
    told: &'a Told,
    names: OnceLock<Value>,
}

impl<'a> Rendering<'a> {
    /// `template` as text; `what` names it in an error.
    pub(super) fn text<'t>(&self, what: &str, template: &'t str) -> Result<Cow<'t, str>, Trouble> {
        if !is_template(template) {
            return Ok(Cow::Borrowed(template));
        }
        let environment: &Environment<'_> = &self.templates.environment;
        let mut out = Bounded(Vec::new());
        let rendered = environment
            .template_from_named_str(what, template)
            .and_then(|compiled| compiled.render_captured_to(self.names(), &mut out).map(drop));
        rendered.map_err(|error| trouble(what, template, &error))?;
        String::from_utf8(out.0)
            .map(Cow::Owned)
            .map_err(|_| Trouble::hopeless(FailureKind::Template, format!("{what} does not render to text (WL-5005)")))
    }

    /// Every string in `json` that is a template, rendered. One that is a single `{{ … }}` becomes the value itself:
    /// a number stays a number.
    pub(super) fn json(&self, what: &str, json: &Json) -> Result<Json, Trouble> {
        // Outside strings, JSON has no two of these beside each other.
        if !is_template(json.as_str()) {
            return Ok(json.clone());
        }
        let mut size = json.as_str().len();
        let rendered = strings::replace(json.as_str(), |place, raw| {
            if place == Place::Key || !is_template(raw) {
                return Ok(None);
            }
            let new = self.value(what, &strings::decoded(raw))?;
            size += new.len();
            if size > RENDERED_BYTES_MAX {
                return Err(too_big(what));
            }
            Ok(Some(new))
        })?;
        Json::parse(&rendered).map_err(|error| {
            Trouble::hopeless(FailureKind::Template, format!("{what} does not render to JSON: {error} (WL-5005)"))
        })
    }

    /// Whether `template` says something other than `false`.
    pub(super) fn truth(&self, what: &str, template: &str) -> Result<bool, Trouble> {
        if self.evaluated(template).is_some_and(|value| value.is_none()) {
            return Ok(false);
        }
        let text = self.text(what, template)?;
        let text = text.trim();
        Ok(!text.is_empty() && !text.eq_ignore_ascii_case("false"))
    }

    /// One string of a JSON, as JSON.
    fn value(&self, what: &str, template: &str) -> Result<String, Trouble> {
        if let Some(value) = self.evaluated(template) {
            return to_json(&value).map_err(|error| trouble(what, template, &error));
        }
        let text = self.text(what, template)?;
        serde_json::to_string(&text).map_err(|error| {
            Trouble::hopeless(FailureKind::Template, format!("{what} does not render to JSON: {error} (WL-5005)"))
        })
    }

    /// The value of a template that is one expression and nothing else. None if it is more than that, and if it
    /// fails or is undefined: rendering it as text then says what is wrong, and where in the template.
    fn evaluated(&self, template: &str) -> Option<Value> {
        let environment: &Environment<'_> = &self.templates.environment;
        let expression = environment.compile_expression(only_expression(template)?).ok()?;
        expression.eval(self.names()).ok().filter(|value| !value.is_undefined())
    }

    fn names(&self) -> Value {
        let names = || Value::from_object(Names { told: self.told.clone(), parsed: Default::default() });
        self.names.get_or_init(names).clone()
    }
}

/// Whether there is anything to render.
pub(super) fn is_template(text: &str) -> bool {
    text.as_bytes().windows(2).any(|two| matches!(two, b"{{" | b"{%" | b"{#"))
}

/// What stands between `{{` and `}}` if they are the ends of the text. It may still be two expressions and text
/// between them; then it is no expression, and does not compile as one.
fn only_expression(template: &str) -> Option<&str> {
    let inner = template.strip_prefix("{{")?.strip_suffix("}}")?;
    // Signs right at the braces are about white space, not about the value.
    let inner = inner.strip_prefix(['-', '+']).unwrap_or(inner);
    Some(inner.strip_suffix(['-', '+']).unwrap_or(inner))
}

/// What templates can name. Settings and context are parsed when they are asked for, once.
struct Names {
    told: Told,
    parsed: [OnceLock<Option<Value>>; 3],
}

impl Names {
    fn parsed(&self, slot: usize, json: Option<&Json>) -> Option<Value> {
        // What cannot be read is not undefined: the value is an error that says so when it is used.
        let bad = |error: serde_json::Error| Value::from(Error::new(ErrorKind::CannotDeserialize, error.to_string()));
        let parse = || json.map(|json| json.to::<Value>().unwrap_or_else(bad));
        self.parsed.get(slot)?.get_or_init(parse).clone()
    }
}

impl std::fmt::Debug for Names {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("what the stage is told")
    }
}

impl Object for Names {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let told = &self.told;
        Some(match key.as_str()? {
            "config" => self.parsed(0, told.config.as_ref())?,
            "previous" => self.parsed(1, told.previous.as_ref())?,
            "context" => self.parsed(2, Some(&told.context))?,
            "tenant" => Value::from(told.tenant.as_str()),
            "plan" => Value::from(told.plan.as_str()),
            "task" => Value::from(told.task.as_str()),
            "stage" => Value::from(told.stage.as_str()),
            "attempt" => Value::from(told.attempt),
            "fence" => Value::from(told.fence.0),
            _ => return None,
        })
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Str(NAMES)
    }
}

/// The JSON of a value. Undefined parts of it are errors, as they are anywhere else.
fn to_json(value: &Value) -> Result<String, Error> {
    let mut out = String::new();
    write_json(value, &mut out)?;
    Ok(out)
}

fn write_json(value: &Value, out: &mut String) -> Result<(), Error> {
    let no_json = |what: &str| Error::new(ErrorKind::BadSerialization, format!("{what} has no JSON"));
    if out.len() > RENDERED_BYTES_MAX {
        return Err(Error::new(ErrorKind::WriteFailure, TOO_BIG));
    }
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Undefined => return Err(Error::new(ErrorKind::UndefinedError, "a part of the value is undefined")),
        ValueKind::Number if value.is_integer() => write!(out, "{value}")?,
        ValueKind::Number => {
            let number = f64::try_from(value.clone())?;
            if !number.is_finite() {
                return Err(no_json("a number that is not finite"));
            }
            encode(&number, out)?;
        }
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::String => encode(value.as_str().unwrap_or_default(), out)?,
        ValueKind::Seq | ValueKind::Iterable => {
            out.push('[');
            for (i, item) in value.try_iter()?.enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_json(&item, out)?;
            }
            out.push(']');
        }
        ValueKind::Map => {
            out.push('{');
            for (i, key) in value.try_iter()?.enumerate() {
                if i > 0 {
                    out.push(',');
                }
                encode(&key.to_string(), out)?;
                out.push(':');
                write_json(&value.get_item(&key)?, out)?;
            }
            out.push('}');
        }
        kind => return Err(no_json(&format!("{kind}"))),
    }
    Ok(())
}

fn encode<T: serde::Serialize + ?Sized>(value: &T, out: &mut String) -> Result<(), Error> {
    let text = serde_json::to_string(value);
    out.push_str(&text.map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))?);
    Ok(())
}

const TOO_BIG: &str = "more than 1 MiB";

fn too_big(what: &str) -> Trouble {
    Trouble::hopeless(FailureKind::Template, format!("{what} renders to {TOO_BIG}, which is too much (WL-5005)"))
}

/// Takes what a template writes, up to the bound.
struct Bounded(Vec<u8>);

impl io::Write for &mut Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > RENDERED_BYTES_MAX {
            return Err(io::Error::other(TOO_BIG));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Says which template, where in it, and what is wrong.
fn trouble(what: &str, template: &str, error: &Error) -> Trouble {
    let why = match error.kind() {
        ErrorKind::WriteFailure => return too_big(what),
        ErrorKind::OutOfFuel => format!("it takes more than {STEPS_MAX} steps"),
        ErrorKind::UndefinedError => "it is undefined".to_owned(),
        kind => match error.detail() {
            Some(detail) => format!("{kind}: {detail}"),
            None => kind.to_string(),
        },
    };
    let part = error.range().and_then(|range| Some((range.start, template.get(range)?)));
    let at = match part {
        Some((start, part)) if !part.is_empty() => {
            let before = &template[..start];
            let line = 1 + before.matches('\n').count();
            let column = 1 + before.rsplit('\n').next().unwrap_or_default().chars().count();
            format!(" at `{}`, line {line}, column {column}", quoted(part))
        }
        _ => error.line().map(|line| format!(", line {line}")).unwrap_or_default(),
    };
    let message = format!("{what} cannot be rendered: {why}{at}, in `{}` (WL-5005)", quoted(template));
    Trouble::hopeless(FailureKind::Template, message)
}

fn quoted(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(QUOTED_CHARS) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests;
