//! What the driver says, as the ports say it: here and nowhere else. No message holds any part of a URL.

use mysql_async::{DriverError, Error};
use windlass_core::port::PortError;

/// Why the store does not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL cannot be read. It is not repeated, because it may hold a password.
    #[error("WL-4050 the MySQL URL cannot be read; expected mysql://USER:PASSWORD@HOST:PORT/DATABASE")]
    BadUrl,
    /// What the URL asks of TLS cannot be had.
    #[error("WL-4051 TLS to MySQL cannot be set up: {0}")]
    Tls(String),
    /// The server does not answer, or does not let us in.
    #[error("WL-4052 MySQL does not let us in: {0}")]
    Refused(String),
    /// The schema is older than this program, and migrating was not allowed.
    #[error("WL-4053 the schema lacks migration {number} ({name}); run the migrations, or open with migrate = true")]
    NotMigrated {
        /// The first that is missing.
        number: u32,
        /// What it is called.
        name: &'static str,
    },
    /// The schema was made by something else than the migrations of this program.
    #[error("WL-4054 migration {number} is applied and is not one that this program knows: {why}")]
    Foreign {
        /// Which.
        number: u32,
        /// How it differs.
        why: &'static str,
    },
    /// A migration failed. What it made before is there; it goes on from there when it is run again.
    #[error("WL-4055 migration {number} failed: {why}")]
    Migration {
        /// Which.
        number: u32,
        /// What the server said.
        why: String,
    },
    /// Too old, or not of this kind.
    #[error("WL-4056 the server is {0}; MySQL 8 or MariaDB 10.6 or newer is needed")]
    Old(String),
}

/// Why a script has no answer.
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

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let why = said(&error);
        match &error {
            Error::Server(server) if is_race(server.code) => Failure::Again(why),
            Error::Server(server) if is_damage(server.code) => Failure::Port(PortError::Corrupt(why)),
            Error::Driver(DriverError::PacketTooLarge) => Failure::Port(PortError::Invalid(why)),
            Error::Server(server) if server.code == PACKET_TOO_LARGE => Failure::Port(PortError::Invalid(why)),
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

/// More than the server's `max_allowed_packet`.
const PACKET_TOO_LARGE: u16 = 1153;

/// Two writers met, and everything of this one was undone or is about to be: a record changed since it was read, a duplicate
/// key, a lock that was waited for too long, a deadlock, a sum that is too large because something is not as it was expected.
/// Whoever repeats finds the other's work.
fn is_race(code: u16) -> bool {
    [1020, 1062, 1205, 1213, 1690, 3572].contains(&code)
}

/// Not what the migrations made, or values that do not fit it: no such database, column or table; a value that is out of range,
/// too long, none where there must be one, or wrong; a check that does not hold; a damaged table or index.
fn is_damage(code: u16) -> bool {
    [1034, 1035, 1048, 1049, 1054, 1064, 1146, 1264, 1292, 1364, 1366, 1406, 1411, 1712, 1877, 3819, 4025]
        .contains(&code)
}

/// The server's message with its code, or what happened to the connection.
pub(crate) fn said(error: &Error) -> String {
    let mut text = match error {
        Error::Server(server) => format!("{} ({})", server.message, server.code),
        Error::Io(error) => error.to_string(),
        Error::Driver(error) => error.to_string(),
        // A URL's error may repeat it.
        Error::Url(_) => "the URL cannot be read".to_owned(),
        Error::Other(_) => "the driver failed".to_owned(),
    };
    text.truncate(text.floor_char_boundary(400));
    text
}

/// What is stored does not decode.
pub(crate) fn corrupt(what: &str, why: impl std::fmt::Display) -> PortError {
    PortError::Corrupt(format!("{what} does not decode: {why}"))
}

/// A script was answered with fewer results than it has questions.
pub(crate) fn unanswered() -> PortError {
    PortError::Corrupt("a statement answered nothing".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(code: u16) -> Failure {
        Error::Server(mysql_async::ServerError { code, message: "m".into(), state: "HY000".into() }).into()
    }

    #[test]
    fn races_are_repeated_damage_is_named_and_the_rest_is_an_outage() {
        assert!([1062, 1205, 1213, 1690].into_iter().all(|code| matches!(server(code), Failure::Again(_))));
        let damage = [1146, 1054, 1406, 3819, 4025];
        assert!(damage.into_iter().all(|code| matches!(server(code), Failure::Port(PortError::Corrupt(_)))));
        assert!(matches!(server(1153), Failure::Port(PortError::Invalid(_))));
        // Full disk, read-only, a replica, shutting down, wrong password, too many connections, no rights.
        for code in [1021, 1114, 1290, 1792, 1836, 1053, 1045, 1040, 1142] {
            assert!(matches!(server(code), Failure::Port(PortError::Unavailable(_))), "{code}");
        }
    }
}
