//! The one place that deletes in the backend.

use super::{GcMetrics, NAME, Options, Reason, metered::Metered, rule::is_young, waiting::Origin};
use crate::{
    backend::{Backend, Deletion, Failure, Listed, Sentence},
    clock::Clock,
    cluster::{Leadership, LiveGet},
    objects::{Kind, Namespace, ObjectName},
    telemetry::Metrics,
};
use kube::Client;
use std::{sync::Arc, time::Duration};
use tokio::sync::Semaphore;

/// For the last look at Kubernetes.
const LOOK: Duration = Duration::from_secs(4);
/// The action in the metrics.
const ACTION: &str = "DeleteFromBackend";

/// What became of a namespace that should go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// It is gone, by us.
    Deleted,
    /// The backend has none of that name.
    Absent,
    /// It stays: Kubernetes has it, or it never goes.
    Kept,
    /// It is a new one, or was changed a moment ago: a collection has to wait.
    TooYoung,
    /// It would be deleted, were this no dry run.
    Withheld,
    /// Nothing was done: this replica does not lead.
    NotLeading,
    /// It could not be removed, for this reason.
    Waits(Reason, Sentence),
}

impl Removal {
    /// For metrics and reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Deleted => "Deleted",
            Self::Absent => "Absent",
            Self::Kept => "Kept",
            Self::TooYoung => "TooYoung",
            Self::Withheld => "Withheld",
            Self::NotLeading => "NotLeading",
            Self::Waits(reason, _) => reason.name(),
        }
    }

    fn waits(reason: Reason, why: impl AsRef<str>) -> Self {
        Self::Waits(reason, Sentence::new(why))
    }
}

impl From<Failure> for Removal {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unauthorized(_, why) => Self::Waits(Reason::Unauthorized, why),
            Failure::Unavailable(_, why) => Self::Waits(Reason::Unavailable, why),
        }
    }
}

/// See the module.
pub struct Remover {
    /// Where namespaces are deleted.
    pub backend: Metered,
    /// Namespaces of Kubernetes, live.
    live: Arc<LiveGet<Namespace>>,
    pub(super) clock: Clock,
    /// Whether to. Nothing where somebody deletes by hand.
    leadership: Option<Leadership>,
    pub(super) options: Arc<Options>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) gc_metrics: Arc<GcMetrics>,
    /// One for each deletion under way.
    hands: Semaphore,
}

impl Remover {
    /// Deletes in that backend, as `options` say.
    pub fn new(
        client: &Client,
        backend: &Arc<dyn Backend>,
        options: &Arc<Options>,
        metrics: &Arc<Metrics>,
        clock: &Clock,
        leadership: Option<Leadership>,
    ) -> Self {
        let gc_metrics = Arc::new(GcMetrics::new(metrics));
        Self {
            backend: Metered::new(backend.clone(), gc_metrics.clone()),
            live: LiveGet::whole(metrics.clone(), client),
            clock: clock.clone(),
            leadership,
            options: options.clone(),
            metrics: metrics.clone(),
            gc_metrics,
            hands: Semaphore::new(options.workers),
        }
    }

    /// Removes the namespace of that name, if the backend has one. If it `waited`, it may be another one by now.
    ///
    /// The backend is asked first, Kubernetes after it: a namespace that is made in both in between is found in Kubernetes.
    pub async fn remove(&self, name: &ObjectName, origin: Origin, waited: bool) -> Removal {
        if self.options.protects(&name.name) {
            return Removal::Kept;
        }
        let mut removal = self.try_once(name, origin, waited).await;
        if is_stale(&removal) {
            // At once, and once: what changes all the time is left to its schedule.
            removal = self.try_once(name, origin, waited).await;
        }
        removal
    }

    async fn try_once(&self, name: &ObjectName, origin: Origin, waited: bool) -> Removal {
        let listing = match self.backend.list().await {
            Ok(listing) => listing,
            Err(failure) => return failure.into(),
        };
        let mut namespaces = listing.namespaces.iter();
        let Some(listed) = namespaces.find(|listed| *listed.name == *name.name) else {
            return Removal::Absent;
        };
        if waited && is_young(listed, self.clock.system_time(), &self.options) {
            return Removal::TooYoung;
        }
        self.remove_listed(listed, origin).await
    }

    /// Removes a namespace as it was listed, unless Kubernetes has one of that name.
    pub async fn remove_listed(&self, listed: &Listed, origin: Origin) -> Removal {
        let removal = self.delete(listed).await;
        let why = origin.name();
        self.metrics.work.acted(NAME, ACTION, why, removal.name());
        tracing::info!(
            component = NAME,
            kind = Kind::Namespace.plural(),
            object = listed.name,
            action = ACTION,
            reason = why,
            outcome = removal.name(),
            "action"
        );
        removal
    }

    async fn delete(&self, listed: &Listed) -> Removal {
        // The semaphore is never closed. Whoever has waited for it looks at Kubernetes afterwards.
        let _hand = self.hands.acquire().await;
        let name = ObjectName::new("", &*listed.name);
        match self.live.get(&name, LOOK).await {
            Ok(None) => {}
            Ok(Some(_)) => return Removal::Kept,
            Err(error) => {
                let why = format!("whether the namespace exists could not be read: {error}");
                return Removal::waits(Reason::Unconfirmed, why);
            }
        }
        if self.options.dry_run {
            return Removal::Withheld;
        }
        // Asked as late as can be.
        if !self.leadership.as_ref().is_none_or(Leadership::holds) {
            return Removal::NotLeading;
        }
        match self.backend.delete(listed).await {
            Ok(Deletion::Deleted) => Removal::Deleted,
            Ok(Deletion::NotFound) => Removal::Absent,
            Ok(Deletion::NotEmpty(why)) => Removal::Waits(Reason::NotEmpty, why),
            Ok(Deletion::Stale) => Removal::waits(
                Reason::Changing,
                "it changed between the list and the deletion",
            ),
            Err(failure) => failure.into(),
        }
    }
}

fn is_stale(removal: &Removal) -> bool {
    matches!(removal, Removal::Waits(Reason::Changing, _))
}
