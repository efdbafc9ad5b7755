//! One connection: what everybody asks goes out in the order in which it comes, what came together in one write, and the
//! answers come back in that order, each taken apart by whoever asked. The driver's own connection takes apart an answer
//! ten times more slowly, and of a thousand triggers there are eighteen thousand pieces.

use std::io;

use redis::{RedisError, Value};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

/// Requests that wait to be written, and as many that wait for their answers.
const WAITING: usize = 4_096;
/// So many bytes go out in one write, and the request that passes them …
const WRITE: usize = 64 * 1024;
/// … or so many requests: fewer than may wait for answers, or those of one write would wait for each other.
const TOGETHER: usize = 1_024;
/// Room for one read.
const READ: usize = 64 * 1024;
/// No text and no list is larger, whatever a server says.
const MOST: usize = 512 * 1024 * 1024;
/// Lists within lists; no answer of ours has more than six.
const DEPTH: usize = 32;

/// A connection that is there, or was. It ends with its last clone.
#[derive(Clone)]
pub(crate) struct Wire {
    requests: mpsc::Sender<Request>,
    ends: std::sync::Arc<Ends>,
}

struct Request {
    bytes: Vec<u8>,
    pending: Pending,
}

/// How many answers somebody waits for.
struct Pending {
    count: usize,
    tell: oneshot::Sender<Answers>,
}

/// What came back, whole, and not yet taken apart.
pub(crate) struct Answers {
    bytes: Vec<u8>,
    count: usize,
}

impl Answers {
    pub(crate) fn values(&self) -> Result<Vec<Value>, RedisError> {
        let mut part = self.part();
        Ok((0..self.count).map(|_| part.value()).collect::<io::Result<_>>()?)
    }

    pub(crate) fn part(&self) -> Part<'_> {
        Part { bytes: &self.bytes, at: 0 }
    }
}

struct Ends([AbortHandle; 2]);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

impl Wire {
    pub(crate) fn new<R, W>(reader: R, writer: W) -> Wire
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let (requests, next) = mpsc::channel(WAITING);
        let (sent, pending) = mpsc::channel(WAITING);
        let writes = tokio::spawn(async move { drop(write(writer, next, sent).await) });
        let reads = tokio::spawn(async move { drop(read(reader, pending).await) });
        Wire { requests, ends: std::sync::Arc::new(Ends([writes.abort_handle(), reads.abort_handle()])) }
    }

    /// Whether it is the same connection.
    pub(crate) fn is(&self, other: &Wire) -> bool {
        std::sync::Arc::ptr_eq(&self.ends, &other.ends)
    }

    /// Sends what has so many answers, and waits for them. An error means that the connection is lost.
    pub(crate) async fn ask(&self, bytes: Vec<u8>, count: usize) -> Result<Answers, RedisError> {
        let (tell, told) = oneshot::channel();
        let lost = || RedisError::from(io::Error::from(io::ErrorKind::ConnectionReset));
        self.requests.send(Request { bytes, pending: Pending { count, tell } }).await.map_err(|_| lost())?;
        told.await.map_err(|_| lost())
    }
}

async fn write(
    mut writer: impl AsyncWrite + Unpin,
    mut requests: mpsc::Receiver<Request>,
    sent: mpsc::Sender<Pending>,
) -> io::Result<()> {
    let mut bytes = Vec::new();
    while let Some(first) = requests.recv().await {
        let (mut next, mut together) = (Some(first), 0);
        while let Some(request) = next {
            bytes.extend_from_slice(&request.bytes);
            sent.send(request.pending).await.map_err(|_| io::ErrorKind::ConnectionReset)?;
            together += 1;
            next = if bytes.len() < WRITE && together < TOGETHER { requests.try_recv().ok() } else { None };
        }
        writer.write_all(&bytes).await?;
        writer.flush().await?;
        bytes.clear();
    }
    Ok(())
}

/// Ends with the connection; then nobody is told any more, which is heard by all who wait.
async fn read(mut reader: impl AsyncRead + Unpin, mut pending: mpsc::Receiver<Pending>) -> io::Result<()> {
    let mut bytes = Vec::new();
    let mut asked: Option<Pending> = None;
    // Answers that are there of what is waited for, and where the next one begins.
    let (mut there, mut at) = (0, 0);
    let mut scan = Scan::default();
    loop {
        let mut from = 0;
        while scan.is_whole(&bytes[at..])? {
            at += std::mem::take(&mut scan).at;
            there += 1;
            // What is answered was asked for before it was written.
            let now = match asked.take() {
                Some(asked) => asked,
                None => pending.try_recv().map_err(|_| broken("an answer that nobody asked for"))?,
            };
            if there < now.count {
                asked = Some(now);
                continue;
            }
            // Whoever asked may have given up.
            drop(now.tell.send(Answers { bytes: bytes[from..at].to_vec(), count: now.count }));
            (from, there) = (at, 0);
        }
        bytes.drain(..from);
        at -= from;
        bytes.reserve(READ);
        if reader.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
    }
}

fn short() -> io::Error {
    broken("an answer that is cut off")
}

fn broken(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// A command of so many words, of which more may follow.
pub(crate) fn push_command<'w>(bytes: &mut Vec<u8>, count: usize, words: impl IntoIterator<Item = &'w str>) {
    push_size(bytes, b'*', count);
    words.into_iter().for_each(|word| push_word(bytes, word));
}

pub(crate) fn push_word(bytes: &mut Vec<u8>, word: &str) {
    push_size(bytes, b'$', word.len());
    bytes.extend_from_slice(word.as_bytes());
    bytes.extend_from_slice(b"\r\n");
}

fn push_size(bytes: &mut Vec<u8>, sign: u8, size: usize) {
    bytes.push(sign);
    bytes.extend_from_slice(size.to_string().as_bytes());
    bytes.extend_from_slice(b"\r\n");
}

/// How far the next answer has come. What has been looked at once is not looked at again when more of it comes.
struct Scan {
    /// Pieces that are missing.
    left: usize,
    /// Where the next one begins.
    at: usize,
}

impl Default for Scan {
    fn default() -> Self {
        Scan { left: 1, at: 0 }
    }
}

impl Scan {
    /// Whether all of it is there, which ends at `at` then.
    fn is_whole(&mut self, bytes: &[u8]) -> io::Result<bool> {
        while self.left > 0 {
            let mut part = Part { bytes, at: self.at };
            let Some(line) = part.line() else { return Ok(false) };
            self.left -= 1;
            match line.first() {
                Some(b'*') => self.left += size(line)?.unwrap_or(0),
                Some(b'$') => part.at += size(line)?.map_or(0, |size| size + 2),
                Some(b'+' | b'-' | b':') => {}
                _ => return Err(broken("no answer of this protocol")),
            }
            self.at = part.at;
        }
        Ok(self.at <= bytes.len())
    }
}

/// The number behind a line's sign; `None` for what is not there.
fn size(line: &[u8]) -> io::Result<Option<usize>> {
    match usize::try_from(number(line)?) {
        Ok(size) if size > MOST => Err(broken("an answer without end")),
        size => Ok(size.ok()),
    }
}

fn number(line: &[u8]) -> io::Result<i64> {
    let (less, digits) = match &line[1..] {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let more = |n: i64, digit: &u8| {
        let digit = digit.is_ascii_digit().then(|| i64::from(digit - b'0'))?;
        n.checked_mul(10)?.checked_add(if less { -digit } else { digit })
    };
    let number = (!digits.is_empty()).then(|| digits.iter().try_fold(0, more)).flatten();
    number.ok_or_else(|| broken("no number"))
}

/// A part of what has come.
pub(crate) struct Part<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Part<'b> {
    /// The next line, without its end, of which the last byte may be on its way; `None` if more is.
    fn line(&mut self) -> Option<&'b [u8]> {
        let rest = self.bytes.get(self.at..)?;
        let end = rest.iter().position(|byte| *byte == b'\r')?;
        self.at += end + 2;
        Some(&rest[..end])
    }

    /// The texts of the next answer, if it is a list; what else it is, if it is not.
    pub(crate) fn texts(&mut self) -> io::Result<Result<Texts<'_, 'b>, Value>> {
        if self.bytes.get(self.at) != Some(&b'*') {
            return self.value().map(Err);
        }
        let left = self.line().map_or(Ok(None), size)?.unwrap_or(0);
        Ok(Ok(Texts { part: self, left }))
    }

    /// Passes over so many answers of one line.
    pub(crate) fn skip(&mut self, count: usize) -> io::Result<()> {
        (0..count).try_for_each(|_| self.line().map(drop).ok_or_else(short))
    }

    /// What stands behind a text's line.
    fn text(&mut self, size: usize) -> io::Result<&'b [u8]> {
        let text = self.bytes.get(self.at..self.at + size).ok_or_else(short)?;
        self.at += size + 2;
        Ok(text)
    }

    pub(crate) fn value(&mut self) -> io::Result<Value> {
        self.nested(DEPTH)
    }

    fn nested(&mut self, depth: usize) -> io::Result<Value> {
        let begins = self.at;
        let line = self.line().ok_or_else(short)?;
        match line.first() {
            Some(b'*') => {
                let Some(count) = size(line)? else { return Ok(Value::Nil) };
                let depth = depth.checked_sub(1).ok_or_else(|| broken("lists too deep"))?;
                let mut all = Vec::with_capacity(count);
                for _ in 0..count {
                    all.push(self.nested(depth)?);
                }
                Ok(Value::Array(all))
            }
            Some(b'$') => {
                let Some(size) = size(line)? else { return Ok(Value::Nil) };
                Ok(Value::BulkString(self.text(size)?.to_vec()))
            }
            Some(b':') => number(line).map(Value::Int),
            Some(b'+') if line == b"+OK" => Ok(Value::Okay),
            Some(b'+') => Ok(Value::SimpleString(String::from_utf8_lossy(&line[1..]).into_owned())),
            // The driver knows the servers' errors.
            _ => {
                redis::parse_redis_value(&self.bytes[begins..self.at]).map_err(|_| broken("no answer of this protocol"))
            }
        }
    }
}

/// The texts of a list, as they stand in the answer.
pub(crate) struct Texts<'p, 'b> {
    part: &'p mut Part<'b>,
    left: usize,
}

impl<'b> Iterator for Texts<'_, 'b> {
    type Item = io::Result<&'b [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let line = self.part.line().filter(|line| line.first() == Some(&b'$'));
        let size = line.ok_or_else(|| broken("no text")).and_then(size);
        Some(size.and_then(|size| self.part.text(size.ok_or_else(|| broken("a text that is not there"))?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::duplex;

    const ALL: &[u8] = b"+OK\r\n+PONG\r\n:-7\r\n$5\r\nab\r\nc\r\n$0\r\n\r\n$-1\r\n*-1\r\n*0\r\n*3\r\n:1\r\n*1\r\n$1\r\nx\r\n$-1\r\n-NOSCRIPT no\r\n";

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn expected() -> Vec<Value> {
        let list = Value::Array(vec![Value::Int(1), Value::Array(vec![text("x")]), Value::Nil]);
        let texts = [text("ab\r\nc"), text(""), Value::Nil, Value::Nil, Value::Array(Vec::new()), list];
        [Value::Okay, Value::SimpleString("PONG".to_owned()), Value::Int(-7)].into_iter().chain(texts).collect()
    }

    #[tokio::test]
    async fn answers_are_taken_apart_wherever_they_are_cut() {
        for cut in 0..ALL.len() {
            let (mine, theirs) = duplex(1 << 16);
            let (reader, writer) = tokio::io::split(mine);
            let wire = Wire::new(reader, writer);
            let (mut theirs_in, mut theirs_out) = tokio::io::split(theirs);
            let ask =
                tokio::spawn(async move { (wire.ask(b"ping".to_vec(), 10).await, wire.ask(b"x".to_vec(), 1).await) });
            let mut asked = [0; 4];
            theirs_in.read_exact(&mut asked).await.unwrap();
            theirs_out.write_all(&ALL[..cut]).await.unwrap();
            tokio::task::yield_now().await;
            theirs_out.write_all(&ALL[cut..]).await.unwrap();
            theirs_in.read_exact(&mut asked[..1]).await.unwrap();
            // The second is never answered: its connection is lost.
            drop((theirs_in, theirs_out));
            let (first, second) = ask.await.unwrap();
            let mut first = first.unwrap().values().unwrap();
            let error = first.pop().unwrap().extract_error().unwrap_err();
            assert!(crate::error::is_unknown_script(&error), "{error}");
            assert_eq!(first, expected(), "cut at {cut}");
            assert!(second.is_err_and(|error| error.is_io_error()));
        }
    }

    #[tokio::test]
    async fn more_than_may_wait_are_answered_each_with_its_own() {
        let (mine, theirs) = duplex(1 << 10);
        let (reader, writer) = tokio::io::split(mine);
        let wire = Wire::new(reader, writer);
        let asks = (0..3 * WAITING).map(|n| wire.ask(format!("{n:05}").into_bytes(), 1));
        let asks = futures_util::future::join_all(asks);
        let server = async {
            let (mut requests, mut answers) = tokio::io::split(theirs);
            let mut asked = [0; 5];
            for _ in 0..3 * WAITING {
                requests.read_exact(&mut asked).await.unwrap();
                answers.write_all(&[b":", &asked[..], b"\r\n"].concat()).await.unwrap();
            }
        };
        let both = async { tokio::join!(asks, server) };
        let (answers, ()) =
            tokio::time::timeout(std::time::Duration::from_secs(20), both).await.expect("none waits for ever");
        for (n, answer) in (0..).zip(answers) {
            assert_eq!(answer.unwrap().values().unwrap(), [Value::Int(n)]);
        }
    }

    #[test]
    fn texts_are_handed_over_as_they_stand_and_what_is_none_is_told() {
        let bytes = b"*2\r\n$2\r\nid\r\n$4\r\na\r\nb\r\n*0\r\n-WRONGTYPE no\r\n*-1\r\n*2\r\n:1\r\n$-1\r\n";
        let answers = Answers { bytes: bytes.to_vec(), count: 5 };
        let mut part = answers.part();
        let mut all = || part.texts().unwrap().map(|texts| texts.map(Result::ok).collect::<Vec<_>>());
        assert_eq!(all(), Ok(vec![Some(&b"id"[..]), Some(b"a\r\nb")]));
        assert_eq!(all(), Ok(vec![]));
        assert!(all().unwrap_err().extract_error().is_err());
        assert_eq!(all(), Ok(vec![]), "a list that is not there has none");
        assert_eq!(all(), Ok(vec![None, None]), "neither is a text");
    }

    #[test]
    fn what_is_no_answer_ends_the_connection() {
        for bad in [
            &b"HTTP/1.1 200\r\n"[..],
            b"*x\r\n",
            b"$1x\r\n",
            b":\xff\r\n",
            b"$9223372036854775807\r\n",
            b"$9223372036854775808\r\n",
            b"$-\r\n",
            b"\r\n",
        ] {
            let mut scan = Scan::default();
            let read = scan.is_whole(bad).and_then(|whole| match whole {
                false => Ok(Value::Nil),
                true => Part { bytes: &bad[..scan.at], at: 0 }.value(),
            });
            assert!(read.is_err(), "{:?}: {read:?}", String::from_utf8_lossy(bad));
        }
        let deep = b"*1\r\n".repeat(DEPTH + 1);
        assert!(!Scan::default().is_whole(&deep).unwrap());
        let deep = [&deep[..], b":1\r\n"].concat();
        assert!(Part { bytes: &deep, at: 0 }.value().is_err());
    }
}
