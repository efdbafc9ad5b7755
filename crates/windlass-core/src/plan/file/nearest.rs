//! The name somebody probably meant.

/// Longer texts are no typing errors of ours, and comparing them would cost.
const CHARS_MAX: usize = 64;

/// The known name with the fewest letters changed, if about a third of it at most. Capitals, `-` and
/// `_` make no difference.
#[must_use]
pub fn nearest<'k>(written: &str, known: &[&'k str]) -> Option<&'k str> {
    let written = plain(written);
    if written.len() > CHARS_MAX {
        return None;
    }
    let distances = known.iter().map(|name| (distance(&written, &plain(name)), *name));
    let (changes, name) = distances.min_by_key(|(changes, _)| *changes)?;
    (changes <= name.len().div_ceil(3)).then_some(name)
}

fn plain(name: &str) -> Vec<char> {
    name.chars().take(CHARS_MAX + 1).filter(|c| !matches!(c, '-' | '_')).map(|c| c.to_ascii_lowercase()).collect()
}

/// How many letters must be added, removed or replaced.
pub(crate) fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
