//! The service that the sample plan changes: each tenant has a version there. What it was told is kept in files, so that a
//! restart finds it as it was.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// The largest request it reads, in bytes.
const REQUEST_BYTES_MAX: usize = 64 * 1024;
/// How long a request may take.
const REQUEST: Duration = Duration::from_secs(10);

/// Serves until the process ends.
pub(super) async fn serve(listener: TcpListener, folder: PathBuf, broken: &'static str) {
    let folder: Arc<Path> = folder.into();
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let folder = Arc::clone(&folder);
        tokio::spawn(async move {
            // Whoever called and went away gets no answer.
            drop(tokio::time::timeout(REQUEST, answer(stream, &folder, broken)).await);
        });
    }
}

async fn answer(mut stream: TcpStream, folder: &Path, broken: &str) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    let request = loop {
        if let Some(request) = Request::read(&bytes) {
            break request;
        }
        let mut more = [0; 4096];
        match stream.read(&mut more).await? {
            0 => return Ok(()),
            n if bytes.len() + n > REQUEST_BYTES_MAX => return Ok(()),
            n => bytes.extend_from_slice(&more[..n]),
        }
    };
    let (status, body) = request.answered(folder, broken)?;
    let length = body.len();
    let text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).await
}

/// What was asked.
struct Request {
    method: String,
    tenant: String,
    what: String,
    attempt: u32,
    body: String,
}

impl Request {
    /// The request, once all of it is there.
    fn read(bytes: &[u8]) -> Option<Request> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        let mut lines = head.lines();
        let mut first = lines.next()?.split(' ');
        let (method, path) = (first.next()?.to_owned(), first.next()?);
        let headers: Vec<_> = lines.filter_map(|line| line.split_once(':')).collect();
        let header = |name: &str| {
            headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, text)| text.trim())
        };
        let length: usize = header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        if body.len() < length {
            return None;
        }
        let mut parts = path.trim_start_matches('/').split('/');
        let tenant = parts.next()?.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
        let what = parts.next().unwrap_or_default().to_owned();
        let attempt = header("windlass-attempt").and_then(|text| text.parse().ok()).unwrap_or(1);
        Some(Request { method, tenant, what, attempt, body: body.to_owned() })
    }

    fn answered(&self, folder: &Path, broken: &str) -> std::io::Result<(&'static str, String)> {
        let file = folder.join(&self.tenant);
        match (self.method.as_str(), self.what.as_str()) {
            ("PUT", "config") => {
                std::fs::create_dir_all(folder)?;
                std::fs::write(&file, &self.body)?;
                Ok(("200 OK", self.body.clone()))
            }
            // It is put right by the time somebody looks at it and tries again.
            ("GET", "health") if self.tenant == broken && self.attempt == 1 => {
                Ok(("503 Service Unavailable", r#"{"error": "the disk is full"}"#.to_owned()))
            }
            ("GET", "health") => match std::fs::read_to_string(&file) {
                Ok(config) => Ok(("200 OK", config)),
                Err(_) => Ok(("404 Not Found", r#"{"error": "nothing was configured"}"#.to_owned())),
            },
            _ => Ok(("404 Not Found", r#"{"error": "PUT /TENANT/config or GET /TENANT/health"}"#.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> Request {
        Request::read(text.as_bytes()).unwrap()
    }

    #[test]
    fn what_was_put_is_what_health_says_also_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let put = asked("PUT /fern/config HTTP/1.1\r\nContent-Length: 13\r\n\r\n{\"version\":2}");
        assert_eq!(put.answered(folder.path(), "oak").unwrap().0, "200 OK");
        let get = asked("GET /fern/health HTTP/1.1\r\nWindlass-Attempt: 1\r\n\r\n");
        assert_eq!(get.answered(folder.path(), "oak").unwrap(), ("200 OK", "{\"version\":2}".to_owned()));
    }

    #[test]
    fn the_broken_one_fails_in_its_first_attempt_only() {
        let folder = tempfile::tempdir().unwrap();
        asked("PUT /fern/config HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}").answered(folder.path(), "fern").unwrap();
        let health = |n| asked(&format!("GET /fern/health HTTP/1.1\r\nwindlass-attempt: {n}\r\n\r\n"));
        assert_eq!(health(1).answered(folder.path(), "fern").unwrap().0, "503 Service Unavailable");
        assert_eq!(health(2).answered(folder.path(), "fern").unwrap().0, "200 OK");
    }

    #[test]
    fn half_a_request_is_waited_for() {
        assert!(Request::read(b"PUT /fern/config HTTP/1.1\r\nContent-Length: 5\r\n\r\n{}").is_none());
        assert!(Request::read(b"GET /fern/health HT").is_none());
    }
}
