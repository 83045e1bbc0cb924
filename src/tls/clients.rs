//! Who may call the webhooks: anybody, unless the API server is told to show a certificate.

use super::{
    Service,
    config::chain,
    mounted::{POLL, read},
};
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
use std::{path::PathBuf, sync::Arc};
use tokio_util::sync::CancellationToken;
use x509_parser::parse_x509_certificate;

/// Clients with a certificate of the CAs in a file.
#[derive(Clone, Debug)]
pub struct Clients {
    /// PEM.
    pub authorities: PathBuf,
    /// The common names that will do; any where this is empty.
    pub names: Vec<String>,
}

impl Clients {
    /// Lets nobody else in from now on.
    ///
    /// # Errors
    /// When the file is missing or its content does not do.
    pub async fn load(&self, service: &Service) -> anyhow::Result<()> {
        self.put(&read(&self.authorities).await?, service)
    }

    /// Looks for other content until `stop`. What does not do is told, and the old stays.
    pub async fn follow(self, service: Service, stop: CancellationToken) {
        let mut known = read(&self.authorities).await.ok();
        loop {
            tokio::select! { () = stop.cancelled() => return, () = tokio::time::sleep(POLL) => {} }
            let text = match read(&self.authorities).await {
                Ok(text) if Some(&text) == known.as_ref() => continue,
                text => text,
            };
            let put = text.and_then(|text| self.put(&text, &service).map(|()| text));
            match put {
                Ok(text) => {
                    tracing::info!(file = %self.authorities.display(), "CAs of clients reloaded");
                    known = Some(text);
                }
                Err(error) => tracing::error!(
                    error = format!("{error:#}"),
                    "the new CAs of clients do not do, the old ones are kept"
                ),
            }
        }
    }

    fn put(&self, authorities: &str, service: &Service) -> anyhow::Result<()> {
        let verifier = self
            .verifier(authorities)
            .with_context(|| format!("cannot use {}", self.authorities.display()))?;
        service.only_to(verifier)
    }

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
        }))
    }
}

/// A certificate of the right CA may still be somebody else's.
#[derive(Debug)]
struct Named {
    by_authority: Arc<dyn ClientCertVerifier>,
    names: Vec<String>,
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
        tracing::warn!(
            name,
            "a client was refused: it is none of --client-allowed-name"
        );
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
