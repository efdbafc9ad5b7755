//! Settings: defaults < one TOML file < environment (`WINDLASS_…`) < flags. Unknown keys are errors.
//! `windlass.example.toml` holds every setting with its default.

use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;

use crate::open::StoreUrl;

/// Everything that can be set.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Where things are kept.
    pub store: Store,
    /// The embedded store.
    pub embedded: Embedded,
    /// The PostgreSQL store.
    pub postgres: Postgres,
}

/// `[store]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Store {
    /// The store's URL.
    pub url: String,
}

/// `[embedded]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Embedded {
    /// Memory for blocks that were read from disk, in MiB.
    pub cache_mib: u64,
    /// Open although acknowledged writes are missing.
    pub accept_loss: bool,
}

/// `[postgres]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Postgres {
    /// Connections for work; one more listens for wake-ups.
    pub connections: u64,
    /// Bring the schema up to date at start.
    pub migrate: bool,
}

impl Default for Store {
    fn default() -> Self {
        Store { url: "embedded:windlass-data".into() }
    }
}

impl Default for Embedded {
    fn default() -> Self {
        Embedded { cache_mib: 64, accept_loss: false }
    }
}

impl Default for Postgres {
    fn default() -> Self {
        Postgres { connections: 4, migrate: true }
    }
}

impl Settings {
    /// The store's URL, checked.
    pub fn store_url(&self) -> anyhow::Result<StoreUrl> {
        self.store.url.parse().context("[store] url")
    }

    /// Reads settings from TOML; an error says where.
    pub fn parse(text: &str) -> Result<Settings, toml::de::Error> {
        toml::from_str(text)
    }

    /// The file's settings, if one is given, with the environment over them.
    pub fn load(file: Option<&Path>, environment: impl Fn(&str) -> Option<String>) -> anyhow::Result<Settings> {
        let mut settings = match file {
            None => Settings::default(),
            Some(path) => {
                let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
                Settings::parse(&text).with_context(|| format!("WL-4020 {} is not valid", path.display()))?
            }
        };
        let number = |name: &str, text: String| {
            text.parse::<u64>().with_context(|| format!("WL-4021 {name} is {text:?}; expected a whole number"))
        };
        let yes_or_no = |name: &str, text: String| match text.as_str() {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            _ => Err(anyhow::anyhow!("WL-4021 {name} is {text:?}; expected true or false")),
        };
        if let Some(url) = environment("WINDLASS_STORE_URL") {
            settings.store.url = url;
        }
        if let Some(text) = environment("WINDLASS_EMBEDDED_CACHE_MIB") {
            settings.embedded.cache_mib = number("WINDLASS_EMBEDDED_CACHE_MIB", text)?;
        }
        if let Some(text) = environment("WINDLASS_EMBEDDED_ACCEPT_LOSS") {
            settings.embedded.accept_loss = yes_or_no("WINDLASS_EMBEDDED_ACCEPT_LOSS", text)?;
        }
        if let Some(text) = environment("WINDLASS_POSTGRES_CONNECTIONS") {
            settings.postgres.connections = number("WINDLASS_POSTGRES_CONNECTIONS", text)?;
        }
        if let Some(text) = environment("WINDLASS_POSTGRES_MIGRATE") {
            settings.postgres.migrate = yes_or_no("WINDLASS_POSTGRES_MIGRATE", text)?;
        }
        settings.check()?;
        Ok(settings)
    }

    /// What a type does not say.
    fn check(&self) -> anyhow::Result<()> {
        let cache = self.embedded.cache_mib;
        anyhow::ensure!(
            (1..=65_536).contains(&cache),
            "WL-4021 [embedded] cache_mib is {cache}; 1 to 65536 is allowed"
        );
        let connections = self.postgres.connections;
        anyhow::ensure!(
            (1..=256).contains(&connections),
            "WL-4021 [postgres] connections is {connections}; 1 to 256 is allowed"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests;
