//! `[log]`: what `windlass up` says on stderr, and how.

use super::environment::Environment;
use super::{Log, LogFormat};

impl Default for Log {
    fn default() -> Self {
        Log { filter: "info".to_owned(), format: LogFormat::Text }
    }
}

impl Log {
    pub(super) fn read(&mut self, environment: &Environment<'_>) -> anyhow::Result<()> {
        environment.text("WINDLASS_LOG_FILTER", &mut self.filter);
        let mut format = String::new();
        environment.text("WINDLASS_LOG_FORMAT", &mut format);
        self.format = match format.as_str() {
            "" => self.format,
            "text" => LogFormat::Text,
            "json" => LogFormat::Json,
            other => anyhow::bail!("WL-4021 WINDLASS_LOG_FORMAT is {other:?}; write text or json"),
        };
        Ok(())
    }
}
