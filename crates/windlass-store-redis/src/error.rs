//! What the driver says, as the ports say it: here and nowhere else. No message holds any part of a URL.

use redis::{ErrorKind, RedisError, ServerErrorKind};
use windlass_core::port::PortError;

/// Why the store does not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL cannot be read. It is not repeated, because it may hold a password.
    #[error("WL-4040 the Redis URL cannot be read; expected redis://USER:PASSWORD@HOST:PORT/DATABASE or rediss://…")]
    BadUrl,
    /// What was asked of TLS cannot be had.
    #[error("WL-4041 TLS to Redis cannot be set up: {0}")]
    Tls(String),
    /// The server does not answer, or does not let us in.
    #[error("WL-4042 Redis does not let us in: {0}")]
    Refused(String),
    /// Too old.
    #[error("WL-4043 the server is of version {0}; Redis 7 or Valkey is needed")]
    Old(String),
    /// It would throw away what was acknowledged.
    #[error(
        "WL-4044 the server evicts keys when its memory is full (maxmemory-policy {0}); set maxmemory-policy to noeviction"
    )]
    Evicts(String),
    /// The prefix would not tell our keys from others.
    #[error("WL-4045 the key prefix {0:?} cannot be used: at most 64 of the characters A-Z a-z 0-9 _ - : . and /")]
    BadPrefix(String),
}

/// Whether the connection is of no more use after this error.
pub(crate) fn breaks(error: &RedisError) -> bool {
    error.is_unrecoverable_error()
        || error.is_io_error()
        || matches!(error.kind(), ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown))
}

/// Whether the script is not known to the server, which has done nothing then.
pub(crate) fn is_unknown_script(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(ServerErrorKind::NoScript))
        || error.detail().is_some_and(|detail| detail == "Function not found")
}

/// No answer, or one that says that what is stored is not ours.
pub(crate) fn port(error: &RedisError) -> PortError {
    let why = said(error);
    match error.kind() {
        // What a script meets is what it stored itself: a wrong type or a value that does not count is damage.
        ErrorKind::Server(ServerErrorKind::ResponseError) if is_damage(&why) => PortError::Corrupt(why),
        ErrorKind::Extension if is_damage(&why) => PortError::Corrupt(why),
        ErrorKind::UnexpectedReturnType | ErrorKind::Parse => PortError::Corrupt(why),
        _ => PortError::Unavailable(why),
    }
}

fn is_damage(why: &str) -> bool {
    ["WRONGTYPE", "attempt to ", "bad argument", "not an integer", "not a valid float", "malformed"]
        .iter()
        .any(|sign| why.contains(sign))
}

/// The server's words, or what happened to the connection.
pub(crate) fn said(error: &RedisError) -> String {
    let mut text = match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        _ => error.to_string(),
    };
    text.truncate(text.floor_char_boundary(400));
    text
}

/// What is stored does not decode.
pub(crate) fn corrupt(what: &str, why: impl std::fmt::Display) -> PortError {
    PortError::Corrupt(format!("{what} does not decode: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_told_from_absence() {
        assert!(is_damage("WRONGTYPE Operation against a key holding the wrong kind of value"));
        assert!(is_damage("ERR user_script:12: attempt to compare nil with number"));
        assert!(!is_damage("LOADING Redis is loading the dataset in memory"));
        let away = RedisError::from(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
        assert!(breaks(&away) && matches!(port(&away), PortError::Unavailable(_)));
    }
}
