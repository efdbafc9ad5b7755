//! `[server]`: where it listens, who may come, and how much at once.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use windlass_server::Limits;

use super::environment::Environment;
use super::{Server, within};

impl Default for Server {
    fn default() -> Self {
        let limits = Limits::default();
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Server {
            listen: "127.0.0.1:7800".to_owned(),
            keys: PathBuf::new(),
            connections_max: limits.connections as u64,
            body_mib: (limits.body_bytes >> 20) as u64,
            head_ms: ms(limits.head),
            body_ms: ms(limits.body),
            write_ms: ms(limits.write),
            streams_max: limits.streams as u64,
            waits_max: limits.waits as u64,
        }
    }
}

impl Server {
    pub(super) fn read(&mut self, environment: &Environment<'_>) -> anyhow::Result<()> {
        environment.text("WINDLASS_SERVER_LISTEN", &mut self.listen);
        environment.path("WINDLASS_SERVER_KEYS", &mut self.keys);
        environment.number("WINDLASS_SERVER_CONNECTIONS_MAX", &mut self.connections_max)?;
        environment.number("WINDLASS_SERVER_BODY_MIB", &mut self.body_mib)?;
        environment.number("WINDLASS_SERVER_HEAD_MS", &mut self.head_ms)?;
        environment.number("WINDLASS_SERVER_BODY_MS", &mut self.body_ms)?;
        environment.number("WINDLASS_SERVER_WRITE_MS", &mut self.write_ms)?;
        environment.number("WINDLASS_SERVER_STREAMS_MAX", &mut self.streams_max)?;
        environment.number("WINDLASS_SERVER_WAITS_MAX", &mut self.waits_max)
    }

    pub(super) fn check(&self) -> anyhow::Result<()> {
        self.address()?;
        within("[server] connections_max", self.connections_max, 1..=65_536, "")?;
        within("[server] body_mib", self.body_mib, 1..=256, "")?;
        within("[server] head_ms", self.head_ms, 100..=600_000, "")?;
        within("[server] body_ms", self.body_ms, 100..=600_000, "")?;
        within("[server] write_ms", self.write_ms, 100..=600_000, "")?;
        within("[server] streams_max", self.streams_max, 0..=65_536, "")?;
        within("[server] waits_max", self.waits_max, 0..=65_536, "")
    }

    /// Where it listens.
    pub fn address(&self) -> anyhow::Result<SocketAddr> {
        let text = &self.listen;
        let help =
            || format!("WL-4021 [server] listen is {text:?}; write an address and a port such as 127.0.0.1:7800");
        text.parse().with_context(help)
    }

    /// The file of API keys.
    #[must_use]
    pub fn keys_file(&self) -> Option<PathBuf> {
        (!self.keys.as_os_str().is_empty()).then(|| self.keys.clone())
    }

    /// What one server takes at once.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        Limits {
            connections: size(self.connections_max),
            body_bytes: size(self.body_mib) << 20,
            head: Duration::from_millis(self.head_ms),
            body: Duration::from_millis(self.body_ms),
            write: Duration::from_millis(self.write_ms),
            streams: size(self.streams_max),
            waits: size(self.waits_max),
            ..Limits::default()
        }
    }
}
