//! Certificates, and what the webhook configurations say.

use super::labels::Certificate;
use prometheus_client::{
    metrics::{family::Family, gauge::Gauge},
    registry::{Registry, Unit},
};

#[derive(Debug, Default)]
pub struct CertificateMetrics {
    expiration: Family<Certificate, Gauge>,
    lifetime: Family<Certificate, Gauge>,
    distrusting: Gauge,
    path_mismatch: Gauge,
}

impl CertificateMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "When the served certificate, and the CA it is trusted by, expire, in seconds since 1970";
        let expiration = self.expiration.clone();
        let name = "certificate_expiration_timestamp";
        registry.register_with_unit(name, help, Unit::Seconds, expiration);
        let help = "Lifetime of the certificates in seconds";
        let lifetime = self.lifetime.clone();
        registry.register_with_unit("certificate_lifetime", help, Unit::Seconds, lifetime);
        let help =
            "Webhooks of the running components whose caBundle does not fit the served certificate";
        registry.register("webhooks_ca_mismatch", help, self.distrusting.clone());
        let help = "Webhooks of the running components whose path another writer has set";
        registry.register("webhooks_path_mismatch", help, self.path_mismatch.clone());
    }
}

impl CertificateMetrics {
    /// Sets when a certificate expires, in seconds since 1970, and its lifetime in seconds, if they are known.
    pub fn validity(&self, certificate: &'static str, seconds: Option<(i64, i64)>) {
        let Self {
            expiration,
            lifetime,
            ..
        } = self;
        let certificate = Certificate { certificate };
        let Some((expires, whole)) = seconds else {
            expiration.remove(&certificate);
            lifetime.remove(&certificate);
            return;
        };
        expiration.get_or_create(&certificate).set(expires);
        lifetime.get_or_create(&certificate).set(whole);
    }

    /// So many webhooks carry a path that is not this installation's.
    pub fn path_mismatch(&self, webhooks: usize) {
        let webhooks = i64::try_from(webhooks).unwrap_or(i64::MAX);
        self.path_mismatch.set(webhooks);
    }

    /// So many webhooks do not trust the served certificate.
    pub fn distrusting(&self, webhooks: usize) {
        let webhooks = i64::try_from(webhooks).unwrap_or(i64::MAX);
        self.distrusting.set(webhooks);
    }
}
