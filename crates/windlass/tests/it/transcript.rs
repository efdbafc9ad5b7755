//! What commands print, kept as transcripts: `$` lines are typed, `!` lines are what went to stderr. `WINDLASS_BLESS=1`
//! writes them again.

use std::path::Path;

use super::demo::Town;
use super::{root, setting};

/// What differs from run to run, put in one form of the same length.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        match form(rest) {
            Some((length, name)) => {
                out += name;
                rest = &rest[length..];
            }
            None => {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    out
}

/// A time, an id or a fence at the beginning of a text: its length, and what stands for it.
fn form(text: &str) -> Option<(usize, &'static str)> {
    let forms: [(&str, &str); 6] = [
        ("dddd-dd-ddTdd:dd:dd.dddZ", "2026-01-01T00:00:00.000Z"),
        ("dddd-dd-ddTdd:dd:ddZ", "2026-01-01T00:00:00Z"),
        ("xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", "00000000-0000-4000-8000-000000000000"),
        ("i-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "i-00000000000000000000000000000000"),
        ("dddddddddddddddd", "1700000000000000"),
        ("127.0.0.1:ddddd", "127.0.0.1:50000"),
    ];
    let fits = |form: &str| {
        let mut letters = text.chars();
        form.chars().all(|wanted| match (wanted, letters.next()) {
            ('d', Some(c)) => c.is_ascii_digit(),
            ('x', Some(c)) => c.is_ascii_hexdigit(),
            (wanted, c) => c == Some(wanted),
        })
    };
    forms.into_iter().find(|(form, _)| fits(form)).map(|(form, name)| (form.len(), name))
}

/// Types every `$` line of a transcript, and answers what was printed.
pub(super) fn typed(town: &Town, transcript: &str) -> String {
    let lines = transcript.lines().filter_map(|line| line.strip_prefix("$ "));
    plain(&lines.map(|line| town.typed(line)).collect::<String>())
}

#[test]
fn commands_print_what_their_transcripts_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    let dir = tempfile::tempdir().unwrap();
    let mut town = Town::demo(dir.path());
    town.settled();
    // In order: what one does, the next one sees.
    for file in files {
        let kept = std::fs::read_to_string(&file).unwrap();
        let now = typed(&town, &kept);
        if setting("WINDLASS_BLESS").is_some() {
            std::fs::write(&file, &now).unwrap();
        } else {
            let name = file.strip_prefix(root()).unwrap_or(&file);
            assert!(kept == now, "{}: kept\n{kept}\n\nnow\n{now}", name.display());
        }
    }
}
