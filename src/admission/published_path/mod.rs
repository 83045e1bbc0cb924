//! Manages the secret path of the webhooks: stores it in a Secret, accepts it, publishes it in the
//! webhook configurations and replaces it regularly.
//!
//! Each round reads the webhook configurations first and the Secret second, then accepts the paths,
//! and publishes last. So a replica that publishes a path knows the newest one, and accepts it
//! before the API server can use it. The path never appears in a log line.

mod publish;
mod repeat;
mod report;
mod secret;
mod state;

pub use state::Rotation;

use self::{
    publish::{Carried, carried, operations},
    repeat::repeat,
    report::Reported,
    secret::Store,
    state::{Observed, State},
};
use super::{PathSecret, SecretPaths};
use crate::{
    clock::Clock,
    cluster::{
        Configuration, Configurations, Pace, ServiceName, StoredConfiguration, for_log,
        is_forbidden,
    },
    telemetry::Metrics,
};
use futures::future::join_all;
use kube::{Api, Client};
use std::{
    collections::BTreeSet,
    slice,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The name of this task in the metrics.
const TASK: &str = "Path";

/// Settings of the publisher of the secret path.
pub struct Settings {
    /// Client of the API server on which the Secret and the webhook configurations are stored.
    pub client: Client,
    /// Name of the Secret that stores the path, in the namespace of the Service.
    pub secret: String,
    /// The Service that the webhooks call.
    pub service: ServiceName,
    /// The webhook configurations in which the path is published.
    pub configurations: Vec<Configuration>,
    /// How often the secret path is replaced.
    pub rotation: Rotation,
    /// Receives two numbers: of webhooks whose path is not Volume Warden's, and of webhooks with
    /// the failurePolicy Fail.
    pub metrics: Arc<Metrics>,
    /// The clock for the times in the Secret.
    pub clock: Clock,
}

/// Stores, publishes and replaces the secret path of the webhooks.
pub struct PathPublisher {
    store: Store,
    configurations: Configurations,
    rotation: Rotation,
    metrics: Arc<Metrics>,
    paths: SecretPaths,
    clock: Clock,
    /// The state that the Secret had last. It is written again if the Secret loses it; a deleted
    /// Secret is recreated only if RBAC permits that.
    known: Option<State>,
    /// The next path, and since when all rounds of this replica have found it in the Secret.
    next_seen: Option<(PathSecret, Instant)>,
    reported: Reported,
    /// The configurations in which RBAC forbade the last publication: an installation without the
    /// permissions of a component may have left its configuration behind.
    not_permitted: BTreeSet<Configuration>,
    ready: Arc<AtomicBool>,
}

impl PathPublisher {
    /// Creates a publisher that fills `paths` while [`Self::follow`] runs.
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
            reported: Reported::default(),
            not_permitted: BTreeSet::new(),
            ready: Arc::default(),
        }
    }

    /// Returns a check whether this replica is ready: it knows the path and has tried to publish
    /// it, or no webhook calls the Service. A failed publication does not make a replica unready,
    /// because then the webhooks that have the right path would be out of service, too.
    pub fn readiness(&self) -> impl Fn() -> bool + Send + Sync + 'static {
        let ready = self.ready.clone();
        move || ready.load(Ordering::Relaxed)
    }

    /// Stores, publishes and replaces the path until `stop`.
    pub async fn follow(mut self, stop: CancellationToken) {
        let mut pace = Pace::new(self.rotation.round());
        loop {
            let before = self.known.clone();
            let done = self.round().await;
            if let Err(error) = &done {
                let error = for_log(format_args!("{error:#}"));
                let secret = &self.store.name;
                tracing::warn!(
                    error,
                    secret,
                    "the secret path of the webhooks could not be read from the Secret, stored \
                     there or published in the webhook configurations; retrying"
                );
            }
            if self.known != before {
                pace.reset();
            }
            // The round after a publication reads the configurations again and records the
            // publication in the Secret. Until then, the pauses between rounds are short.
            let recorded = self.known.as_ref().is_some_and(|state| state.published);
            // The permission to read the configurations may not be in effect yet.
            let settled = done.is_ok_and(|has_webhooks| recorded || !has_webhooks)
                && !self.configurations.are_forbidden();
            let pause = pace.after(settled).min(self.rotation.round());
            tokio::select! { () = stop.cancelled() => return, () = tokio::time::sleep(pause) => {} }
        }
    }

    /// Runs one round and returns whether any webhook calls the Service. If this account may not
    /// read the webhook configurations, the round ends before it reads the Secret, and accepts no
    /// path.
    async fn round(&mut self) -> anyhow::Result<bool> {
        // If this round does not read the Secret, those of another replica may have failed, too:
        // it may not know the next path yet, so the time until its publication begins again.
        let next_seen = self.next_seen.take();
        let mut found = self.configurations.read().await?;
        if found.is_empty() {
            self.ready.store(true, Ordering::Relaxed);
        }
        if self.configurations.are_forbidden() {
            return Ok(false);
        }
        let (state, written) = self.share(&found, next_seen).await?;
        let carries = |carried| carries(&found, &state.current, carried);
        let unprefixed = !state.published && carries(Carried::Unprefixed);
        self.paths.accept(state.accepted(), unprefixed);
        self.reported
            .report(&found, &state.current, &self.metrics.certificate);
        let mismatched = |found: &[_]| report::mismatched(found, &state.current, &self.paths);
        let metrics = &self.metrics.certificate;
        if let Err(error) = written {
            metrics.path_mismatch(mismatched(&found));
            // Another replica may have stored a newer path, so this one is not published. Webhooks
            // that have it work.
            if carries(Carried::Current) {
                self.ready.store(true, Ordering::Relaxed);
            }
            return Err(error);
        }
        let client = self.configurations.client().clone();
        let writes = found
            .iter_mut()
            .map(|found| publish(&client, found, &state.current));
        let written = join_all(writes).await;
        let not_permitted = found.iter().zip(&written);
        let not_permitted = not_permitted.filter(|(_, written)| is_forbidden(written));
        self.not_permitted = not_permitted
            .map(|(found, _)| found.configuration)
            .collect();
        metrics.path_mismatch(mismatched(&found));
        self.ready.store(true, Ordering::Relaxed);
        written.into_iter().collect::<kube::Result<Vec<()>>>()?;
        metrics.succeeded(TASK, self.clock.timestamp().as_second());
        Ok(!found.is_empty())
    }

    /// Reads the state that the replicas share from the Secret, does the rotation step that is
    /// due, and writes the state to the Secret if it changed. If that fails, the result is the
    /// stored state, with the error of the write.
    async fn share(
        &mut self,
        found: &[StoredConfiguration],
        next_seen: Option<(PathSecret, Instant)>,
    ) -> anyhow::Result<(State, anyhow::Result<()>)> {
        let secret = self.store.read().await?;
        self.next_seen = next_seen;
        let stored = secret.as_ref().and_then(secret::decode);
        let state = match stored.as_ref().or(self.known.as_ref()) {
            Some(state) => {
                let observed = Observed {
                    now: self.clock.timestamp(),
                    next_known_for: next_known_for(&mut self.next_seen, state.next.as_ref()),
                    published: self.is_published(found, &state.current),
                    carries_previous: self.may_carry_previous(found, state),
                };
                state.renewed(self.rotation, observed)?
            }
            None => State::generate(self.clock.timestamp())?,
        };
        if stored.as_ref() != Some(&state) {
            if let Err(error) = self.store.write(secret, &state).await {
                let error = anyhow::Error::from(error);
                return match stored {
                    Some(stored) => Ok((stored, Err(error))),
                    None => Err(error),
                };
            }
            tracing::info!(
                secret = self.store.name,
                "the state of the secret webhook path is \
                stored in the Secret"
            );
        }
        // If this replica has just stored a next path, the time until its publication begins now.
        next_known_for(&mut self.next_seen, state.next.as_ref());
        self.known = Some(state.clone());
        Ok((state, Ok(())))
    }

    fn may_carry_previous(&self, found: &[StoredConfiguration], state: &State) -> bool {
        state.previous.as_ref().is_some_and(|(previous, _)| {
            self.configurations.are_incomplete() || carries(found, previous, Carried::Current)
        })
    }

    /// Returns whether the path is published, and every fixed path of version 0.1.0 is replaced
    /// that this account may replace. The other ones must not keep the fixed paths accepted: anyone
    /// can send reviews to those.
    fn is_published(&self, found: &[StoredConfiguration], current: &PathSecret) -> bool {
        let waits = |found: &StoredConfiguration| {
            !self.not_permitted.contains(&found.configuration)
                && carries(slice::from_ref(found), current, Carried::Unprefixed)
        };
        carries(found, current, Carried::Current) && !found.iter().any(waits)
    }
}

/// Returns how long this replica has known the stored next path; zero if there is none. It is
/// measured with the monotonic clock, because a wall clock can jump.
fn next_known_for(seen: &mut Option<(PathSecret, Instant)>, next: Option<&PathSecret>) -> Duration {
    let known = seen.take().filter(|(path, _)| Some(path) == next);
    *seen = known.or_else(|| next.map(|path| (path.clone(), Instant::now())));
    seen.as_ref()
        .map_or(Duration::ZERO, |(_, since)| since.elapsed())
}

fn carries(found: &[StoredConfiguration], current: &PathSecret, wanted: Carried) -> bool {
    let mut webhooks = found.iter().flat_map(StoredConfiguration::webhooks);
    webhooks.any(|webhook| carried(&webhook, current) == wanted)
}

/// Publishes the path in the configuration. The next round writes the configuration once more; see
/// [`mod@repeat`].
async fn publish(
    client: &Client,
    found: &mut StoredConfiguration,
    current: &PathSecret,
) -> kube::Result<()> {
    let operations = operations(found, current);
    if operations.is_empty() {
        return repeat(client, found).await;
    }
    Configurations::patch(client, found, operations).await?;
    let configuration = found.configuration.name();
    tracing::info!(configuration, "webhook path published");
    Ok(())
}

#[cfg(test)]
mod tests;
