//! The server of a URL, and how it is spoken to. TLS is asked for as the clients of MySQL do, by `ssl-mode` and `ssl-ca`; the
//! driver has other words for it, so both are taken out of the URL here.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, DriverError, Error, Opts, OptsBuilder, SslOpts};
use percent_encoding::percent_decode_str;

use crate::error::{OpenError, said};

/// How long a connection may take to be made and set up.
const CONNECT: Duration = Duration::from_secs(5);

/// How long a server keeps a session that says nothing. Between two requests of a transaction it takes us no time; a connection that
/// is not in use is asked whether it is still there before it is used.
pub(crate) const SILENT: Duration = Duration::from_secs(30);

/// What every connection is set to. Values are refused rather than cut; times are UTC; a statement sees what others have
/// committed before it; waiting for a row ends; numbers that are drawn follow each other; the ids of the largest plan fit into one text,
/// for which MySQL has room for thirty by itself. Whoever was cut off without a word while it held rows lets go of them when it has said
/// nothing for [`SILENT`]: MySQL has no other bound for a transaction that stands still. What is sent is ASCII, other text by its bytes:
/// a server turns every literal of a statement into its own character set, which costs it a fourteenth of a write otherwise.
fn session() -> String {
    format!(
        "SET SESSION sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00', innodb_lock_wait_timeout = 10, \
         wait_timeout = {}, group_concat_max_len = 4000000, auto_increment_increment = 1, auto_increment_offset = 1, \
         autocommit = 1; SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; SET NAMES ascii COLLATE ascii_bin; \
         SET SESSION character_set_results = utf8mb4",
        SILENT.as_secs()
    )
}

#[derive(Clone)]
pub(crate) struct Target {
    opts: Opts,
    /// The same without TLS, if that will do.
    plain: Option<Opts>,
    /// The server has no TLS.
    has_none: Arc<AtomicBool>,
}

impl Target {
    /// Reads a URL. No error repeats any of it, because it may hold a password.
    pub(crate) fn of(url: &str) -> Result<Target, OpenError> {
        let (url, mode, root) = split(url)?;
        let opts = Opts::from_url(&url).map_err(|_| OpenError::BadUrl)?;
        if opts.db_name().is_none_or(str::is_empty) {
            return Err(OpenError::BadUrl);
        }
        // Through the socket of a server on this machine goes only who asks for it: what is in the URL is where it leads.
        let plain = OptsBuilder::from_opts(opts.clone()).prefer_socket(false).stmt_cache_size(0);
        let (tls, may_be_plain) = match mode.as_deref() {
            None if opts.ssl_opts().is_some() => (opts.ssl_opts().cloned(), false),
            Some("DISABLED") => (None, true),
            None | Some("PREFERRED") => (Some(lenient()), true),
            Some("REQUIRED") if root.is_none() => (Some(lenient()), false),
            Some("REQUIRED" | "VERIFY_CA") => {
                (Some(SslOpts::default().with_danger_skip_domain_validation(true)), false)
            }
            Some("VERIFY_IDENTITY") => (Some(SslOpts::default()), false),
            Some(_) => {
                let known = "ssl-mode is DISABLED, PREFERRED, REQUIRED, VERIFY_CA or VERIFY_IDENTITY";
                return Err(OpenError::Tls(known.to_owned()));
            }
        };
        let tls = match (tls, root) {
            (Some(tls), Some(root)) => {
                std::fs::metadata(&root)
                    .map_err(|why| OpenError::Tls(format!("the certificates in {}: {why}", root.display())))?;
                Some(tls.with_root_certs(vec![root.into()]).with_disable_built_in_roots(true))
            }
            (tls, _) => tls,
        };
        Ok(Target {
            opts: plain.clone().ssl_opts(tls).into(),
            plain: may_be_plain.then(|| plain.ssl_opts(None::<SslOpts>).into()),
            has_none: Arc::default(),
        })
    }

    /// Makes a connection, set up.
    pub(crate) async fn connect(&self) -> Result<Conn, String> {
        match tokio::time::timeout(CONNECT, self.try_connect()).await {
            Ok(made) => made.map_err(|error| said(&error)),
            Err(_) => Err(format!("MySQL has not answered for {} ms", CONNECT.as_millis())),
        }
    }

    async fn try_connect(&self) -> Result<Conn, Error> {
        let mut conn = match &self.plain {
            Some(plain) if self.has_none.load(Ordering::Relaxed) => Conn::new(plain.clone()).await?,
            Some(plain) => match Conn::new(self.opts.clone()).await {
                Err(Error::Driver(DriverError::NoClientSslFlagFromServer)) => {
                    self.has_none.store(true, Ordering::Relaxed);
                    Conn::new(plain.clone()).await?
                }
                made => made?,
            },
            None => Conn::new(self.opts.clone()).await?,
        };
        conn.query_drop(session()).await?;
        Ok(conn)
    }

    /// The database of the URL.
    pub(crate) fn database(&self) -> &str {
        self.opts.db_name().unwrap_or_default()
    }
}

/// Only listeners are kept out.
fn lenient() -> SslOpts {
    SslOpts::default().with_danger_accept_invalid_certs(true)
}

/// The URL without `ssl-mode` and `ssl-ca`, and those.
fn split(url: &str) -> Result<(String, Option<String>, Option<PathBuf>), OpenError> {
    let Some((base, query)) = url.split_once('?') else { return Ok((url.to_owned(), None, None)) };
    let (mut mode, mut root, mut rest) = (None, None, Vec::new());
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = percent_decode_str(value).decode_utf8().map_err(|_| OpenError::BadUrl);
        match key {
            "ssl-mode" => mode = Some(value?.to_uppercase()),
            "ssl-ca" => root = Some(PathBuf::from(value?.into_owned())),
            _ => rest.push(pair),
        }
    }
    let plain = if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
    Ok((plain, mode, root))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tls(url: &str) -> (Option<SslOpts>, bool) {
        let target = Target::of(url).unwrap();
        (target.opts.ssl_opts().cloned(), target.plain.is_some())
    }

    #[test]
    fn urls_ask_for_tls_as_the_clients_of_mysql_do() {
        let url = "mysql://u:hunter2@h:3307/db";
        assert_eq!(tls(url), (Some(lenient()), true));
        assert_eq!(tls(&format!("{url}?ssl-mode=disabled")), (None, true));
        assert_eq!(tls(&format!("{url}?ssl-mode=REQUIRED")), (Some(lenient()), false));
        let (verify, plain) = tls(&format!("{url}?ssl-mode=VERIFY_IDENTITY&tcp_nodelay=true"));
        assert!(!plain && !verify.clone().unwrap().accept_invalid_certs() && !verify.unwrap().skip_domain_validation());
        let (ca, _) = tls(&format!("{url}?ssl-mode=VERIFY_CA&ssl-ca=%2Fdev%2Fnull"));
        assert!(ca.clone().unwrap().skip_domain_validation() && ca.unwrap().root_certs().len() == 1);
        for bad in ["mysql://u:hunter2@h", "mysql://u:hunter2@h/db?nonsense=1", "postgres://h/db", "hunter2"] {
            let error = Target::of(bad).err().unwrap();
            assert!(matches!(error, OpenError::BadUrl) && !error.to_string().contains("hunter2"), "{bad}");
        }
        assert!(matches!(Target::of(&format!("{url}?ssl-mode=maybe")), Err(OpenError::Tls(_))));
        assert!(matches!(Target::of(&format!("{url}?ssl-ca=/nowhere")), Err(OpenError::Tls(_))));
    }
}
