//! `windlass up` in a process of its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::wire::Wire;

/// A connection to each client's server: they are spread over all.
pub(super) async fn wire_of(serves: &[Serve], client: u32) -> anyhow::Result<Wire> {
    let serve = serves.iter().cycle().nth(client as usize).context("no server")?;
    serve.wire().await
}

/// Ends them all.
pub(super) fn stop_all(serves: Vec<Serve>) -> anyhow::Result<()> {
    serves.into_iter().try_for_each(Serve::stop)
}

/// How long a server has to come up.
const UP: Duration = Duration::from_secs(60);

/// A server that takes no more of a second than this is at rest, in hundredths.
const IDLE_TICKS: u64 = 5;

/// A server that runs. It is killed when it is dropped.
pub(super) struct Serve {
    child: Child,
    pub(super) address: SocketAddr,
    /// When its process was started.
    pub(super) began: Instant,
}

impl Serve {
    /// Starts one; answers when it listens.
    pub(super) async fn start(url: &str, config: Option<&Path>, log: PathBuf) -> anyhow::Result<Serve> {
        let mut command = Command::new(std::env::current_exe()?);
        if let Some(config) = config {
            command.arg("--config").arg(config);
        }
        // Not an argument: it may hold a password, and everybody sees arguments.
        command.args(["up", "--listen", "127.0.0.1:0"]).env("WINDLASS_STORE_URL", url);
        command.env("WINDLASS_LOG_FORMAT", "json").env("WINDLASS_SERVER_KEYS", "");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(std::fs::File::create(&log)?);
        let began = Instant::now();
        let child = command.spawn().context("no process for the server")?;
        let mut serve = Serve { child, address: SocketAddr::from(([127, 0, 0, 1], 0)), began };
        loop {
            let said = std::fs::read_to_string(&log)?;
            if let Some(address) = said.lines().find_map(address) {
                serve.address = address;
                return Ok(serve);
            }
            let ended = serve.child.try_wait()?;
            anyhow::ensure!(ended.is_none() && began.elapsed() < UP, "the server did not come up: {said}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// A connection of its own.
    pub(super) async fn wire(&self) -> anyhow::Result<Wire> {
        Wire::connect(self.address).await
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until what it does in the background is over, or for a minute.
    pub(super) async fn settled(&self) -> anyhow::Result<()> {
        let mut before = self.ticks()?;
        for _ in 0..60 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let now = self.ticks()?;
            if now - before <= IDLE_TICKS {
                break;
            }
            before = now;
        }
        Ok(())
    }

    /// Processor time so far, in hundredths of a second.
    fn ticks(&self) -> anyhow::Result<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id()))?;
        // The name before it may hold anything but this.
        let (_, fields) = stat.rsplit_once(')').context("no name in /proc/stat")?;
        let fields: Vec<_> = fields.split_whitespace().skip(11).take(2).map(str::parse::<u64>).collect();
        fields.into_iter().try_fold(0, |sum, ticks| Ok(sum + ticks?))
    }

    /// As a crash would.
    pub(super) fn stop(mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Where it listens, if this line of its log says it.
fn address(line: &str) -> Option<SocketAddr> {
    let said: serde_json::Value = serde_json::from_str(line).ok()?;
    said.get("address")?.as_str()?.parse().ok()
}
