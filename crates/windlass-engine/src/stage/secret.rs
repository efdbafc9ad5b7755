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

/// What this instance knows, by name. Where it came from is the executable's business.
#[derive(Default)]
pub struct Secrets {
    by_name: BTreeMap<SecretName, SecretString>,
}

impl Secrets {
    /// Those that are known.
    #[must_use]
    pub fn new(by_name: BTreeMap<SecretName, SecretString>) -> Secrets {
        Secrets { by_name }
    }

    fn get(&self, name: &SecretName) -> Result<&str, Trouble> {
        let unknown = || {
            let message = format!(
                "the secret {name} is not known on this instance: set WINDLASS_SECRET_{name} or add it to the secret \
                 file, and retry (WL-5002)"
            );
            Trouble::hopeless(FailureKind::Stage, message)
        };
        self.by_name.get(name).map(ExposeSecret::expose_secret).ok_or_else(unknown)
    }
}

/// The secrets that one stage has used so far.
pub(super) struct Used<'a> {
    secrets: &'a Secrets,
    /// Longest first: one may be a part of another.
    texts: Vec<Cow<'a, str>>,
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
            Text::Secret(name) => {
                let secret = self.secrets.get(name)?;
                self.remember(secret);
                Ok((Cow::Borrowed(secret), true))
            }
        }
    }

    fn remember(&mut self, secret: &'a str) {
        let parts = secret.split_whitespace().filter(|part| part.len() >= PART_BYTES_MIN);
        let whole = [secret, secret.trim()].into_iter().filter(|text| !text.is_empty());
        for text in parts.chain(whole) {
            self.texts.push(Cow::Borrowed(text));
            // As JSON that is shown as text has it.
            let escaped = serde_json::to_string(text).unwrap_or_default();
            self.texts
                .extend(escaped.get(1..escaped.len().saturating_sub(1)).map(|inner| Cow::Owned(inner.to_owned())));
        }
        self.texts.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        self.texts.dedup();
    }

    /// The length of the longest: how much more than is kept must be read, so that a cut goes through none.
    pub(super) fn longest(&self) -> usize {
        self.texts.first().map_or(0, |text| text.len())
    }

    /// `text` without any of them.
    pub(super) fn hide<'t>(&self, text: impl Into<Cow<'t, str>>) -> Cow<'t, str> {
        let mut text = text.into();
        for secret in &self.texts {
            if text.contains(&**secret) {
                text = Cow::Owned(text.replace(&**secret, HIDDEN));
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
