//! Just enough of Rust's grammar to look at source without being fooled by its comments.

/// The source with every comment blanked out. Lines keep their numbers, strings keep their contents.
pub(super) fn without_comments(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment(rest)
        } else {
            let length = literal(rest, out.chars().next_back()).unwrap_or(c.len_utf8());
            out.push_str(&rest[..length]);
            rest = &rest[length..];
            continue;
        };
        out.extend(rest[..length].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        rest = &rest[length..];
    }
    out
}

/// The length of the block comment that `text` begins with; they nest.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// The length of the string or character literal that `text` begins with.
fn literal(text: &str, before: Option<char>) -> Option<usize> {
    let inside_a_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    match text.chars().next()? {
        '"' => Some(1 + until(&text[1..], '"')),
        'r' if !inside_a_word || before == Some('b') => {
            let hashes = text[1..].chars().take_while(|c| *c == '#').count();
            let body = text[1 + hashes..].strip_prefix('"')?;
            let end = format!("\"{}", "#".repeat(hashes));
            let open = 2 + hashes;
            Some(body.find(&end).map_or(text.len(), |at| open + at + end.len()))
        }
        // `'a'` and `'\n'` are characters; `'a` is a lifetime.
        '\'' => {
            let mut chars = text[1..].char_indices();
            let (_, inner) = chars.next()?;
            if inner == '\\' {
                return Some(1 + until(&text[1..], '\''));
            }
            let (at, close) = chars.next()?;
            (close == '\'').then_some(1 + at + 1)
        }
        _ => None,
    }
}

/// The length up to and with the first `end` that no backslash stands before.
fn until(text: &str, end: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == end {
            return at + c.len_utf8();
        }
    }
    text.len()
}

/// The number of the line that the byte at `at` is on.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    1 + text[..at].matches('\n').count()
}

/// From the opening bracket that `text` begins with to the closing one that ends it, without both.
pub(super) fn bracketed(text: &str) -> Option<&str> {
    let open = text.chars().next()?;
    let close = match open {
        '(' => ')',
        '[' => ']',
        '{' => '}',
        '<' => '>',
        _ => return None,
    };
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        if c == open {
            depth += 1;
        } else if c == close {
            depth -= 1;
            if depth == 0 {
                return Some(&text[1..at]);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests;
