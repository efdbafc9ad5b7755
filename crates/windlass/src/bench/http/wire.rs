//! A connection that is kept: the least of HTTP/1.1 that the bench needs, so that the clients cost little beside what they
//! measure.

use std::net::SocketAddr;

use anyhow::Context as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

pub(super) struct Wire {
    stream: TcpStream,
    to: Vec<u8>,
    from: Vec<u8>,
}

impl Wire {
    pub(super) async fn connect(address: SocketAddr) -> anyhow::Result<Wire> {
        let stream = TcpStream::connect(address).await.context("the server cannot be reached")?;
        stream.set_nodelay(true)?;
        Ok(Wire { stream, to: Vec::new(), from: Vec::with_capacity(4 << 10) })
    }

    pub(super) async fn get(&mut self, path: &str) -> anyhow::Result<&[u8]> {
        self.ask("GET", path, b"").await
    }

    pub(super) async fn post(&mut self, path: &str, body: &[u8]) -> anyhow::Result<&[u8]> {
        self.ask("POST", path, body).await
    }

    /// One request; the body of its answer. Whatever is not a success ends the bench.
    async fn ask(&mut self, method: &str, path: &str, body: &[u8]) -> anyhow::Result<&[u8]> {
        self.to.clear();
        self.to.extend_from_slice(request(method, path, body.len()).as_bytes());
        self.to.extend_from_slice(body);
        self.stream.write_all(&self.to).await?;
        self.from.clear();
        let (head, length) = loop {
            anyhow::ensure!(self.stream.read_buf(&mut self.from).await? > 0, "the server closed the connection");
            if let Some(found) = head(&self.from)? {
                break found;
            }
        };
        while self.from.len() < head + length {
            anyhow::ensure!(self.stream.read_buf(&mut self.from).await? > 0, "the server closed the connection");
        }
        let body = &self.from[head..head + length];
        let success = self.from.get(9) == Some(&b'2');
        anyhow::ensure!(success, "{method} {path}: {}", String::from_utf8_lossy(&self.from));
        Ok(body)
    }

    /// A request whose answer does not end: what is read from here on is the stream.
    pub(super) async fn open(mut self, path: &str) -> anyhow::Result<TcpStream> {
        self.stream.write_all(request("GET", path, 0).as_bytes()).await?;
        Ok(self.stream)
    }
}

pub(super) fn request(method: &str, path: &str, length: usize) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    )
}

/// Where the body begins and how long it is, once the head is there.
pub(super) fn head(bytes: &[u8]) -> anyhow::Result<Option<(usize, usize)>> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let text = std::str::from_utf8(&bytes[..end])?;
    let length = text.split("\r\n").find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>())
    });
    Ok(Some((end + 4, length.context("an answer without a length")??)))
}
