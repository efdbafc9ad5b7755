//! Documents that stores read again and again.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use serde::de::DeserializeOwned;

/// Documents of each kind that are remembered.
const KNOWN_MAX: usize = 8_192;
/// A longer one is read each time.
const KNOWN_BYTES: usize = 512;

/// What was read of late, by its text. To read a document takes longer than all the rest of a record, and many records
/// share few of them.
pub struct Known<T>(LazyLock<Mutex<HashMap<String, T>>>);

impl<T> Known<T> {
    /// Nothing is known yet.
    #[must_use]
    pub const fn new() -> Known<T> {
        Known(LazyLock::new(Mutex::default))
    }
}

impl<T> Default for Known<T> {
    fn default() -> Self {
        Known::new()
    }
}

impl<T: Clone + DeserializeOwned> Known<T> {
    /// Reads a document, or remembers it.
    pub fn read(&self, text: &str) -> Result<T, serde_json::Error> {
        if text.len() > KNOWN_BYTES {
            return serde_json::from_str(text);
        }
        if let Some(known) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(text) {
            return Ok(known.clone());
        }
        let read: T = serde_json::from_str(text)?;
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(text.to_owned(), read.clone());
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_what_was_read_and_no_more_than_fits() {
        let known: Known<Vec<usize>> = Known::new();
        for _ in 0..2 {
            for n in 0..KNOWN_MAX + 1 {
                assert_eq!(known.read(&format!("[{n}]")).unwrap(), [n]);
            }
        }
        let all = || known.0.lock().unwrap().len();
        assert!(all() <= KNOWN_MAX);
        assert!(known.read("[").is_err());
        let before = all();
        let long = format!("[{}1]", "1,".repeat(KNOWN_BYTES));
        assert_eq!(known.read(&long).unwrap().len(), KNOWN_BYTES + 1);
        assert_eq!(all(), before, "what is long is not kept");
    }
}
