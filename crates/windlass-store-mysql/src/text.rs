//! Statements as text: several go to the server in one trip, which prepared ones cannot. Every value becomes a literal here and
//! nowhere else.

use std::fmt::Write as _;

use windlass_core::fence::Fence;
use windlass_core::time::Ms;

/// A value that can stand in a statement.
pub(crate) trait Literal {
    fn write(&self, out: &mut String);
}

/// Reads the same whatever `sql_mode` is: a quote is doubled, and text with a backslash or a control character, which some modes read
/// differently, goes by its bytes. So does what is not ASCII, which is what statements are sent in.
impl Literal for str {
    fn write(&self, out: &mut String) {
        let plain = |byte: u8| byte.is_ascii() && byte != b'\\' && (byte >= 0x20 || byte == b'\t' || byte == b'\n');
        if !self.bytes().all(plain) {
            out.push_str("_utf8mb4 x'");
            for byte in self.bytes() {
                let digit = |n: u8| char::from_digit(u32::from(n), 16).unwrap_or('0');
                out.push(digit(byte >> 4));
                out.push(digit(byte & 15));
            }
            out.push('\'');
            return;
        }
        out.push('\'');
        for (nth, part) in self.split('\'').enumerate() {
            if nth > 0 {
                out.push_str("''");
            }
            out.push_str(part);
        }
        out.push('\'');
    }
}

impl Literal for String {
    fn write(&self, out: &mut String) {
        self.as_str().write(out);
    }
}

impl<T: Literal + ?Sized> Literal for &T {
    fn write(&self, out: &mut String) {
        (**self).write(out);
    }
}

impl<T: Literal> Literal for Option<T> {
    fn write(&self, out: &mut String) {
        match self {
            Some(value) => value.write(out),
            None => out.push_str("NULL"),
        }
    }
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl Literal for $number {
            fn write(&self, out: &mut String) {
                // Writing to a string does not fail.
                let _fine = write!(out, "{self}");
            }
        }
    )*};
}
numbers! { i8 i16 i32 i64 u8 u16 u32 u64 usize }

impl Literal for bool {
    fn write(&self, out: &mut String) {
        out.push(if *self { '1' } else { '0' });
    }
}

impl Literal for Fence {
    fn write(&self, out: &mut String) {
        self.0.write(out);
    }
}

/// `'2026-11-15T16:05:00.123'`: RFC 3339 without its zone, which is UTC.
impl Literal for Ms {
    fn write(&self, out: &mut String) {
        let at = self.to_string();
        let _fine = write!(out, "'{}'", at.trim_end_matches('Z'));
    }
}

/// The literal of one value.
pub(crate) fn literal(value: impl Literal) -> String {
    let mut out = String::new();
    value.write(&mut out);
    out
}

/// `'a','b'`: what stands between the brackets of IN. Nothing is in NULL.
pub(crate) fn list<T: Literal>(values: impl IntoIterator<Item = T>) -> String {
    let mut out = String::new();
    for value in values {
        if !out.is_empty() {
            out.push(',');
        }
        value.write(&mut out);
    }
    if out.is_empty() { "NULL".to_owned() } else { out }
}

/// A table `k` of these ids, of which there is one at least, in their order.
pub(crate) fn keys<'i>(ids: impl IntoIterator<Item = &'i str>) -> String {
    let mut out = String::new();
    for id in ids {
        // The first says for all what kind of text they are.
        match out.is_empty() {
            true => out.push_str(&format!("(SELECT _ascii{} COLLATE ascii_bin AS id", literal(id))),
            false => {
                out.push_str(" UNION ALL SELECT ");
                id.write(&mut out);
            }
        }
    }
    out + ") k"
}

/// `row![a, b]` is `(a,b)`.
macro_rules! row {
    ($($value:expr),* $(,)?) => {{
        let mut out = String::with_capacity(256);
        let mut first = true;
        $(
            out.push(if std::mem::take(&mut first) { '(' } else { ',' });
            $crate::text::Literal::write(&$value, &mut out);
        )*
        out.push(')');
        out
    }};
}
pub(crate) use row;

/// Bytes of one statement with many rows, about, at most: far less than any server takes in one packet.
const STATEMENT_BYTES: usize = 512 * 1024;
/// Bytes that go out in one trip, about, at most.
const TRIP_BYTES: usize = 2 * 1024 * 1024;

/// Rows that one statement takes away, at most.
const REMOVED_MAX: usize = 256;

/// Statements in order, as few trips as they take. Answers are kept of those that ask.
#[derive(Default)]
pub(crate) struct Script {
    trips: Vec<Trip>,
}

#[derive(Default)]
pub(crate) struct Trip {
    pub(crate) sql: String,
    /// For each statement, whether its answer is wanted.
    pub(crate) asks: Vec<bool>,
}

impl Script {
    /// One that begins a transaction.
    pub(crate) fn begin() -> Script {
        let mut script = Script::default();
        script.say("BEGIN");
        script
    }

    pub(crate) fn say(&mut self, sql: &str) {
        self.add(sql, false);
    }

    pub(crate) fn ask(&mut self, sql: &str) {
        self.add(sql, true);
    }

    fn add(&mut self, sql: &str, asks: bool) {
        self.begun(sql.len(), asks).push_str(sql);
    }

    /// Where a statement of so many bytes at most is to be written.
    fn begun(&mut self, bytes: usize, asks: bool) -> &mut String {
        if self.trips.last().is_none_or(|trip| trip.sql.len() + bytes > TRIP_BYTES) {
            self.trips.push(Trip::default());
        }
        let last = self.trips.len() - 1;
        let trip = &mut self.trips[last];
        if !trip.asks.is_empty() {
            trip.sql.push_str(";\n");
        }
        trip.asks.push(asks);
        &mut trip.sql
    }

    /// `head row, row … tail`, in as many statements as the rows need; none without rows.
    pub(crate) fn rows(&mut self, head: &str, rows: impl IntoIterator<Item = String>, tail: &str) {
        self.rows_then(head, rows, tail, |_, _| {});
    }

    /// The same; after each statement comes what `then` says of its number of rows.
    pub(crate) fn rows_then(
        &mut self,
        head: &str,
        rows: impl IntoIterator<Item = String>,
        tail: &str,
        then: impl Fn(&mut Script, usize),
    ) {
        let mut rows = rows.into_iter().peekable();
        while let Some(first) = rows.next() {
            // How many follow is not known yet.
            let sql = self.begun((head.len() + first.len()).max(STATEMENT_BYTES), false);
            let (began, mut n) = (sql.len(), 1);
            sql.push_str(head);
            sql.push_str(&first);
            while let Some(row) = rows.next_if(|row| sql.len() - began + row.len() <= STATEMENT_BYTES) {
                sql.push(',');
                sql.push_str(&row);
                n += 1;
            }
            sql.push(' ');
            sql.push_str(tail);
            then(self, n);
        }
    }

    /// Takes away the rows with these ids. Each is looked up: where IN names many, the server reads a small table whole instead,
    /// and waits for rows that others have locked.
    pub(crate) fn remove<'i>(&mut self, table: &str, key: &str, ids: impl IntoIterator<Item = &'i str>) {
        for some in ids.into_iter().collect::<Vec<_>>().chunks(REMOVED_MAX) {
            let keys = keys(some.iter().copied());
            self.say(&format!("DELETE t FROM {keys} STRAIGHT_JOIN {table} t FORCE INDEX (PRIMARY) ON t.{key} = k.id"));
        }
    }

    pub(crate) fn trips(&self) -> &[Trip] {
        &self.trips
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_reads_the_same_in_every_mode() {
        assert_eq!(literal("it's"), "'it''s'");
        assert_eq!(literal("'"), "''''");
        assert_eq!(literal("a\\' OR 1"), "_utf8mb4 x'615c27204f522031'");
        assert_eq!(literal("\0"), "_utf8mb4 x'00'");
        assert_eq!(literal("é\n"), "_utf8mb4 x'c3a90a'");
        assert_eq!(literal(None::<u64>), "NULL");
        assert_eq!(literal(Ms::new(1)), "'1970-01-01T00:00:00.001'");
        assert_eq!(literal(Ms::MAX), "'9999-12-30T00:00:00.000'");
        assert_eq!(row![1_u64, "a", true, -3_i8], "(1,'a',1,-3)");
        assert_eq!((list(["a", "b"]), list(Vec::<u64>::new())), ("'a','b'".to_owned(), "NULL".to_owned()));
    }

    #[test]
    fn many_rows_are_several_statements_and_trips() {
        let mut script = Script::default();
        script.rows("INSERT INTO t VALUES ", (0..5_000).map(|_| "x".repeat(1_000)), "");
        assert!(script.trips().len() >= 3 && script.trips().iter().all(|trip| trip.sql.len() <= TRIP_BYTES));
        assert!(script.trips().iter().all(|trip| trip.asks.len() >= 2));
        let mut none = Script::default();
        none.rows("INSERT INTO t VALUES ", Vec::new(), "");
        assert!(none.trips().is_empty());
    }
}
