//! The certificate in service: what the server shows, what the probes and metrics tell of it.

use super::{
    Clock,
    ca_bundle::Found,
    config::{Pair, Validity, server_config},
    trust::{Trust, trust},
};
use crate::{admission::Certificate, telemetry::Metrics};
use rustls::server::danger::ClientCertVerifier;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// See the module. One per process; clones share everything.
#[derive(Clone)]
pub struct Service {
    /// For the server.
    pub certificate: Certificate,
    pub(super) clock: Clock,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    pair: Option<Pair>,
    clients: Option<Arc<dyn ClientCertVerifier>>,
    served: Option<Validity>,
    authority: Option<Validity>,
    /// Sentences that say which webhooks will not trust what is served.
    doubts: Vec<String>,
    /// Whether that has been looked at.
    judged: bool,
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
            clock,
            state: Arc::default(),
        };
        let watched = service.clone();
        metrics.before_scrape(move |metrics| {
            let now = watched.clock.now().unix_timestamp();
            for (which, validity) in watched.watched() {
                let left = validity.map(|validity| validity.until - now);
                metrics.certificate_expiry(which.label(), left);
            }
        });
        service
    }

    /// Puts the pair into service.
    ///
    /// # Errors
    /// When it does not do. What was in service stays.
    pub(super) fn put(&self, pair: &Pair) -> anyhow::Result<()> {
        let mut state = self.lock();
        let served = Validity::of(&pair.certificate)?;
        let config = server_config(pair, state.clients.clone(), &self.clock)?;
        self.certificate.store(Some(config));
        state.served = Some(served);
        state.pair = Some(pair.clone());
        Ok(())
    }

    /// Talks from now on to those clients only.
    pub(super) fn only_to(&self, clients: Arc<dyn ClientCertVerifier>) -> anyhow::Result<()> {
        let mut state = self.lock();
        if let Some(pair) = &state.pair {
            let config = server_config(pair, Some(clients.clone()), &self.clock)?;
            self.certificate.store(Some(config));
        }
        state.clients = Some(clients);
        Ok(())
    }

    /// Which webhooks of what was found would not trust this certificate, each in a sentence; and of the CAs by which the others do
    /// the one that ends first.
    pub(super) fn doubts(
        &self,
        certificate: &str,
        found: &[Found],
    ) -> (Vec<String>, Option<Validity>) {
        let (now, mut doubts, mut authority) = (self.clock.now(), Vec::new(), None::<Validity>);
        for (configuration, called) in found
            .iter()
            .flat_map(|found| found.called().map(|called| (found.configuration, called)))
        {
            let host = called.host.as_deref();
            match trust(certificate, &called.bundle, host, now) {
                Trust::Until(end) => {
                    authority = Some(authority.map_or(end, |known| known.min(end)));
                }
                Trust::Refused(why) => doubts.push(format!(
                    "the API server will not trust the certificate for webhook {} of {}: {why}",
                    called.webhook,
                    configuration.name()
                )),
                Trust::Unknown(why) => {
                    tracing::debug!(webhook = called.webhook, why, "trust cannot be judged");
                }
            }
        }
        (doubts, authority)
    }

    /// Judges what is in service by what was found, for the probes. Returns whether all is well.
    pub(super) fn judge(&self, found: &[Found]) -> bool {
        let Some(pair) = self.lock().pair.clone() else {
            return false;
        };
        let (doubts, authority) = self.doubts(&pair.certificate, found);
        let mut state = self.lock();
        if doubts != state.doubts {
            for doubt in &doubts {
                tracing::warn!(doubt, "not ready");
            }
            if doubts.is_empty() {
                tracing::info!("every webhook configuration trusts the certificate");
            }
        }
        state.judged = true;
        state.authority = authority;
        state.doubts = doubts;
        state.doubts.is_empty()
    }

    /// What keeps this replica from being ready.
    pub fn missing(&self) -> Vec<String> {
        let state = self.lock();
        if state.pair.is_none() {
            return vec!["there is no certificate yet".to_owned()];
        }
        if !state.judged {
            return vec!["the webhook configurations are not read yet".to_owned()];
        }
        state.doubts.clone()
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
