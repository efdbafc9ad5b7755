//! The keys of the example file, also those that are commented out because they have no default.

pub(super) struct Entry {
    /// With its table: `stores.state`.
    pub(super) name: String,
    pub(super) line: usize,
    /// A comment in words is on the line above.
    pub(super) documented: bool,
}

pub(super) fn entries(text: &str) -> Vec<Entry> {
    let mut found = Vec::new();
    let mut table = String::new();
    let mut documented = false;
    // Lines inside `[ … ]` over several lines are values.
    let mut depth = 0_usize;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        let bare = line.trim_start_matches('#').trim_start();
        if depth > 0 {
            depth = (depth + opened(bare)).saturating_sub(closed(bare));
        } else if let Some(name) = header(bare) {
            table = format!("{name}.");
            documented = false;
        } else if let Some((key, value)) = key(bare) {
            found.push(Entry { name: format!("{table}{key}"), line: number + 1, documented });
            depth = opened(value).saturating_sub(closed(value));
            documented = false;
        } else {
            documented = line.starts_with('#') && !bare.is_empty();
        }
    }
    found
}

fn header(line: &str) -> Option<&str> {
    let name = line.strip_prefix('[')?.trim_start_matches('[').split(']').next()?;
    let rest = line.rsplit(']').next()?.trim();
    (is_key(name) && (rest.is_empty() || rest.starts_with('#'))).then_some(name)
}

/// `name = value`; a sentence that happens to hold an equals sign has more than one word before it.
fn key(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=')?;
    let name = name.trim();
    (is_key(name) && !value.trim().is_empty()).then_some((name, value))
}

fn is_key(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
}

fn opened(text: &str) -> usize {
    outside_strings(text).matches('[').count()
}

fn closed(text: &str) -> usize {
    outside_strings(text).matches(']').count()
}

/// What is between two quotes is no bracket.
fn outside_strings(text: &str) -> String {
    text.split('"').step_by(2).collect()
}
