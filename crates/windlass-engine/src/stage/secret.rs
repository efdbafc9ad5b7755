//! Secrets: looked up when a stage starts, and kept out of everything that a stage says.

use std::borrow::Cow;
use std::collections::BTreeMap;

use secrecy::ExposeSecret;
/// What a secret is kept in: nothing shows it, and it is wiped from memory.
pub use secrecy::SecretString;
use windlass_core::failure::FailureKind;
use windlass_core::id::SecretName;
use windlass_core::json::Json;
use windlass_core::stage::Text;

use super::template::Rendering;
use super::{Trouble, strings};

/// What a secret is replaced by wherever it would be seen.
pub const HIDDEN: &str = "***";

/// A part of a secret is hidden by itself from this length on: the token of `Bearer TOKEN`, but not `Bearer`.
const PART_BYTES_MIN: usize = 8;

/// A variable of this name and the secret's holds the secret.
const VARIABLE: &str = "WINDLASS_SECRET_";

/// Looks a secret up where secrets are kept, each time that a stage needs one; or says why it cannot be looked up.
pub type Source = dyn Fn(&SecretName) -> Result<Option<SecretString>, String> + Send + Sync;

/// What this instance knows, by name. Where it came from is the executable's business.
#[derive(Default)]
pub struct Secrets {
    by_name: BTreeMap<SecretName, SecretString>,
    source: Option<Box<Source>>,
}

impl Secrets {
    /// Those that are known.
    #[must_use]
    pub fn new(by_name: BTreeMap<SecretName, SecretString>) -> Secrets {
        Secrets { by_name, source: None }
    }

    /// Looks in `source` for what is not known otherwise.
    #[must_use]
    pub fn or_from(self, source: Box<Source>) -> Secrets {
        Secrets { source: Some(source), ..self }
    }

    /// Takes the variables `WINDLASS_SECRET_…` out of `environment`. What was handed in as a secret goes before them.
    pub(super) fn take_from(&mut self, environment: &mut BTreeMap<String, String>) {
        let ours = |name: &String| name.strip_prefix(VARIABLE).and_then(|name| name.parse::<SecretName>().ok());
        environment.retain(|variable, text| match ours(variable) {
            Some(name) => {
                self.by_name.entry(name).or_insert_with(|| SecretString::from(std::mem::take(text)));
                false
            }
            None => true,
        });
    }

    fn get(&self, name: &SecretName) -> Result<Cow<'_, str>, Trouble> {
        let unknown = || {
            let message = format!(
                "the secret {name} is not known on this instance: set {VARIABLE}{name} or add it to the secret \
                 file, and retry (WL-5002)"
            );
            Trouble::hopeless(FailureKind::Stage, message)
        };
        if let Some(secret) = self.by_name.get(name) {
            return Ok(Cow::Borrowed(secret.expose_secret()));
        }
        let found = self.source.as_ref().map_or(Ok(None), |source| source(name));
        // Whoever is writing the file may be done with it when the stage is tried again.
        let found = found.map_err(|why| Trouble::stage(format!("the secret {name} cannot be looked up: {why}")))?;
        found.map(|secret| Cow::Owned(secret.expose_secret().to_owned())).ok_or_else(unknown)
    }
}

/// The secrets that one stage has used so far.
pub(super) struct Used<'a> {
    secrets: &'a Secrets,
    /// Longest first: one may be a part of another.
    texts: Vec<String>,
}

impl<'a> Used<'a> {
    pub(super) fn none(secrets: &'a Secrets) -> Used<'a> {
        Used { secrets, texts: Vec::new() }
    }

    /// A template rendered, or a secret looked up and remembered; and whether it was a secret.
    pub(super) fn text<'t>(
        &mut self,
        rendering: &Rendering<'_>,
        what: &str,
        text: &'t Text,
    ) -> Result<(Cow<'t, str>, bool), Trouble>
    where
        'a: 't,
    {
        match text {
            Text::Template(template) => Ok((rendering.text(what, template)?, false)),
            Text::Secret(name) => Ok((self.secret(name)?, true)),
        }
    }

    /// A secret, looked up and remembered.
    pub(super) fn secret<'t>(&mut self, name: &SecretName) -> Result<Cow<'t, str>, Trouble>
    where
        'a: 't,
    {
        let secret = self.secrets.get(name)?;
        self.remember(&secret);
        Ok(secret)
    }

    fn remember(&mut self, secret: &str) {
        let parts = secret.split_whitespace().filter(|part| part.len() >= PART_BYTES_MIN);
        let whole = [secret, secret.trim()].into_iter().filter(|text| !text.is_empty());
        for text in parts.chain(whole) {
            self.texts.push(text.to_owned());
            // As JSON that is shown as text has it.
            let escaped = serde_json::to_string(text).unwrap_or_default();
            self.texts.extend(escaped.get(1..escaped.len().saturating_sub(1)).map(str::to_owned));
        }
        self.texts.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        self.texts.dedup();
    }

    /// The length of the longest: how much more than is kept must be read, so that a cut goes through none.
    pub(super) fn longest(&self) -> usize {
        self.texts.first().map_or(0, String::len)
    }

    /// `text` without any of them.
    pub(super) fn hide<'t>(&self, text: impl Into<Cow<'t, str>>) -> Cow<'t, str> {
        let mut text = text.into();
        for secret in &self.texts {
            if text.contains(secret.as_str()) {
                text = Cow::Owned(text.replace(secret.as_str(), HIDDEN));
            }
        }
        text
    }

    /// `json` without any of them in its strings.
    pub(super) fn hide_in(&self, json: &Json) -> Json {
        if self.texts.is_empty() {
            return json.clone();
        }
        strings::map(json, |text| match self.hide(text) {
            Cow::Owned(hidden) => Some(hidden),
            Cow::Borrowed(_) => None,
        })
    }

    /// A trouble that says none of them.
    pub(super) fn hide_trouble(&self, mut trouble: Trouble) -> Trouble {
        trouble.message = self.hide(trouble.message).into_owned();
        trouble
    }
}

#[cfg(test)]
mod tests;
