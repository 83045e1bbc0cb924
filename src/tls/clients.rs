//! Verifies the client certificates of the webhook server if `--client-ca-file` is set. Then only
//! clients with an accepted certificate can connect, so the API server must be configured to
//! present one. Without the flag, any client can connect.

use super::{
    ServingCertificate,
    config::chain,
    files::{Source, read},
};
use crate::telemetry::LogLimiter;
use anyhow::Context;
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::ring,
    pki_types::{CertificateDer, UnixTime},
    server::{
        WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use x509_parser::parse_x509_certificate;

/// The clients that are accepted: those with a certificate that a CA in the file has signed, for
/// one of `names`.
#[derive(Clone, Debug)]
pub struct Clients {
    /// PEM file with the CAs that may have signed a client certificate.
    pub authorities: PathBuf,
    /// The accepted common names; empty accepts any.
    pub names: Vec<String>,
}

impl Source for Clients {
    type Content = String;

    const WHAT: &'static str = "CAs of clients";

    fn file(&self) -> &Path {
        &self.authorities
    }

    async fn read(&self) -> anyhow::Result<String> {
        read(&self.authorities).await
    }

    /// Accepts only clients with a certificate of these CAs from now on.
    fn put(&self, authorities: &String, serving: &ServingCertificate) -> anyhow::Result<()> {
        let verifier = self
            .verifier(authorities)
            .with_context(|| format!("cannot use {}", self.authorities.display()))?;
        serving.set_client_verifier(verifier)
    }
}

impl Clients {
    fn verifier(&self, authorities: &str) -> anyhow::Result<Arc<dyn ClientCertVerifier>> {
        let mut roots = RootCertStore::empty();
        for authority in chain(authorities)? {
            roots.add(authority)?;
        }
        let provider = Arc::new(ring::default_provider());
        let by_authority =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
        Ok(Arc::new(Named {
            by_authority,
            names: self.names.clone(),
            refused: LogLimiter::default(),
        }))
    }
}

/// Verifies the common name of a client certificate, too, if names are configured, because a CA may
/// also sign certificates of other clients.
#[derive(Debug)]
struct Named {
    by_authority: Arc<dyn ClientCertVerifier>,
    names: Vec<String>,
    refused: LogLimiter,
}

impl ClientCertVerifier for Named {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.by_authority.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self
            .by_authority
            .verify_client_cert(end_entity, intermediates, now)?;
        let name = common_name(end_entity);
        if self.names.is_empty() || name.as_ref().is_some_and(|name| self.names.contains(name)) {
            return Ok(verified);
        }
        if let Some(suppressed) = self.refused.check() {
            tracing::warn!(
                name,
                suppressed,
                "a TLS handshake was refused: the common name of the client certificate is not in \
                 --client-allowed-name"
            );
        }
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_authority.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_authority.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.by_authority.supported_verify_schemes()
    }
}

fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, parsed) = parse_x509_certificate(certificate).ok()?;
    let name = parsed.subject().iter_common_name().next()?;
    name.as_str().ok().map(str::to_owned)
}
