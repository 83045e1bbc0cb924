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

/// A certificate chain and its private key, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Pair {
    /// The certificate chain, leaf first.
    pub certificate: String,
    /// The private key in PKCS#8, SEC1 or PKCS#1 form.
    pub key: String,
}

/// Creates the configuration of a TLS server that presents this pair. With `clients`, only clients
/// whose certificate is accepted may connect.
///
/// # Errors
/// When the PEM cannot be parsed, or the key does not match the certificate.
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
    // The API server speaks HTTP/1.1 to a Service. HTTP/2 would only let clients use more
    // resources.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // The server keeps no TLS sessions: unauthenticated clients must not use memory, and the client
    // certificate of a resumed session would not be verified again.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// Parses the certificates of a PEM text, in their order.
///
/// # Errors
/// When the text is not PEM or contains no certificate.
pub fn chain(certificates: &str) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let chain = CertificateDer::pem_slice_iter(certificates.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .context("the certificate is not PEM")?;
    anyhow::ensure!(!chain.is_empty(), "there is no certificate in the PEM");
    Ok(chain)
}

/// The period in which a certificate is valid, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Validity {
    /// The last second of the period. It is the first field, so that the greater value is the one
    /// that ends later.
    pub until: i64,
    /// The first second of the period.
    pub from: i64,
}

impl Validity {
    /// Returns the validity of the first certificate in a PEM text.
    ///
    /// # Errors
    /// When the certificate cannot be parsed.
    pub fn of(certificate: &str) -> anyhow::Result<Self> {
        let leaf = CertificateDer::from_pem_slice(certificate.as_bytes())
            .context("the certificate is not PEM")?;
        Self::of_der(&leaf)
    }

    /// Returns the validity of a certificate in DER form.
    ///
    /// # Errors
    /// When the certificate cannot be parsed.
    pub fn of_der(certificate: &[u8]) -> anyhow::Result<Self> {
        let (_, parsed) = x509_parser::parse_x509_certificate(certificate)
            .context("the certificate cannot be read")?;
        let validity = parsed.validity();
        Ok(Self {
            from: validity.not_before.timestamp(),
            until: validity.not_after.timestamp(),
        })
    }

    /// Returns whether the certificate is valid at the time `now`.
    pub fn covers(self, now: OffsetDateTime) -> bool {
        (self.from..=self.until).contains(&now.unix_timestamp())
    }

    /// Returns when a self-signed certificate was created. Its validity begins five minutes
    /// earlier, or a tenth of its lifetime if that is shorter.
    pub fn made(self) -> i64 {
        self.from + ((self.until - self.from) / 11).min(300)
    }

    /// Returns when the certificate should be renewed: after two thirds of its lifetime.
    pub fn due(self) -> i64 {
        self.from + (self.until - self.from) / 3 * 2
    }
}
