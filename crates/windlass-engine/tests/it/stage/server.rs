//! A server of a few lines: it shows what was asked, byte by byte, and answers what it is told.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// One request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// Request line and headers, in lower case.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Asked {
    pub(crate) fn line(&self) -> &str {
        self.head.lines().next().unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let all = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        let mut found = all.filter(|(key, _)| *key == name).map(|(_, value)| value);
        let first = found.next();
        assert_eq!(found.next(), None, "{name} is sent once");
        first
    }
}

/// Listens on 127.0.0.1 until it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Server {
    /// Each request is answered by what `answer` makes of it, and its connection closed.
    pub(crate) async fn start(answer: impl Fn(&Asked) -> String + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let seen = asked.clone();
        let task = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let request = read(&mut stream).await;
                seen.lock().unwrap().push(request.clone());
                // A client that has heard enough may be gone.
                let _gone = stream.write_all(answer(&request).as_bytes()).await;
                let _gone = stream.shutdown().await;
            }
        });
        Server { address, asked, task }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// The only request there was.
    pub(crate) fn only(&self) -> Asked {
        let asked = self.asked();
        assert_eq!(asked.len(), 1, "{asked:?}");
        asked[0].clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) async fn read(stream: &mut TcpStream) -> Asked {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0, "the head ends");
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).unwrap();
    let head: String = head.lines().enumerate().fold(String::new(), |text, (i, line)| match line.split_once(": ") {
        Some((name, value)) if i > 0 => text + &name.to_ascii_lowercase() + ": " + value + "\n",
        _ => text + line + "\n",
    });
    let asked = Asked { head, body: String::new() };
    let length = asked.header("content-length").map_or(0, |length| length.parse().unwrap());
    while bytes.len() < head_end + length {
        assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0, "the body is whole");
    }
    Asked { body: String::from_utf8(bytes[head_end..].to_vec()).unwrap(), ..asked }
}

pub(crate) fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n{headers}\r\n{body}", body.len())
}

pub(crate) fn json(body: &str) -> String {
    answer("200 OK", "Content-Type: application/json\r\n", body)
}

pub(crate) fn redirect(status: &str, to: &str) -> String {
    answer(status, &format!("Location: {to}\r\n"), "moved")
}
