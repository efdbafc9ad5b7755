//! What the driver says, as the ports say it: here and nowhere else. No message holds any part of a URL.

use std::error::Error as _;

use tokio_postgres::error::SqlState;
use windlass_core::port::PortError;

/// Why the store does not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL cannot be read. It is not repeated, because it may hold a password.
    #[error("WL-4030 the PostgreSQL URL cannot be read; expected postgres://USER:PASSWORD@HOST:PORT/DATABASE")]
    BadUrl,
    /// What the URL asks of TLS cannot be had.
    #[error("WL-4031 TLS to PostgreSQL cannot be set up: {0}")]
    Tls(String),
    /// The server does not answer, or does not let us in.
    #[error("WL-4032 PostgreSQL does not let us in: {0}")]
    Refused(String),
    /// The schema is older than this program, and migrating was not allowed.
    #[error("WL-4033 the schema lacks migration {number} ({name}); run the migrations, or open with migrate = true")]
    NotMigrated {
        /// The first that is missing.
        number: i32,
        /// What it is called.
        name: &'static str,
    },
    /// The schema was made by something else than the migrations of this program.
    #[error("WL-4034 migration {number} is applied and is not one that this program knows: {why}")]
    Foreign {
        /// Which.
        number: i32,
        /// How it differs.
        why: &'static str,
    },
    /// A migration failed; nothing of it is left.
    #[error("WL-4035 migration {number} failed and was undone: {why}")]
    Migration {
        /// Which.
        number: i32,
        /// What the server said.
        why: String,
    },
}

/// Why a statement has no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Somebody was faster: the same again from the beginning.
    Again(String),
    /// No answer for the caller.
    Port(PortError),
}

impl From<PortError> for Failure {
    fn from(error: PortError) -> Self {
        Failure::Port(error)
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        let why = said(&error);
        match error.code() {
            Some(code) if is_race(code) => Failure::Again(why),
            Some(code) if is_damage(code) => Failure::Port(PortError::Corrupt(why)),
            _ => Failure::Port(PortError::Unavailable(why)),
        }
    }
}

impl From<Failure> for PortError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Again(why) => PortError::Unavailable(format!("too many writers at once: {why}")),
            Failure::Port(error) => error,
        }
    }
}

/// Two writers met. Whoever repeats finds the other's work.
fn is_race(code: &SqlState) -> bool {
    [&SqlState::T_R_SERIALIZATION_FAILURE, &SqlState::T_R_DEADLOCK_DETECTED, &SqlState::UNIQUE_VIOLATION]
        .contains(&code)
}

/// Not what the migrations made, or values that do not fit it: classes 22, 42, and XX001, XX002.
fn is_damage(code: &SqlState) -> bool {
    let code = code.code();
    code.starts_with("22") || code.starts_with("42") || code == "XX001" || code == "XX002"
}

/// The server's message with its code, or what happened to the connection. Details and hints stay out:
/// they may hold values.
pub(crate) fn said(error: &tokio_postgres::Error) -> String {
    if let Some(error) = error.as_db_error() {
        return format!("{} ({})", error.message(), error.code().code());
    }
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// What is stored does not decode.
pub(crate) fn corrupt(what: &str, why: impl std::fmt::Display) -> PortError {
    PortError::Corrupt(format!("{what} does not decode: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn races_are_repeated_and_damage_is_named() {
        assert!(is_race(&SqlState::UNIQUE_VIOLATION) && is_race(&SqlState::T_R_DEADLOCK_DETECTED));
        assert!(is_damage(&SqlState::UNDEFINED_TABLE) && is_damage(&SqlState::NUMERIC_VALUE_OUT_OF_RANGE));
        assert!(!is_damage(&SqlState::ADMIN_SHUTDOWN) && !is_race(&SqlState::ADMIN_SHUTDOWN));
    }
}
