//! Keeps the secret path of the webhooks: stores it, accepts it, publishes it in the webhook
//! configurations, replaces it.
//!
//! A round reads the configurations first and the Secret second, then accepts, and only then
//! publishes: so a replica that publishes knows the newest path, and accepts it before the API
//! server can use it. The path never appears in a log line.

mod publish;
mod secret;
mod state;

pub use state::Rotation;

use self::{
    publish::{Carried, carried, operations},
    secret::Store,
    state::{Observed, State},
};
use super::{PathSecret, SecretPaths};
use crate::{
    clock::Clock,
    cluster::{Configuration, Configurations, Found, Pace, ServiceName},
    telemetry::Metrics,
};
use futures::future::join_all;
use kube::{Api, Client};
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Where the path is stored and published.
pub struct Settings {
    /// The client.
    pub client: Client,
    /// Name of the Secret, in the Service's namespace.
    pub secret: String,
    /// The Service that the webhooks call.
    pub service: ServiceName,
    /// The configurations that get the path.
    pub configurations: Vec<Configuration>,
    /// How often the path is replaced.
    pub rotation: Rotation,
    /// The metrics of the process.
    pub metrics: Arc<Metrics>,
    /// For the times in the Secret.
    pub clock: Clock,
}

/// Keeps the secret path of the webhooks.
pub struct PathPublisher {
    store: Store,
    configurations: Configurations,
    rotation: Rotation,
    metrics: Arc<Metrics>,
    paths: SecretPaths,
    /// What the Secret held last. A Secret that is deleted or emptied gets it back.
    clock: Clock,
    known: Option<State>,
    /// When this replica first saw the stored next path.
    next_seen: Option<(PathSecret, Instant)>,
    /// Webhooks whose path another writer has set, as reported last.
    foreign: BTreeSet<String>,
    ready: Arc<AtomicBool>,
}

impl PathPublisher {
    /// Fills `paths`, once [`Self::follow`] runs.
    pub fn new(settings: Settings, paths: SecretPaths) -> Self {
        let (client, name) = (settings.client, settings.secret);
        let api = Api::namespaced(client.clone(), &settings.service.namespace);
        Self {
            store: Store { api, name },
            configurations: Configurations::new(client, settings.configurations, settings.service),
            rotation: settings.rotation,
            metrics: settings.metrics,
            paths,
            clock: settings.clock,
            known: None,
            next_seen: None,
            foreign: BTreeSet::new(),
            ready: Arc::default(),
        }
    }

    /// Whether the path is known here and its publication has been tried, or there is no webhook
    /// that calls the Service. A configuration that cannot be written does not keep a replica from
    /// being ready: it would take the webhooks of the others out of service.
    pub fn readiness(&self) -> impl Fn() -> bool + Send + Sync + 'static {
        let ready = self.ready.clone();
        move || ready.load(Ordering::Relaxed)
    }

    /// Keeps the path until `stop`.
    pub async fn follow(mut self, stop: CancellationToken) {
        let mut pace = Pace::new(self.rotation.round());
        loop {
            let before = self.known.clone();
            let done = self.round().await;
            if let Err(error) = &done {
                let (error, secret) = (self.redacted(error), &self.store.name);
                tracing::warn!(
                    error,
                    secret,
                    "the path of the webhooks is not published yet"
                );
            }
            if self.known != before {
                pace.reset();
            }
            // A publication is recorded by the round after it.
            let recorded = self.known.as_ref().is_some_and(|state| state.published);
            let settled = done.is_ok_and(|has_webhooks| recorded || !has_webhooks);
            let pause = pace.after(settled).min(self.rotation.round());
            tokio::select! { () = stop.cancelled() => return, () = tokio::time::sleep(pause) => {} }
        }
    }

    /// Returns whether any webhook was found. An account that may not read the configurations has
    /// no use for a path, and mostly no right to the Secret.
    async fn round(&mut self) -> anyhow::Result<bool> {
        let mut found = self.configurations.read().await?;
        if found.is_empty() {
            self.ready.store(true, Ordering::Relaxed);
        }
        if self.configurations.are_forbidden() {
            return Ok(false);
        }
        let state = self.share(&found).await?;
        let carries = |carried| carries(&found, &state.current, carried);
        let unprefixed = !state.published && carries(Carried::Unprefixed);
        self.paths.accept(state.accepted(), unprefixed);
        self.report(&found, &state.current);
        let client = self.configurations.client().clone();
        let writes = found
            .iter_mut()
            .map(|found| publish(&client, found, &state.current));
        let written: kube::Result<Vec<()>> = join_all(writes).await.into_iter().collect();
        self.ready.store(true, Ordering::Relaxed);
        written?;
        Ok(!found.is_empty())
    }

    /// What the replicas share: as stored, or after the step that is due.
    async fn share(&mut self, found: &[Found]) -> anyhow::Result<State> {
        let secret = self.store.read().await?;
        let stored = secret.as_ref().and_then(secret::decode);
        let state = match stored.as_ref().or(self.known.as_ref()) {
            Some(state) => {
                let observed = Observed {
                    now: self.clock.timestamp(),
                    next_known_for: next_known_for(&mut self.next_seen, state.next.as_ref()),
                    published: is_published(found, &state.current),
                };
                state.renewed(self.rotation, observed)?
            }
            None => State::generate(self.clock.timestamp())?,
        };
        if stored.as_ref() != Some(&state) {
            self.store.write(secret, &state).await?;
            tracing::info!(secret = self.store.name, "path of the webhooks stored");
        }
        // A path that was just stored is known from now on.
        next_known_for(&mut self.next_seen, state.next.as_ref());
        self.known = Some(state.clone());
        Ok(state)
    }

    /// Counts the webhooks whose path another writer has set, and logs each once.
    fn report(&mut self, found: &[Found], current: &PathSecret) {
        let foreign = found.iter().flat_map(|found| {
            let webhooks = found.webhooks();
            let foreign = webhooks.filter(|webhook| carried(webhook, current) == Carried::Foreign);
            foreign.map(|webhook| format!("{} of {}", webhook.name, found.configuration.name()))
        });
        let foreign: BTreeSet<_> = foreign.collect();
        for webhook in foreign.difference(&self.foreign) {
            tracing::warn!(
                webhook,
                "the path of this webhook is not Volume Warden's, so it is left unchanged; its reviews are answered with 404: \
                 remove clientConfig.service.path, and it is published"
            );
        }
        self.metrics.certificate.path_mismatch(foreign.len());
        self.foreign = foreign;
    }

    /// An API server's message may quote what it was sent.
    fn redacted(&self, error: &anyhow::Error) -> String {
        let known = self.known.iter().flat_map(State::accepted);
        known.fold(format!("{error:#}"), |text, secret| {
            text.replace(secret.expose(), "…")
        })
    }
}

/// How long this replica has known the stored next path. Its own monotonic clock says so: wall
/// clocks jump.
fn next_known_for(seen: &mut Option<(PathSecret, Instant)>, next: Option<&PathSecret>) -> Duration {
    let known = seen.take().filter(|(path, _)| Some(path) == next);
    *seen = known.or_else(|| next.map(|path| (path.clone(), Instant::now())));
    seen.as_ref()
        .map_or(Duration::ZERO, |(_, since)| since.elapsed())
}

fn carries(found: &[Found], current: &PathSecret, wanted: Carried) -> bool {
    let mut webhooks = found.iter().flat_map(Found::webhooks);
    webhooks.any(|webhook| carried(&webhook, current) == wanted)
}

fn is_published(found: &[Found], current: &PathSecret) -> bool {
    let carries = |wanted| carries(found, current, wanted);
    carries(Carried::Current) && !carries(Carried::Unprefixed)
}

async fn publish(client: &Client, found: &mut Found, current: &PathSecret) -> kube::Result<()> {
    let operations = operations(found, current);
    if operations.is_empty() {
        return Ok(());
    }
    Configurations::patch(client, found, operations).await?;
    let configuration = found.configuration.name();
    tracing::info!(configuration, "path published");
    Ok(())
}

#[cfg(test)]
mod tests;
