//! The certificate in service: what the server presents, and what probes and metrics report about
//! it.

use super::{
    config::{Pair, Validity, server_config},
    trust::{Trust, trust},
};
use crate::clock::Clock;
use crate::{cluster::Found, listener::Certificate, telemetry::Metrics};
use rustls::server::danger::ClientCertVerifier;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The certificate in service. One per process; clones share their state.
#[derive(Clone)]
pub struct Service {
    /// For the server.
    pub certificate: Certificate,
    /// The same, for a server that asks its clients for no certificate.
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
    /// Nothing until the webhooks have been looked at.
    judgement: Option<Judgement>,
}

/// What the API server makes of a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Judgement {
    /// Sentences that say which webhooks will not trust it.
    pub(super) doubts: Vec<String>,
    /// How many there are in all.
    pub(super) webhooks: usize,
}

impl Judgement {
    /// Whether no webhook configuration trusts the certificate. One wrong configuration is no
    /// reason to make the webhooks of the others unavailable in all replicas.
    fn is_useless(&self) -> bool {
        self.webhooks > 0 && self.doubts.len() == self.webhooks
    }
}

/// A certificate whose end is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Watched {
    /// What the server shows.
    Served,
    /// The CA that clients trust it by.
    Authority,
}

impl Watched {
    /// As in the metric.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Served => "Served",
            Self::Authority => "Authority",
        }
    }
}

impl Service {
    /// Nothing is in service yet.
    pub fn new(metrics: &Metrics, clock: Clock) -> Self {
        let service = Self {
            certificate: Certificate::default(),
            certificate_for_all: Certificate::default(),
            clock,
            state: Arc::default(),
        };
        let watched = service.clone();
        metrics.before_scrape(move |metrics| {
            for (which, validity) in watched.watched() {
                let seconds = validity.map(|each| (each.until, each.until - each.from));
                metrics.certificate.validity(which.label(), seconds);
            }
            metrics.certificate.distrusting(watched.distrusting());
        });
        service
    }

    /// Puts the pair into service.
    ///
    /// # Errors
    /// When the pair cannot be used. The previous pair stays in service.
    pub(super) fn put(&self, pair: &Pair) -> anyhow::Result<()> {
        let mut state = self.lock();
        let served = Validity::of(&pair.certificate)?;
        let config = server_config(pair, state.clients.clone(), &self.clock)?;
        let for_all = server_config(pair, None, &self.clock)?;
        self.certificate.store(Some(config));
        self.certificate_for_all.store(Some(for_all));
        state.served = Some(served);
        state.pair = Some(pair.clone());
        Ok(())
    }

    /// Accepts only these clients from now on.
    pub(super) fn only_to(&self, clients: Arc<dyn ClientCertVerifier>) -> anyhow::Result<()> {
        let mut state = self.lock();
        if let Some(pair) = &state.pair {
            let config = server_config(pair, Some(clients.clone()), &self.clock)?;
            self.certificate.store(Some(config));
        }
        state.clients = Some(clients);
        Ok(())
    }

    /// Which webhooks of what was found would not trust this certificate; and of the CAs by which
    /// the others do the one that ends first.
    pub(super) fn doubts(
        &self,
        certificate: &str,
        found: &[Found],
    ) -> (Judgement, Option<Validity>) {
        let (now, mut authority) = (self.clock.now(), None::<Validity>);
        let mut judgement = Judgement::default();
        for (found, webhook) in found
            .iter()
            .flat_map(|found| found.webhooks().map(move |webhook| (found, webhook)))
        {
            judgement.webhooks += 1;
            match trust(certificate, &webhook.bundle(), Some(&found.host()), now) {
                Trust::Until(end) => {
                    authority = Some(authority.map_or(end, |known| known.min(end)));
                }
                Trust::Refused(why) => judgement.doubts.push(format!(
                    "the API server will not trust the certificate for webhook {} of {}: {why}",
                    webhook.name,
                    found.configuration.name()
                )),
                Trust::Unknown(why) => {
                    tracing::debug!(webhook = webhook.name, why, "trust cannot be judged");
                }
            }
        }
        (judgement, authority)
    }

    /// Judges the certificate in service against the configurations found, for the probes. Returns
    /// whether all webhooks trust it.
    pub(super) fn judge(&self, found: &[Found]) -> bool {
        let Some(pair) = self.lock().pair.clone() else {
            return false;
        };
        let (judgement, authority) = self.doubts(&pair.certificate, found);
        let mut state = self.lock();
        let before = state.judgement.take().unwrap_or_default();
        if judgement.doubts != before.doubts {
            for doubt in &judgement.doubts {
                let ready = !judgement.is_useless();
                tracing::warn!(doubt, ready, "a webhook does not trust the certificate");
            }
            if judgement.doubts.is_empty() {
                tracing::info!("every webhook configuration trusts the certificate");
            }
        }
        state.authority = authority;
        let well = judgement.doubts.is_empty();
        state.judgement = Some(judgement);
        well
    }

    /// What keeps this replica from being ready.
    pub fn missing(&self) -> Vec<String> {
        let state = self.lock();
        if state.pair.is_none() {
            return vec!["there is no certificate yet".to_owned()];
        }
        match &state.judgement {
            None => vec!["the webhook configurations are not read yet".to_owned()],
            Some(judgement) if judgement.is_useless() => judgement.doubts.clone(),
            Some(_) => Vec::new(),
        }
    }

    /// How many webhooks do not trust what is served, as was seen last.
    fn distrusting(&self) -> usize {
        let state = self.lock();
        let judgement = state.judgement.as_ref();
        judgement.map_or(0, |judgement| judgement.doubts.len())
    }

    /// Certificates whose end is watched, as far as they are known.
    pub(super) fn watched(&self) -> [(Watched, Option<Validity>); 2] {
        let state = self.lock();
        [
            (Watched::Served, state.served),
            (Watched::Authority, state.authority),
        ]
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
