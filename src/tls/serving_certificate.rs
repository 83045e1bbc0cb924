//! The serving certificate: the TLS configuration of the server, and its state for probes and
//! metrics.

use super::{
    config::{Pair, Validity, server_config},
    trust::{Trust, trust},
};
use crate::clock::Clock;
use crate::{cluster::StoredConfiguration, listener::Certificate, telemetry::Metrics};
use parking_lot::Mutex;
use rustls::server::danger::ClientCertVerifier;
use std::sync::Arc;

/// The serving certificate of the process. Clones share their state.
#[derive(Clone)]
pub struct ServingCertificate {
    /// TLS configuration of the webhook server.
    pub certificate: Certificate,
    /// TLS configuration with the same certificate, for a server that requests no client
    /// certificates.
    pub certificate_for_all: Certificate,
    pub(super) clock: Clock,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    pair: Option<Pair>,
    clients: Option<Arc<dyn ClientCertVerifier>>,
    served: Option<Validity>,
    authority: Option<Validity>,
    /// Whether the webhooks trust the certificate; none until that was first checked.
    check: Option<TrustCheck>,
    /// When the webhook configurations were last read and written without an error, in seconds
    /// since 1970.
    succeeded: Option<i64>,
}

/// Whether the webhooks trust a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TrustCheck {
    /// A sentence for each webhook that does not trust the certificate.
    pub(super) mismatches: Vec<String>,
    /// The number of webhooks that were checked.
    pub(super) webhooks: usize,
}

impl TrustCheck {
    /// Returns whether webhooks were checked and none trusts the certificate, so that this replica
    /// is not ready. A single wrong configuration does not make it unready, because then the
    /// webhooks of all other configurations would be unavailable.
    fn is_untrusted_everywhere(&self) -> bool {
        self.webhooks > 0 && self.mismatches.len() == self.webhooks
    }
}

/// A certificate whose expiry is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CertificateRole {
    /// The certificate that the webhook server presents.
    Served,
    /// The CA by which the API server trusts the serving certificate.
    Authority,
}

impl CertificateRole {
    /// Returns the value of the metric label.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Served => "Served",
            Self::Authority => "Authority",
        }
    }
}

impl ServingCertificate {
    /// Creates the state of a process that has no certificate yet.
    pub fn new(metrics: &Metrics, clock: Clock) -> Self {
        let serving = Self {
            certificate: Certificate::default(),
            certificate_for_all: Certificate::default(),
            clock,
            state: Arc::default(),
        };
        let watched = serving.clone();
        metrics.before_scrape(move |metrics| {
            for (which, validity) in watched.watched() {
                let seconds = validity.map(|each| (each.until, each.until - each.from));
                metrics.certificate.validity(which.label(), seconds);
            }
            metrics.certificate.ca_mismatch(watched.ca_mismatch());
            let succeeded = watched.state.lock().succeeded;
            if let Some(seconds) = succeeded {
                metrics.certificate.succeeded("CABundle", seconds);
            }
        });
        serving
    }

    /// Puts a certificate into service.
    ///
    /// # Errors
    /// When the certificate or key cannot be used. The previous certificate stays in service.
    pub(super) fn put(&self, pair: &Pair) -> anyhow::Result<()> {
        let mut state = self.state.lock();
        let served = Validity::of(&pair.certificate)?;
        let config = server_config(pair, state.clients.clone(), &self.clock)?;
        let for_all = server_config(pair, None, &self.clock)?;
        self.certificate.store(Some(config));
        self.certificate_for_all.store(Some(for_all));
        state.served = Some(served);
        state.pair = Some(pair.clone());
        Ok(())
    }

    /// Makes the webhook server accept only clients that this verifier accepts, from now on.
    pub(super) fn set_client_verifier(
        &self,
        clients: Arc<dyn ClientCertVerifier>,
    ) -> anyhow::Result<()> {
        let mut state = self.state.lock();
        if let Some(pair) = &state.pair {
            let config = server_config(pair, Some(clients.clone()), &self.clock)?;
            self.certificate.store(Some(config));
        }
        state.clients = Some(clients);
        Ok(())
    }

    /// Checks which of the webhooks found would trust this certificate. Also returns the validity
    /// of the CA by which they trust it; if there are several, of the one that expires first. A
    /// webhook for which the check is undecided is not reported.
    pub(super) fn mismatches(
        &self,
        certificate: &str,
        found: &[StoredConfiguration],
    ) -> (TrustCheck, Option<Validity>) {
        let (now, mut authority) = (self.clock.now(), None::<Validity>);
        let mut check = TrustCheck::default();
        for (found, webhook) in found
            .iter()
            .flat_map(|found| found.webhooks().map(move |webhook| (found, webhook)))
        {
            check.webhooks += 1;
            match trust(certificate, &webhook.bundle(), Some(&found.host()), now) {
                Trust::Until(end) => {
                    authority = Some(authority.map_or(end, |known| known.min(end)));
                }
                Trust::Refused(why) => check.mismatches.push(format!(
                    "the API server will not trust the certificate for webhook {} of {}: {why}",
                    webhook.name,
                    found.configuration.name()
                )),
                Trust::Unknown(why) => {
                    tracing::debug!(
                        webhook = webhook.name,
                        why,
                        "cannot determine whether the caBundle of the webhook trusts the certificate"
                    );
                }
            }
        }
        (check, authority)
    }

    /// Checks whether the webhooks found trust the certificate in service, and keeps the result for
    /// the probes and metrics. Returns false if a webhook does not trust it, or if there is no
    /// certificate yet.
    pub(super) fn check_trust(&self, found: &[StoredConfiguration]) -> bool {
        let Some(pair) = self.state.lock().pair.clone() else {
            return false;
        };
        let (check, authority) = self.mismatches(&pair.certificate, found);
        let mut state = self.state.lock();
        let before = state.check.take().unwrap_or_default();
        if check.mismatches != before.mismatches {
            for mismatch in &check.mismatches {
                let ready = !check.is_untrusted_everywhere();
                tracing::warn!(
                    mismatch,
                    ready,
                    "the caBundle of a webhook does not trust the certificate"
                );
            }
            if check.mismatches.is_empty() {
                tracing::info!(
                    "no webhook configuration is known to distrust the certificate any \
                    more"
                );
            }
        }
        state.authority = authority;
        let well = check.mismatches.is_empty();
        state.check = Some(check);
        well
    }

    /// Records that the webhook configurations were read, and written where that was necessary,
    /// without an error.
    pub(super) fn record_success(&self) {
        self.state.lock().succeeded = Some(self.clock.now().unix_timestamp());
    }

    /// Returns why this replica is not ready, as far as the certificate is concerned; empty if it
    /// is ready.
    pub fn not_ready_reasons(&self) -> Vec<String> {
        let state = self.state.lock();
        if state.pair.is_none() {
            return vec!["this replica has no serving certificate yet".to_owned()];
        }
        match &state.check {
            None => vec![
                "the webhook configurations are not read yet, so it is unknown whether \
                they trust the certificate"
                    .to_owned(),
            ],
            Some(check) if check.is_untrusted_everywhere() => check.mismatches.clone(),
            Some(_) => Vec::new(),
        }
    }

    /// Returns the number of webhooks that did not trust the certificate in the last check.
    fn ca_mismatch(&self) -> usize {
        let state = self.state.lock();
        let check = state.check.as_ref();
        check.map_or(0, |check| check.mismatches.len())
    }

    /// Returns the certificates whose expiry is reported, as far as they are known.
    pub(super) fn watched(&self) -> [(CertificateRole, Option<Validity>); 2] {
        let state = self.state.lock();
        [
            (CertificateRole::Served, state.served),
            (CertificateRole::Authority, state.authority),
        ]
    }
}

#[cfg(test)]
mod tests;
