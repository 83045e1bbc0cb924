//! A private certificate authority.

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// A certificate authority.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, as PEM.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// The key, as PKCS#8.
    pub key: String,
}

impl Authority {
    /// Creates an authority.
    ///
    /// # Errors
    /// If the machine has no randomness.
    pub fn new() -> Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Ok(Self(CertifiedIssuer::self_signed(
            params,
            KeyPair::generate()?,
        )?))
    }

    /// The certificate of the authority, as PEM.
    pub fn certificate(&self) -> String {
        self.0.pem()
    }

    /// Issues a certificate for a server or a client with that name or address.
    ///
    /// # Errors
    /// If the name is invalid.
    pub fn issue(&self, name: &str) -> Result<Pair> {
        let mut params = CertificateParams::new([name.to_owned()])?;
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.0)?;
        Ok(Pair {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}

/// The TLS configuration of a server with this certificate. If `clients` is set, clients need a
/// certificate of this CA.
pub(crate) fn acceptor(pair: &Pair, clients: Option<&str>) -> Result<TlsAcceptor> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?;
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(pem) => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(pem.as_bytes())?)?;
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let chain = vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes())?];
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes())?;
    let config = builder
        .with_single_cert(chain, key)
        .context("the certificate cannot be used")?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
