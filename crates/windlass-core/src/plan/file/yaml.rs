//! YAML, read as the core schema of YAML 1.2 has it. What makes YAML dangerous or surprising
//! (aliases that multiply, tags, merge keys, several documents, keys that are not texts) is refused.

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Tag};

use super::place::{Lines, Place, START};
use super::problem::{Code, Problems, shown};
use super::tree::{Builder, Node, Stop, Value};

pub(super) fn read(text: &str, problems: &mut Problems) -> Option<Node> {
    let mut reader = Reader { lines: Lines::new(text), builder: Builder::new(problems), documents: 0 };
    let mut parser = Parser::new_from_str(text);
    while let Some(next) = parser.next_event() {
        let step = match next {
            Ok((event, span)) => reader.event(event, span.start),
            Err(error) => Err(reader.syntax(&error)),
        };
        if let Err(Stop) = step {
            return None;
        }
    }
    let Reader { mut builder, documents, .. } = reader;
    if documents == 0 {
        builder.value(Value::Null, START);
    }
    builder.finish()
}

struct Reader<'t, 'p> {
    lines: Lines<'t>,
    builder: Builder<'p>,
    documents: usize,
}

impl Reader<'_, '_> {
    /// The parser's own lines go one beyond the end of the text, so places come from its index.
    fn place(&self, marker: &Marker) -> Place {
        self.lines.place_of_char(marker.index())
    }

    fn event(&mut self, event: Event<'_>, at: Marker) -> Result<(), Stop> {
        let at = self.place(&at);
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    let help = "keep one plan in a file: remove this `---` and what follows it";
                    return Err(self.builder.stop(Code::YamlFeature, at, "a second document begins here", help));
                }
            }
            Event::Alias(_) => self.alias(at),
            Event::Scalar(text, style, anchor, tag) => {
                self.properties(anchor, tag.as_deref(), at);
                let plain = style == ScalarStyle::Plain;
                if self.builder.wants_key() { self.key(&text, plain, at) } else { self.scalar(&text, plain, at) }
            }
            Event::SequenceStart(anchor, tag) => {
                self.not_a_key(at)?;
                self.properties(anchor, tag.as_deref(), at);
                self.builder.open_list(at)?;
            }
            Event::MappingStart(anchor, tag) => {
                self.not_a_key(at)?;
                self.properties(anchor, tag.as_deref(), at);
                self.builder.open_map(at)?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.builder.close(),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
        }
        Ok(())
    }

    fn properties(&mut self, anchor: usize, tag: Option<&Tag>, at: Place) {
        if anchor > 0 {
            let help = "remove the `&…`, and write the value out wherever it is needed";
            self.builder.refuse(Code::YamlFeature, at, "anchors are not allowed", help);
        }
        if let Some(tag) = tag {
            let name = if tag.is_yaml_core_schema() { format!("!!{}", tag.suffix) } else { tag.to_string() };
            let message = format!("the tag {} is not allowed", shown(&name));
            self.builder.refuse(
                Code::YamlFeature,
                at,
                message,
                "remove it; put the value in quotes if a text is meant",
            );
        }
    }

    fn alias(&mut self, at: Place) {
        const MESSAGE: &str = "aliases are not allowed";
        const HELP: &str = "write the value out; if a text that begins with `*` is meant, put it in quotes";
        if self.builder.wants_key() {
            self.builder.refuse_key(Code::YamlFeature, at, MESSAGE, HELP);
        } else {
            self.builder.refuse(Code::YamlFeature, at, MESSAGE, HELP);
            self.builder.value(Value::Bad, at);
        }
    }

    /// An unquoted template, `url: {{ config.url }}`, is to YAML a map whose key is a map.
    fn not_a_key(&mut self, at: Place) -> Result<(), Stop> {
        if !self.builder.wants_key() {
            return Ok(());
        }
        let help = "put a template in quotes: \"{{ config.url }}\"";
        Err(self.builder.stop(Code::YamlFeature, at, "a map or a list cannot be a key", help))
    }

    fn key(&mut self, text: &str, plain: bool, at: Place) {
        if plain && text == "<<" {
            let help = "write the keys out instead of merging them in";
            return self.builder.refuse_key(Code::YamlFeature, at, "merge keys are not allowed", help);
        }
        if !plain || matches!(resolve(text), Scalar::Text) {
            return self.builder.key(text.to_owned(), at);
        }
        let message = format!("a key must be a text, found {}", shown(text));
        self.builder.refuse_key(Code::YamlFeature, at, message, "put it in quotes");
    }

    fn scalar(&mut self, text: &str, plain: bool, at: Place) {
        match if plain { resolve(text) } else { Scalar::Text } {
            Scalar::Null => self.builder.value(Value::Null, at),
            Scalar::Bool(value) => self.builder.value(Value::Bool(value), at),
            Scalar::Whole(digits, radix) => self.builder.whole(text, digits, radix, at),
            Scalar::Fraction => self.builder.fraction(text, at),
            Scalar::Text => self.builder.value(Value::Text(text.to_owned()), at),
        }
    }

    fn syntax(&mut self, error: &ScanError) -> Stop {
        let at = self.place(error.marker());
        if error.info().contains("unknown anchor") {
            self.alias(at);
            return Stop;
        }
        let message = format!("this is not YAML: {}", error.info());
        let help = "check the indentation (spaces, no tabs), brackets and quotes here and on the line before; \
                    a text with `: `, ` #` or a special first character needs quotes";
        self.builder.stop(Code::Syntax, at, message, help)
    }
}

/// What an unquoted scalar is by the core schema.
enum Scalar<'t> {
    Null,
    Bool(bool),
    /// Digits with their sign, and the radix.
    Whole(&'t str, u32),
    Fraction,
    Text,
}

fn resolve(text: &str) -> Scalar<'_> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Scalar::Null,
        "true" | "True" | "TRUE" => return Scalar::Bool(true),
        "false" | "False" | "FALSE" => return Scalar::Bool(false),
        ".nan" | ".NaN" | ".NAN" => return Scalar::Fraction,
        _ => {}
    }
    let all = |digits: &str, radix| !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
    for (prefix, radix) in [("0o", 8), ("0x", 16)] {
        if let Some(digits) = text.strip_prefix(prefix).filter(|digits| all(digits, radix)) {
            return Scalar::Whole(digits, radix);
        }
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if all(unsigned, 10) {
        return Scalar::Whole(text, 10);
    }
    let infinite = matches!(unsigned, ".inf" | ".Inf" | ".INF");
    if infinite || is_fraction(unsigned) { Scalar::Fraction } else { Scalar::Text }
}

/// `(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_fraction(text: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, Some(exponent.strip_prefix(['-', '+']).unwrap_or(exponent))),
        None => (text, None),
    };
    if exponent.is_some_and(|exponent| exponent.is_empty() || !digits(exponent)) {
        return false;
    }
    match number.split_once('.') {
        Some((whole, part)) => digits(whole) && digits(part) && !(whole.is_empty() && part.is_empty()),
        None => !number.is_empty() && digits(number),
    }
}
