//! What the environment says. It is handed in as a function from a variable's name to its text.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Context as _;

use super::{Guarding, Outage};

/// What the environment says about a setting replaces what the file says.
pub(super) struct Environment<'a>(pub(super) &'a dyn Fn(&str) -> Option<String>);

impl Environment<'_> {
    pub(super) fn text(&self, name: &str, setting: &mut String) {
        if let Some(text) = self.0(name) {
            *setting = text;
        }
    }

    pub(super) fn path(&self, name: &str, setting: &mut PathBuf) {
        if let Some(text) = self.0(name) {
            *setting = text.into();
        }
    }

    /// Divided by commas; white space around them and an empty place count for nothing.
    pub(super) fn list(&self, name: &str, setting: &mut Vec<String>) {
        if let Some(text) = self.0(name) {
            *setting = text.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(str::to_owned).collect();
        }
    }

    pub(super) fn number<N: FromStr>(&self, name: &str, setting: &mut N) -> anyhow::Result<()> {
        self.read(name, setting, "a whole number", |text| text.parse().ok())
    }

    pub(super) fn yes_or_no(&self, name: &str, setting: &mut bool) -> anyhow::Result<()> {
        self.read(name, setting, "true or false", |text| match text {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        })
    }

    pub(super) fn outage(&self, name: &str, setting: &mut Outage) -> anyhow::Result<()> {
        self.read(name, setting, "degrade, hold or fail", |text| match text {
            "degrade" => Some(Outage::Degrade),
            "hold" => Some(Outage::Hold),
            "fail" => Some(Outage::Fail),
            _ => None,
        })
    }

    pub(super) fn guarding(&self, name: &str, setting: &mut Guarding) -> anyhow::Result<()> {
        self.read(name, setting, "auto, on or off", |text| match text {
            "auto" => Some(Guarding::Auto),
            "on" => Some(Guarding::On),
            "off" => Some(Guarding::Off),
            _ => None,
        })
    }

    fn read<T>(
        &self,
        name: &str,
        setting: &mut T,
        expected: &str,
        value: impl Fn(&str) -> Option<T>,
    ) -> anyhow::Result<()> {
        if let Some(text) = self.0(name) {
            *setting = value(&text).with_context(|| format!("WL-4021 {name} is {text:?}; expected {expected}"))?;
        }
        Ok(())
    }
}
