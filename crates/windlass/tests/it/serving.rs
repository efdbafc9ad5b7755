//! `windlass up`: the real executable, real signals.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// A running server and what it has said so far.
struct Up {
    child: Child,
    log: BufReader<std::process::ChildStderr>,
    address: String,
}

impl Up {
    fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Up {
        let mut child = Command::new(env!("CARGO_BIN_EXE_windlass"))
            .args(["up", "--listen", "127.0.0.1:0"])
            .args(arguments)
            .env("WINDLASS_LOG_FORMAT", "json")
            .envs(environment.iter().copied())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let mut up = Up { child, log, address: String::new() };
        let mut line = String::new();
        loop {
            line.clear();
            assert!(up.log.read_line(&mut line).unwrap() > 0, "it ended before it was up");
            let said: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
            if let Some(address) = said["address"].as_str() {
                up.address = address.to_owned();
                return up;
            }
        }
    }

    fn ask(&self, method: &str, path: &str, kind: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: {kind}\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// SIGTERM; how it ended, and what it said.
    fn stop(mut self) -> (Option<i32>, String) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        let mut said = String::new();
        self.log.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), said)
    }
}

/// A test that fails leaves nothing running.
impl Drop for Up {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

const PLAN: &str =
    "plan: long\nid: long\nstages:\n  - name: nap\n    sleep: 1h\ntasks:\n  - tenant: acme\n    config: {}\n";

#[test]
fn up_serves_and_stops_when_it_is_told_to() {
    let up = Up::start(&["--store", "memory:"], &[]);
    assert!(up.ask("GET", "/readyz", "application/json", "").starts_with("HTTP/1.1 200"));
    let (code, said) = up.stop();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("nothing was interrupted"), "{said}");
}

#[test]
fn up_names_what_it_interrupted() {
    let up = Up::start(&["--store", "memory:"], &[("WINDLASS_ENGINE_DRAIN_MS", "200")]);
    let made = up.ask("POST", "/v1/plans?start=true", "application/yaml", PLAN);
    assert!(made.starts_with("HTTP/1.1 201"), "{made}");
    while !up.ask("GET", "/v1/tasks/long-0/history", "application/json", "").contains("StageStarted") {}
    let (code, said) = up.stop();
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("task long-0") && said.contains("windlass inbox"), "{said}");
}

#[test]
fn up_logs_what_happens_with_plan_task_and_tenant() {
    let up = Up::start(&["--store", "memory:"], &[]);
    let yaml = PLAN.replace("1h", "1ms");
    let made = up.ask("POST", "/v1/plans?start=true", "application/yaml", &yaml);
    assert!(made.starts_with("HTTP/1.1 201"), "{made}");
    up.ask("GET", "/v1/plans/long?wait=20s", "application/json", "");
    let (_, said) = up.stop();
    let lines = said.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let done = lines.into_iter().find(|line| line["message"] == "TaskCompleted").expect("the task's end is logged");
    assert_eq!((&done["plan"], &done["task"], &done["tenant"]), (&"long".into(), &"long-0".into(), &"acme".into()));
}

#[test]
fn up_refuses_other_addresses_without_keys() {
    let ended = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["up", "--store", "memory:", "--listen", "0.0.0.0:0"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && said.contains("WL-6030") && said.contains("windlass key create"), "{said}");
}

#[test]
fn a_key_is_made_listed_used_and_revoked() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.toml");
    let key = |arguments: &[&str]| {
        let done = Command::new(env!("CARGO_BIN_EXE_windlass"))
            .args(["key", "--file", file.to_str().unwrap()])
            .args(arguments)
            .output()
            .unwrap();
        (done.status.code(), String::from_utf8(done.stdout).unwrap())
    };
    let (code, token) = key(&["create", "zoe", "--role", "operator", "--tenant", "acme", "--expires", "90d"]);
    assert_eq!(code, Some(0));
    assert!(token.starts_with("wl_"));
    let (_, listed) = key(&["list"]);
    assert!(listed.contains("zoe") && listed.contains("acme") && !listed.contains(token.trim()), "{listed}");
    let up = Up::start(&["--store", "memory:"], &[("WINDLASS_SERVER_KEYS", file.to_str().unwrap())]);
    assert!(up.ask("GET", "/v1/plans", "application/json", "").starts_with("HTTP/1.1 401"));
    let (_, said) = up.stop();
    assert!(!said.contains(token.trim().rsplit('_').next().unwrap()));
    assert_eq!(key(&["revoke", "zoe"]).0, Some(0));
    assert_eq!(key(&["revoke", "zoe"]).0, Some(1));
}
