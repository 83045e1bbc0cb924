//! Metrics of the certificates, and of webhooks with a wrong caBundle or path, or the failurePolicy
//! Fail.

use super::{
    Registrar,
    labels::{Certificate, Level, Task},
};
use prometheus_client::metrics::gauge::Gauge;

/// Metrics of the certificates, and of the webhooks that have a wrong caBundle or path, or the
/// failurePolicy Fail.
#[derive(Debug)]
pub struct CertificateMetrics {
    expiration: Level<Certificate>,
    lifetime: Level<Certificate>,
    ca_mismatch: Gauge,
    path_mismatch: Gauge,
    fail_closed: Gauge,
    last_success: Level<Task>,
}

impl CertificateMetrics {
    pub(super) fn new(own: &mut Registrar<'_>) -> Self {
        Self {
            expiration: own.add_seconds(
                "certificate_expiration_timestamp",
                "When the served certificate, and the CA it is trusted by, expire, in seconds since 1970",
            ),
            lifetime: own.add_seconds(
                "certificate_lifetime",
                "Whole lifetime of the served certificate, and of the CA it is trusted by, from \
                 notBefore to notAfter, in seconds",
            ),
            ca_mismatch: own.add(
                "webhooks_ca_mismatch",
                "Webhooks of the running components whose caBundle does not fit the served certificate",
            ),
            path_mismatch: own.add(
                "webhooks_path_mismatch",
                "Webhooks of the running components whose path Volume Warden does not accept, so that \
                 their reviews are answered with 404",
            ),
            fail_closed: own.add(
                "webhooks_fail_closed",
                "Webhooks of the running components with the failurePolicy Fail, which shows their \
                 secret path to users when a call fails",
            ),
            last_success: own.add_seconds(
                "webhooks_last_success_timestamp",
                "Unix time at which this replica last read the webhook configurations, and wrote \
                 what was missing, without an error, by task. The other metrics of webhooks are of \
                 that time: the task CABundle sets webhooks_ca_mismatch, and the task Path sets \
                 webhooks_path_mismatch and webhooks_fail_closed",
            ),
        }
    }

    /// Sets when a certificate expires, in seconds since 1970, and its lifetime in seconds. Without
    /// `seconds` both are unknown, and their series are removed.
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

    /// Sets when a task last read and wrote the webhook configurations without an error, in seconds
    /// since 1970.
    pub fn succeeded(&self, task: &'static str, seconds: i64) {
        self.last_success.get_or_create(&Task { task }).set(seconds);
    }

    /// Sets the number of webhooks whose path Volume Warden does not accept.
    pub fn path_mismatch(&self, webhooks: usize) {
        let webhooks = i64::try_from(webhooks).unwrap_or(i64::MAX);
        self.path_mismatch.set(webhooks);
    }

    /// Sets the number of webhooks with the failurePolicy Fail.
    pub fn fail_closed(&self, webhooks: usize) {
        let webhooks = i64::try_from(webhooks).unwrap_or(i64::MAX);
        self.fail_closed.set(webhooks);
    }

    /// Sets the number of webhooks whose caBundle does not make the API server trust the served
    /// certificate.
    pub fn ca_mismatch(&self, webhooks: usize) {
        let webhooks = i64::try_from(webhooks).unwrap_or(i64::MAX);
        self.ca_mismatch.set(webhooks);
    }
}
