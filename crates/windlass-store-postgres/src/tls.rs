//! TLS to the server, as libpq's `sslmode` and `sslrootcert` ask for it: rustls over aws-lc-rs. tokio-postgres knows
//! three of the modes and no certificates, so both are taken out of the URL here.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use percent_encoding::percent_decode_str;
use rustls_platform_verifier::Verifier;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use crate::error::OpenError;

/// A server, and how it is spoken to.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) config: Config,
    pub(crate) tls: Tls,
}

/// What must hold for the server's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    /// Nothing: only listeners are kept out.
    Nothing,
    /// Somebody who is trusted has signed it.
    Signed,
    /// And it is for the host of the URL.
    Host,
}

impl Target {
    /// Reads a URL. No error repeats any of it, because it may hold a password.
    pub(crate) fn of(url: &str) -> Result<Target, OpenError> {
        let (plain, mode, root) = split(url)?;
        let (ssl_mode, check) = match mode.as_deref() {
            Some("disable") => (SslMode::Disable, Check::Nothing),
            None | Some("prefer") => (SslMode::Prefer, Check::Nothing),
            // As libpq has it: whoever names a certificate wants it to be looked at.
            Some("require") if root.is_none() => (SslMode::Require, Check::Nothing),
            Some("require" | "verify-ca") => (SslMode::Require, Check::Signed),
            Some("verify-full") => (SslMode::Require, Check::Host),
            Some(_) => {
                let known = "sslmode is disable, prefer, require, verify-ca or verify-full";
                return Err(OpenError::Tls(known.to_owned()));
            }
        };
        let mut config: Config = plain.parse().map_err(|_| OpenError::BadUrl)?;
        config.ssl_mode(ssl_mode);
        Ok(Target { config, tls: Tls::new(check, root)? })
    }
}

/// The URL without `sslmode` and `sslrootcert`, and those.
fn split(url: &str) -> Result<(String, Option<String>, Option<PathBuf>), OpenError> {
    let Some((base, query)) = url.split_once('?') else { return Ok((url.to_owned(), None, None)) };
    let (mut mode, mut root, mut rest) = (None, None, Vec::new());
    for pair in query.split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = percent_decode_str(value).decode_utf8().map_err(|_| OpenError::BadUrl);
        match key {
            "sslmode" => mode = Some(value?.into_owned()),
            "sslrootcert" => root = Some(value?.into_owned()).filter(|root| root != "system").map(PathBuf::from),
            _ => rest.push(pair),
        }
    }
    let plain = if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
    Ok((plain, mode, root))
}

/// Makes connections secret, and sees to it that they lead to the right place.
#[derive(Clone)]
pub(crate) struct Tls(Arc<ClientConfig>);

impl Tls {
    fn new(check: Check, root: Option<PathBuf>) -> Result<Tls, OpenError> {
        let no = |why: &dyn std::fmt::Display| OpenError::Tls(why.to_string());
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = verifier(check, root, &provider)?;
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| no(&error))?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        Ok(Tls(Arc::new(config)))
    }
}

fn verifier(
    check: Check,
    root: Option<PathBuf>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, OpenError> {
    let no = |why: &dyn std::fmt::Display| OpenError::Tls(why.to_string());
    let whole: Arc<dyn ServerCertVerifier> = match (check, root) {
        (Check::Nothing, _) => return Ok(Arc::new(Lenient { whole: None, provider: Arc::clone(provider) })),
        (_, None) => Arc::new(Verifier::new(Arc::clone(provider)).map_err(|error| no(&error))?),
        (_, Some(path)) => {
            let bad = |why: &dyn std::fmt::Display| no(&format!("the certificates in {}: {why}", path.display()));
            let mut roots = RootCertStore::empty();
            for root in CertificateDer::pem_file_iter(&path).map_err(|error| bad(&error))? {
                roots.add(root.map_err(|error| bad(&error))?).map_err(|error| bad(&error))?;
            }
            let built = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider)).build();
            built.map_err(|error| bad(&error))?
        }
    };
    Ok(match check {
        Check::Host => whole,
        _ => Arc::new(Lenient { whole: Some(whole), provider: Arc::clone(provider) }),
    })
}

/// Looks at less than the whole of a certificate: who signed it but not for whom, or nothing. That the server has its
/// key is always seen.
#[derive(Debug)]
struct Lenient {
    whole: Option<Arc<dyn ServerCertVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        use CertificateError::{NotValidForName, NotValidForNameContext};
        let Some(whole) = &self.whole else { return Ok(ServerCertVerified::assertion()) };
        match whole.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. })) => {
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        tokio_rustls::rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        tokio_rustls::rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Tls {
    type Stream = Secret<S>;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, domain: &str) -> Result<Handshake, io::Error> {
        // A socket in the file system has no name, and nobody asks for a handshake on it.
        Ok(Handshake { tls: self.clone(), name: ServerName::try_from(domain.to_owned()).ok() })
    }
}

/// One handshake to be.
pub(crate) struct Handshake {
    tls: Tls,
    name: Option<ServerName<'static>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for Handshake {
    type Stream = Secret<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Secret<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let name = self.name.ok_or_else(|| io::Error::other("the server's host is no name for a certificate"))?;
            TlsConnector::from(self.tls.0).connect(name, stream).await.map(Secret)
        })
    }
}

/// A connection that nobody else reads.
pub(crate) struct Secret<S>(tokio_rustls::client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Secret<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Secret<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Secret<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
