//! The settings as the source declares them: the public fields of `Settings`, and of the structs its fields are of.

use std::collections::BTreeMap;

use crate::tidy::rust::{bracketed, line_of, without_comments};

struct Field {
    name: String,
    /// Without `Option`, `Box` and `Vec` around it.
    kind: String,
    line: usize,
    flatten: bool,
}

/// Every setting as `table.name`, with the line that declares it.
pub(super) fn settings(source: &str) -> Result<BTreeMap<String, usize>, String> {
    let structs = structs(&without_comments(source));
    if !structs.contains_key("Settings") {
        return Err("there is no `struct Settings`".to_owned());
    }
    let mut found = BTreeMap::new();
    let mut reached = vec!["Settings".to_owned()];
    let mut open = vec![("Settings".to_owned(), String::new())];
    while let Some((name, table)) = open.pop() {
        for field in structs.get(&name).into_iter().flatten() {
            if !structs.contains_key(&field.kind) {
                found.insert(format!("{table}{}", field.name), field.line);
                continue;
            }
            if table.split('.').count() > structs.len() {
                return Err(format!("`{}` holds itself", field.kind));
            }
            reached.push(field.kind.clone());
            let inner = if field.flatten { table.clone() } else { format!("{table}{}.", field.name) };
            open.push((field.kind.clone(), inner));
        }
    }
    match structs.iter().find(|(name, fields)| !fields.is_empty() && !reached.contains(name)) {
        Some((name, _)) => Err(format!("no field of `Settings` leads to `{name}`")),
        None if found.is_empty() => Err("`Settings` has no public field".to_owned()),
        None => Ok(found),
    }
}

/// Each struct with its public fields.
fn structs(code: &str) -> BTreeMap<String, Vec<Field>> {
    let mut found = BTreeMap::new();
    for (at, word) in code.match_indices("struct ") {
        if !code[..at].chars().next_back().is_none_or(char::is_whitespace) {
            continue;
        }
        let rest = &code[at + word.len()..];
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let rest = rest[name.len()..].trim_start();
        // Tuple structs and unit structs are values, not tables.
        if let Some(body) = bracketed(rest).filter(|_| rest.starts_with('{')) {
            let begin = code.len() - rest.len() + 1;
            let kebab = attributes_before(code, at).contains("rename_all = \"kebab-case\"");
            found.insert(name, fields(code, begin, body, kebab));
        }
    }
    found
}

/// The attributes that stand right before the item whose keyword is at `at`.
fn attributes_before(code: &str, at: usize) -> &str {
    let start = code[..at].rfind(['}', ';']).map_or(0, |end| end + 1);
    &code[start..at]
}

fn fields(code: &str, begin: usize, body: &str, kebab: bool) -> Vec<Field> {
    let mut found = Vec::new();
    let mut from = 0;
    for piece in split_at_commas(body) {
        let line_at = begin + from + (piece.len() - piece.trim_start().len());
        from += piece.len() + 1;
        let (attributes, declaration) = past_attributes(piece.trim());
        let Some((name, kind)) = public(declaration) else { continue };
        if attributes.contains("serde(skip)") {
            continue;
        }
        let name = match renamed(attributes) {
            Some(name) => name.to_owned(),
            None if kebab => name.replace('_', "-"),
            None => name.to_owned(),
        };
        let line = line_of(code, line_at) + attributes.matches('\n').count();
        found.push(Field { name, kind: unwrapped(kind).to_owned(), line, flatten: attributes.contains("flatten") });
    }
    found
}

/// The pieces between commas that are in no bracket.
fn split_at_commas(body: &str) -> Vec<&str> {
    let (mut pieces, mut depth, mut start, mut quoted) = (Vec::new(), 0_i32, 0, false);
    for (at, c) in body.char_indices() {
        match c {
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' | '>' => depth -= 1,
            ',' if depth == 0 => {
                pieces.push(&body[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    pieces.push(&body[start..]);
    pieces
}

/// The attributes of a field, with the white space after them, and its declaration.
fn past_attributes(piece: &str) -> (&str, &str) {
    let mut rest = piece;
    while let Some(inner) = rest.strip_prefix('#').and_then(bracketed) {
        rest = rest[inner.len() + 3..].trim_start();
    }
    piece.split_at(piece.len() - rest.len())
}

fn public(declaration: &str) -> Option<(&str, &str)> {
    let rest = declaration.strip_prefix("pub")?;
    let rest = bracketed(rest).map_or(rest, |scope| &rest[scope.len() + 2..]);
    let (name, kind) = rest.split_once(':')?;
    Some((name.trim().trim_start_matches("r#"), kind.trim()))
}

fn renamed(attributes: &str) -> Option<&str> {
    attributes.split("rename = \"").nth(1)?.split('"').next()
}

fn unwrapped(kind: &str) -> &str {
    let wrappers = ["Option<", "Box<", "Vec<"];
    match wrappers.iter().find_map(|wrapper| kind.strip_prefix(wrapper)?.strip_suffix('>')) {
        Some(inner) => unwrapped(inner.trim()),
        None => kind,
    }
}
