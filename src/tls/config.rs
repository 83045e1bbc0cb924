//! A server configuration out of PEM.

use anyhow::Context;
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use std::sync::Arc;

/// Certificate chain and key, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Pair {
    /// Leaf first.
    pub certificate: String,
    /// PKCS#8, SEC1 or PKCS#1.
    pub key: String,
}

/// A TLS server with that pair.
///
/// # Errors
/// When something does not parse, or the key is not the certificate's.
pub fn server_config(pair: &Pair) -> anyhow::Result<Arc<ServerConfig>> {
    let chain = CertificateDer::pem_slice_iter(pair.certificate.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .context("the certificate is not PEM")?;
    anyhow::ensure!(!chain.is_empty(), "there is no certificate in the PEM");
    let key =
        PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).context("the private key is not PEM")?;
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?;
    let mut config = builder
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .context("the certificate cannot be used with this key")?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// From when to when the leaf is valid, in seconds since 1970.
///
/// # Errors
/// When the certificate does not parse.
pub fn validity(certificate: &str) -> anyhow::Result<(i64, i64)> {
    let leaf = CertificateDer::from_pem_slice(certificate.as_bytes())
        .context("the certificate is not PEM")?;
    let (_, parsed) =
        x509_parser::parse_x509_certificate(&leaf).context("the certificate cannot be read")?;
    let validity = parsed.validity();
    Ok((
        validity.not_before.timestamp(),
        validity.not_after.timestamp(),
    ))
}
