//! JSON as RFC 8259 has it, with places. serde_json tells neither where a value stands nor that a
//! key is given twice.

use super::place::{Lines, Place, START};
use super::problem::{Code, Problems};
use super::tree::{Builder, Node, Stop, Value};

pub(super) fn read(text: &str, problems: &mut Problems) -> Option<Node> {
    let mut reader = Reader { text, at: 0, lines: Lines::new(text), builder: Builder::new(problems) };
    reader.document().ok()?;
    reader.builder.finish()
}

struct Reader<'t, 'p> {
    text: &'t str,
    /// The byte that comes next.
    at: usize,
    lines: Lines<'t>,
    builder: Builder<'p>,
}

impl<'t> Reader<'t, '_> {
    fn document(&mut self) -> Result<(), Stop> {
        if self.peek().is_none() {
            // As in the other formats: nothing to read is not the same as something unreadable.
            self.builder.value(Value::Null, START);
            return Ok(());
        }
        self.value()?;
        if self.peek().is_none() {
            return Ok(());
        }
        Err(self.expected("the end of the file", "remove what follows the plan"))
    }

    /// The builder bounds the depth, and so this recursion.
    fn value(&mut self) -> Result<(), Stop> {
        let start = self.peek();
        let place = self.place();
        match start {
            Some(b'{') => self.map(place),
            Some(b'[') => self.list(place),
            Some(b'"') => {
                let text = self.string()?;
                self.builder.value(Value::Text(text), place);
                Ok(())
            }
            Some(b'-' | b'0'..=b'9') => self.number(place),
            _ => self.word(place),
        }
    }

    fn map(&mut self, place: Place) -> Result<(), Stop> {
        self.builder.open_map(place)?;
        self.at += 1;
        if self.peek() == Some(b'}') {
            self.at += 1;
            self.builder.close();
            return Ok(());
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.expected("a key in double quotes", "put the key in double quotes"));
            }
            let place = self.place();
            let key = self.string()?;
            self.builder.key(key, place);
            if self.peek() != Some(b':') {
                return Err(self.expected("`:` after the key", "put a colon between the key and its value"));
            }
            self.at += 1;
            self.value()?;
            if self.ends(b'}', "`,` or `}`")? {
                return Ok(());
            }
        }
    }

    fn list(&mut self, place: Place) -> Result<(), Stop> {
        self.builder.open_list(place)?;
        self.at += 1;
        if self.peek() == Some(b']') {
            self.at += 1;
            self.builder.close();
            return Ok(());
        }
        loop {
            self.value()?;
            if self.ends(b']', "`,` or `]`")? {
                return Ok(());
            }
        }
    }

    /// After a value: whether the map or list ends here, or goes on after a comma.
    fn ends(&mut self, end: u8, wanted: &str) -> Result<bool, Stop> {
        match self.peek() {
            Some(b',') => {
                let comma = self.at;
                self.at += 1;
                if self.peek() == Some(end) {
                    let help = "remove the comma after the last value";
                    return Err(self.syntax(comma, "a comma with nothing after it", help));
                }
                Ok(false)
            }
            Some(byte) if byte == end => {
                self.at += 1;
                self.builder.close();
                Ok(true)
            }
            _ => Err(self.expected(wanted, "put a comma between two values, or close what was opened")),
        }
    }

    fn word(&mut self, place: Place) -> Result<(), Stop> {
        for (word, value) in [("null", Value::Null), ("true", Value::Bool(true)), ("false", Value::Bool(false))] {
            if self.rest().starts_with(word) {
                self.at += word.len();
                self.builder.value(value, place);
                return Ok(());
            }
        }
        Err(self.expected("a value", "write a text in double quotes, a number, true, false, null, [ or {"))
    }

    fn number(&mut self, place: Place) -> Result<(), Stop> {
        let start = self.at;
        self.at += usize::from(self.byte() == Some(b'-'));
        let first = self.byte();
        let digits = self.digits()?;
        if first == Some(b'0') && digits > 1 {
            return Err(self.syntax(start, "a number with a leading zero", "remove the zero, or put it in quotes"));
        }
        let mut whole = true;
        if self.byte() == Some(b'.') {
            self.at += 1;
            self.digits()?;
            whole = false;
        }
        if matches!(self.byte(), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.byte(), Some(b'-' | b'+')));
            self.digits()?;
            whole = false;
        }
        let text = &self.text[start..self.at];
        if whole {
            self.builder.whole(text, text, 10, place)
        } else {
            self.builder.fraction(text, place)
        }
        Ok(())
    }

    /// Passes over at least one digit; how many.
    fn digits(&mut self) -> Result<usize, Stop> {
        let count = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        if count == 0 {
            return Err(self.expected("a digit", "write numbers like 1, -1, 1.5 or 1e3"));
        }
        self.at += count;
        Ok(count)
    }

    fn string(&mut self) -> Result<String, Stop> {
        let start = self.at;
        self.at += 1;
        let mut out = String::new();
        loop {
            let plain = self.rest().bytes().take_while(|byte| !matches!(byte, b'"' | b'\\' | 0..=0x1f)).count();
            out.push_str(&self.text[self.at..self.at + plain]);
            self.at += plain;
            match self.byte() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => out.push(self.escape()?),
                Some(b'\n' | b'\r') | None => {
                    let help = "close the quote on the same line; a line break inside a text is written \\n";
                    return Err(self.syntax(start, "a text without its closing quote", help));
                }
                Some(_) => {
                    let help = "write it as an escape, for example \\t or \\u0007";
                    return Err(self.syntax(self.at, "a control character inside a text", help));
                }
            }
        }
    }

    fn escape(&mut self) -> Result<char, Stop> {
        let start = self.at;
        self.at += 1;
        let plain = match self.byte() {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(start),
            _ => {
                let help = "write a backslash as \\\\; escapes are \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX";
                return Err(self.syntax(start, "an escape that JSON does not have", help));
            }
        };
        self.at += 1;
        Ok(plain)
    }

    /// Characters beyond U+FFFF are written as two escapes, a high and a low surrogate.
    fn unicode(&mut self, start: usize) -> Result<char, Stop> {
        self.at += 1;
        let mut code = self.hex();
        if let Some(high @ 0xd800..=0xdbff) = code {
            code = None;
            if self.rest().starts_with("\\u") {
                self.at += 2;
                let low = self.hex().filter(|low| (0xdc00..=0xdfff).contains(low));
                code = low.map(|low| 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00));
            }
        }
        match code.and_then(char::from_u32) {
            Some(c) => Ok(c),
            None => {
                let help = "write \\u and four hexadecimal digits, two such escapes for characters beyond \\uFFFF";
                Err(self.syntax(start, "an escape that is no Unicode character", help))
            }
        }
    }

    fn hex(&mut self) -> Option<u32> {
        let digits = self.rest().get(..4)?;
        // Parsing alone would take a sign, too.
        let code = u32::from_str_radix(digits, 16).ok().filter(|_| digits.bytes().all(|b| b.is_ascii_hexdigit()))?;
        self.at += 4;
        Some(code)
    }

    /// The next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        let blank = self.rest().bytes().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
        self.at += blank;
        self.byte()
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn place(&self) -> Place {
        self.lines.place(self.at)
    }

    fn expected(&mut self, wanted: &str, help: &str) -> Stop {
        let found = match self.rest().chars().next() {
            Some(c) => format!("found {c:?}"),
            None => "the file ends".to_owned(),
        };
        let help = match self.byte() {
            None => "close every bracket, brace and quote",
            Some(b'/' | b'#') => "remove the comment: JSON has none; YAML and TOML plan files do",
            Some(b'\'') => "use double quotes",
            Some(b'}' | b']') => "check that brackets and braces match, and that no comma stands before them",
            Some(_) => help,
        };
        self.syntax(self.at, &format!("expected {wanted}, {found}"), help)
    }

    fn syntax(&mut self, at: usize, message: &str, help: &str) -> Stop {
        let place = self.lines.place(at);
        self.builder.stop(Code::Syntax, place, format!("this is not JSON: {message}"), help)
    }
}
