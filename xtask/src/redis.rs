//! The Redis servers of a test run: each in a temporary folder, on a port of its own, with an append-only file. They end
//! with the run, however that ends.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// Longer than any start takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Serves in `$1` on port `$2`, synced as `$3` says, until its standard input ends, which it does when whoever holds the
/// other end does; then everything is removed.
const SCRIPT: &str = r#"
redis-server --dir "$1" --port "$2" --bind 127.0.0.1 --appendonly yes --appendfsync "$3" --save "" >"$1/log" 2>&1 </dev/null &
server=$!
cat >/dev/null
kill -9 $server
wait $server
rm -rf "$1"
"#;

/// When what was written reaches the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sync {
    EverySecond,
    Always,
}

impl Sync {
    /// How tests learn where the server is, and its setting.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Sync::EverySecond => ("WINDLASS_TEST_REDIS", "everysec"),
            Sync::Always => ("WINDLASS_TEST_REDIS_ALWAYS", "always"),
        }
    }
}

pub(crate) struct Server {
    sync: Sync,
    folder: PathBuf,
    port: u16,
    child: Child,
}

impl Server {
    pub(crate) fn start(sync: Sync) -> Result<Self> {
        let (_, setting) = sync.names();
        let folder = std::env::temp_dir().join(format!("windlass-redis-{setting}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).context("no free port")?.port();
        let child = Command::new("sh")
            .args(["-c", SCRIPT, "sh"])
            .arg(&folder)
            .args([&port.to_string(), setting])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start Redis")?;
        let mut server = Self { sync, folder, port, child };
        server.wait()?;
        Ok(server)
    }

    fn wait(&mut self) -> Result<()> {
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            let log = || std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            if let Some(status) = self.child.try_wait().context("cannot look after Redis")? {
                bail!("Redis ended with {status}:\n{}", log());
            }
            ensure!(begun.elapsed() < PATIENCE, "Redis does not come up:\n{}", log());
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// What tests need in their environment.
    pub(crate) fn env(&self) -> (&'static str, String) {
        (self.sync.names().0, format!("redis://127.0.0.1:{}", self.port))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        if let Err(error) = self.child.wait() {
            eprintln!("    Redis did not end: {error}");
        }
    }
}

#[cfg(test)]
mod tests;
