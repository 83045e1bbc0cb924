//! TLS server configurations from PEM.

use crate::clock::Clock;
use anyhow::Context;
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{NoClientAuth, NoServerSessionStorage, danger::ClientCertVerifier},
};
use std::sync::Arc;
use time::OffsetDateTime;

/// Certificate chain and key, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Pair {
    /// Leaf first.
    pub certificate: String,
    /// PKCS#8, SEC1 or PKCS#1.
    pub key: String,
}

/// A TLS server with that pair. With `clients`, only these clients are accepted.
///
/// # Errors
/// When the PEM does not parse, or the key does not match the certificate.
pub fn server_config(
    pair: &Pair,
    clients: Option<Arc<dyn ClientCertVerifier>>,
    clock: &Clock,
) -> anyhow::Result<Arc<ServerConfig>> {
    let chain = chain(&pair.certificate)?;
    let key =
        PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).context("the private key is not PEM")?;
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_details(provider, Arc::new(clock.clone()))
        .with_safe_default_protocol_versions()?;
    let mut config = builder
        .with_client_cert_verifier(clients.unwrap_or_else(|| Arc::new(NoClientAuth)))
        .with_single_cert(chain, key)
        .context("the certificate cannot be used with this key")?;
    // The API server speaks HTTP/1.1 to a Service. HTTP/2 would only give clients more to hold.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // Nothing is kept for clients that have shown nothing. And a resumed session would not be
    // checked again for its client certificate.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// The certificates of a PEM text, leaf first.
///
/// # Errors
/// When it is no PEM, or there is none in it.
pub fn chain(certificates: &str) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let chain = CertificateDer::pem_slice_iter(certificates.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .context("the certificate is not PEM")?;
    anyhow::ensure!(!chain.is_empty(), "there is no certificate in the PEM");
    Ok(chain)
}

/// From when to when a certificate is valid, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Validity {
    /// The last of both, so that the one that lasts longer is the greater.
    pub until: i64,
    /// The first.
    pub from: i64,
}

impl Validity {
    /// Of the first certificate in a PEM text.
    ///
    /// # Errors
    /// When it does not parse.
    pub fn of(certificate: &str) -> anyhow::Result<Self> {
        let leaf = CertificateDer::from_pem_slice(certificate.as_bytes())
            .context("the certificate is not PEM")?;
        Self::of_der(&leaf)
    }

    /// Of a certificate.
    ///
    /// # Errors
    /// When it does not parse.
    pub fn of_der(certificate: &[u8]) -> anyhow::Result<Self> {
        let (_, parsed) = x509_parser::parse_x509_certificate(certificate)
            .context("the certificate cannot be read")?;
        let validity = parsed.validity();
        Ok(Self {
            from: validity.not_before.timestamp(),
            until: validity.not_after.timestamp(),
        })
    }

    /// Whether it is valid then.
    pub fn covers(self, now: OffsetDateTime) -> bool {
        (self.from..=self.until).contains(&now.unix_timestamp())
    }

    /// Time of creation of a self-signed certificate: its validity begins five minutes earlier, or
    /// a tenth of its lifetime.
    pub fn made(self) -> i64 {
        self.from + ((self.until - self.from) / 11).min(300)
    }

    /// When two thirds of it are over.
    pub fn due(self) -> i64 {
        self.from + (self.until - self.from) / 3 * 2
    }
}
