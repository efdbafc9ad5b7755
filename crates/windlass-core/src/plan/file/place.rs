//! Where something stands in a text.

/// A line and a column, both from 1; columns count characters, not bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) line: u32,
    pub(super) column: u32,
}

/// The first character.
pub(super) const START: Place = Place { line: 1, column: 1 };

/// Bytes between two stops of the index below.
const STRIDE: usize = 64;

/// Turns byte offsets into places, in about constant time wherever they are: a file may be one line
/// of 16 MiB, and counting from its start for every node would never end.
pub(super) struct Lines<'t> {
    text: &'t str,
    /// Where each line begins.
    starts: Vec<usize>,
    /// Characters before each multiple of [`STRIDE`].
    chars: Vec<usize>,
}

impl<'t> Lines<'t> {
    pub(super) fn new(text: &'t str) -> Lines<'t> {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect();
        let mut before = 0;
        let mut chars = vec![0];
        for block in text.as_bytes().chunks(STRIDE) {
            before += count(block);
            chars.push(before);
        }
        Lines { text, starts, chars }
    }

    /// The place of the character at a byte offset.
    pub(super) fn place(&self, at: usize) -> Place {
        let at = at.min(self.text.len());
        let line = self.starts.partition_point(|start| *start <= at);
        let start = self.starts[line - 1];
        let column = self.chars_before(at) - self.chars_before(start) + 1;
        Place { line: small(line), column: small(column) }
    }

    /// The place of a character, counted from 0.
    pub(super) fn place_of_char(&self, index: usize) -> Place {
        let block = self.chars.partition_point(|before| *before <= index) - 1;
        let start = (block * STRIDE).min(self.text.len());
        let begins = |at: &usize| self.text.is_char_boundary(*at);
        let at = (start..self.text.len()).filter(begins).nth(index - self.chars[block]);
        self.place(at.unwrap_or(self.text.len()))
    }

    fn chars_before(&self, at: usize) -> usize {
        let block = at / STRIDE;
        self.chars[block] + count(&self.text.as_bytes()[block * STRIDE..at])
    }
}

/// Characters that begin in these bytes of UTF-8.
fn count(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte & 0b1100_0000 != 0b1000_0000).count()
}

/// A text has at most 16 MiB, so lines and columns always fit.
fn small(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
