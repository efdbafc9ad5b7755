//! TOML. The parser keeps tables sorted by key; the places of the keys give the order of the file back.

use toml::Spanned;
use toml::de::{DeTable, DeValue, Error};
use toml_parser::Source;
use toml_parser::parser::{Event, EventKind, RecursionGuard, parse_document};

use super::place::{Lines, START};
use super::problem::{Code, Problems, shown};
use super::tree::{Builder, Node, Stop, Value};

pub(super) fn read(text: &str, problems: &mut Problems) -> Option<Node> {
    let lines = Lines::new(text);
    let mut builder = Builder::new(problems);
    if let Some(at) = far_too_deep(text) {
        builder.too_deep(lines.place(at));
        return None;
    }
    let table = match DeTable::parse(text) {
        Ok(table) => table,
        Err(error) => {
            syntax(&error, text, &lines, &mut builder);
            return None;
        }
    };
    walk_table(table.get_ref(), 0, &lines, &mut builder).ok()?;
    builder.finish()
}

/// Above the builder's limit and above the parser's (80), so that neither is pre-empted.
const HOPELESS: u32 = 128;

/// Dotted keys inside inline tables nest thousands deep within the parser's own limits, and its tables
/// are dropped recursively: enough to exhaust a thread's stack. So its first pass is run alone, which
/// builds nothing, to find where nesting becomes hopeless; the builder does the exact count.
fn far_too_deep(text: &str) -> Option<usize> {
    let (mut found, mut depth, mut dots, mut after_dot) = (None, 0_usize, 0_usize, false);
    let mut around = Vec::new();
    let mut watch = |event: Event| {
        match event.kind() {
            EventKind::SimpleKey if !after_dot => dots = 0,
            EventKind::KeySep => dots += 1,
            EventKind::InlineTableOpen | EventKind::ArrayOpen => {
                around.push(dots);
                depth += dots + 1;
                dots = 0;
            }
            EventKind::InlineTableClose | EventKind::ArrayClose => {
                dots = around.pop().unwrap_or_default();
                depth = depth.saturating_sub(dots + 1);
            }
            _ => {}
        }
        after_dot = event.kind() == EventKind::KeySep || (after_dot && event.kind() == EventKind::Whitespace);
        if found.is_none() && depth + dots > HOPELESS as usize {
            found = Some(event.span().start());
        }
    };
    let tokens = Source::new(text).lex().into_vec();
    parse_document(&tokens, &mut RecursionGuard::new(&mut watch, HOPELESS), &mut ());
    found
}

fn syntax(error: &Error, text: &str, lines: &Lines<'_>, builder: &mut Builder<'_>) {
    let place = error.span().map_or(START, |span| lines.place(span.start));
    let here = error.span().and_then(|span| text.get(span)).unwrap_or_default();
    match error.message() {
        "duplicate key" => {
            let message = format!("the key {} is given twice", shown(here));
            let help = "keep one of the two; a table may have one `[header]` only";
            builder.refuse(Code::RepeatedKey, place, message, help);
        }
        message if message.contains("recurs") => {
            builder.too_deep(place);
        }
        message => {
            let help = "check the line: `key = value`, texts in quotes, lists as `[1, 2]`, tables as `[name]`, \
                        lists of tables as `[[name]]`";
            builder.refuse(Code::Syntax, place, format!("this is not TOML: {message}"), help);
        }
    }
}

fn walk_table(table: &DeTable<'_>, at: usize, lines: &Lines<'_>, builder: &mut Builder<'_>) -> Result<(), Stop> {
    builder.open_map(lines.place(at))?;
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    for (key, value) in entries {
        builder.key(key.get_ref().to_string(), lines.place(key.span().start));
        walk(value, lines, builder)?;
    }
    builder.close();
    Ok(())
}

fn walk(node: &Spanned<DeValue<'_>>, lines: &Lines<'_>, builder: &mut Builder<'_>) -> Result<(), Stop> {
    let at = node.span().start;
    let place = lines.place(at);
    match node.get_ref() {
        DeValue::String(text) => builder.value(Value::Text(text.to_string()), place),
        DeValue::Integer(number) => builder.whole(&number.to_string(), number.as_str(), number.radix(), place),
        DeValue::Float(number) => builder.fraction(number.as_str(), place),
        DeValue::Boolean(value) => builder.value(Value::Bool(*value), place),
        // JSON has no times; RFC 3339 is how Windlass writes them everywhere.
        DeValue::Datetime(time) => builder.value(Value::Text(time.to_string()), place),
        DeValue::Table(table) => walk_table(table, at, lines, builder)?,
        DeValue::Array(nodes) => {
            builder.open_list(place)?;
            for node in nodes {
                walk(node, lines, builder)?;
            }
            builder.close();
        }
    }
    Ok(())
}
