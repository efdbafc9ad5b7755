//! How a connection is made: TCP, TLS where the URL asks for it, the password and the database.

use std::io;
use std::path::Path;
use std::sync::Arc;

use redis::{Client, ConnectionAddr, ErrorKind, RedisError, Value};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::error::OpenError;
use crate::wire::Wire;

/// Where the server is and what it is told.
pub(crate) struct Target {
    client: Client,
    tls: Option<Arc<ClientConfig>>,
}

impl Target {
    /// `ca_file` holds the certificates that `rediss://` trusts instead of the system's.
    pub(crate) fn of(url: &str, ca_file: Option<&Path>) -> Result<Target, OpenError> {
        let no = |why: &dyn std::fmt::Display| OpenError::Tls(why.to_string());
        let plain = Client::open(url).map_err(|_| OpenError::BadUrl)?;
        if !matches!(plain.get_connection_info().addr(), ConnectionAddr::TcpTls { .. }) {
            // Whoever names certificates wants them to be looked at.
            return match ca_file {
                Some(_) => Err(no(&"certificates are given, but the URL is not rediss://")),
                None => Ok(Target { client: plain, tls: None }),
            };
        }
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| no(&error))?;
        let Some(path) = ca_file else {
            let config = config.with_platform_verifier().map_err(|error| no(&error))?;
            return Ok(Target { client: plain, tls: Some(Arc::new(config.with_no_client_auth())) });
        };
        let read = std::fs::read(path).map_err(|error| no(&format!("{}: {error}", path.display())))?;
        let mut trusted = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&read) {
            let added = certificate.map_err(|error| error.to_string());
            let added = added.and_then(|certificate| trusted.add(certificate).map_err(|error| error.to_string()));
            added.map_err(|error| no(&format!("{}: {error}", path.display())))?;
        }
        let config = config.with_root_certificates(trusted).with_no_client_auth();
        let given = redis::TlsCertificates { client_tls: None, root_cert: Some(read) };
        let client = Client::build_with_tls(url, given).map_err(|error| no(&crate::error::said(&error)))?;
        Ok(Target { client, tls: Some(Arc::new(config)) })
    }

    /// What the connection that listens is made of.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) async fn connect(&self) -> Result<Wire, RedisError> {
        let info = self.client.get_connection_info();
        let wire = match (info.addr(), &self.tls) {
            (ConnectionAddr::Tcp(host, port), None) => {
                let (reader, writer) = reach(host, *port).await?.into_split();
                Wire::new(reader, writer)
            }
            (ConnectionAddr::TcpTls { host, port, insecure: false, .. }, Some(tls)) => {
                let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
                let stream = reach(host, *port).await?;
                let stream = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await?;
                let (reader, writer) = tokio::io::split(stream);
                Wire::new(reader, writer)
            }
            _ => {
                let only = "only redis://HOST:PORT and rediss://HOST:PORT with its certificate checked can be had";
                return Err(RedisError::from((ErrorKind::InvalidClientConfig, only)));
            }
        };
        let settings = info.redis_settings();
        let mut hello = redis::pipe();
        match (settings.username(), settings.password()) {
            (Some(user), Some(password)) => _ = hello.cmd("AUTH").arg(user).arg(password),
            (None, Some(password)) => _ = hello.cmd("AUTH").arg(password),
            (_, None) => {}
        }
        if settings.db() != 0 {
            hello.cmd("SELECT").arg(settings.db());
        }
        let asked = hello.cmd_iter().count();
        if asked > 0 {
            let answers = wire.ask(hello.get_packed_pipeline(), asked).await?;
            answers.values()?.into_iter().try_for_each(|answer| Value::extract_error(answer).map(drop))?;
        }
        Ok(wire)
    }
}

async fn reach(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
