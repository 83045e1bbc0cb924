//! Deletes namespaces in the storage backend. No other code does.

use super::{
    GcMetrics, NAME, Options, Reason,
    metered::MeteredBackend,
    retry::{RecordCheck, Retry},
    rule::is_young,
    waiting::Origin,
};
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

/// Maximum duration of the live read of a Kubernetes namespace immediately before its deletion in
/// the backend.
const READ_BUDGET: Duration = Duration::from_secs(4);
/// The name of the action in metrics and logs.
const ACTION: &str = "DeleteFromBackend";

/// The result of removing a namespace from the backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Volume Warden deleted the namespace in the backend.
    Deleted,
    /// The backend has no namespace of that name.
    Absent,
    /// The namespace is kept: Kubernetes has it, it is protected, or the record has lost its name.
    Kept,
    /// The namespace was created or changed within the grace period.
    TooYoung,
    /// The namespace would be deleted, but this is a dry run.
    Withheld,
    /// The namespace was not deleted, because this replica does not lead.
    NotLeading,
    /// The namespace could not be removed, for this reason.
    Waits(Reason, Sentence),
}

impl Removal {
    /// The name of the result in metrics and reports.
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

/// Deletes namespaces in the backend after a live read of Kubernetes.
pub struct Remover {
    /// The storage backend, whose calls are counted.
    pub backend: MeteredBackend,
    live: Arc<LiveGet<Namespace>>,
    pub(super) clock: Clock,
    /// The leadership of this replica; none for `volume-warden gc`, which holds no Lease.
    leadership: Option<Leadership>,
    pub(super) options: Arc<Options>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) gc_metrics: Arc<GcMetrics>,
    /// Limits the number of concurrent deletions in the backend.
    workers: Semaphore,
}

impl Remover {
    /// Creates a remover that, with `leadership`, deletes only while this replica leads.
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
            backend: MeteredBackend::new(backend.clone(), gc_metrics.clone()),
            live: LiveGet::new(metrics.clone(), client),
            clock: clock.clone(),
            leadership,
            options: options.clone(),
            metrics: metrics.clone(),
            gc_metrics,
            workers: Semaphore::new(options.workers),
        }
    }

    /// Whether this replica may delete namespaces at this moment.
    pub fn leads(&self) -> bool {
        self.leadership.as_ref().is_none_or(Leadership::holds)
    }

    /// Removes the namespace with this name, if the backend has one. On a retry the namespace may
    /// be a new one of that name, so the grace period and the record apply.
    ///
    /// Lists the backend before it reads Kubernetes: a namespace that is created in both meanwhile
    /// is found in Kubernetes.
    pub async fn remove(
        &self,
        name: &ObjectName,
        origin: Origin,
        retry: Option<&Retry<'_>>,
    ) -> Removal {
        if self.options.protects(&name.name) {
            return Removal::Kept;
        }
        let mut removal = self.try_once(name, origin, retry).await;
        if removal.as_ref().is_some_and(is_stale) {
            // The removal is retried once immediately. A namespace that keeps changing is retried
            // on its schedule.
            removal = self.try_once(name, origin, retry).await;
        }
        match removal {
            None => Removal::Absent,
            Some(Removal::Absent) => Removal::waits(
                Reason::Changing,
                "the storage backend lists the namespace, but does not find it when it is to be deleted",
            ),
            Some(removal) => removal,
        }
    }

    /// Removes the namespace if the backend lists it; none if it does not.
    async fn try_once(
        &self,
        name: &ObjectName,
        origin: Origin,
        retry: Option<&Retry<'_>>,
    ) -> Option<Removal> {
        let listing = match self.backend.list().await {
            Ok(listing) => listing,
            Err(failure) => return Some(failure.into()),
        };
        let mut namespaces = listing.namespaces.iter();
        let listed = namespaces.find(|listed| *listed.name == *name.name)?;
        if let Some(retry) = retry
            && is_young(listed, self.clock.system_time(), &self.options)
        {
            // It may stay young for long, and its name may leave the record meanwhile.
            return Some(match retry.record(name).await {
                RecordCheck::Lost => Removal::Kept,
                RecordCheck::Permits | RecordCheck::Unreadable(_) => Removal::TooYoung,
            });
        }
        Some(self.remove_listed(listed, origin, retry).await)
    }

    /// Removes a namespace as it was listed, unless Kubernetes has a namespace of that name.
    pub async fn remove_listed(
        &self,
        listed: &Listed,
        origin: Origin,
        retry: Option<&Retry<'_>>,
    ) -> Removal {
        let removal = self.delete(listed, retry).await;
        let why = origin.name();
        let message = if self.options.dry_run {
            "would act"
        } else {
            "action"
        };
        self.metrics.work.acted(NAME, ACTION, why, removal.name());
        tracing::info!(
            component = NAME,
            kind = Kind::Namespace.plural(),
            object = listed.name,
            action = ACTION,
            reason = why,
            outcome = removal.name(),
            "{message}"
        );
        removal
    }

    async fn delete(&self, listed: &Listed, retry: Option<&Retry<'_>>) -> Removal {
        // Acquiring a permit cannot fail, because the semaphore is never closed. The live reads
        // follow, so that they are recent.
        let _permit = self.workers.acquire().await;
        let name = ObjectName::cluster_scoped(&*listed.name);
        if let Some(retry) = retry {
            match retry.record(&name).await {
                RecordCheck::Permits => {}
                RecordCheck::Lost => return Removal::Kept,
                RecordCheck::Unreadable(why) => return Removal::waits(Reason::Unconfirmed, why),
            }
        }
        match self.live.get(&name, READ_BUDGET).await {
            Ok(None) => {}
            Ok(Some(_)) => return Removal::Kept,
            Err(error) => {
                let why = format!("the namespace could not be read from Kubernetes: {error}");
                return Removal::waits(Reason::Unconfirmed, why);
            }
        }
        if self.options.dry_run {
            return Removal::Withheld;
        }
        // The leadership is checked immediately before the deletion.
        if !self.leads() {
            return Removal::NotLeading;
        }
        match self.backend.delete(listed).await {
            Ok(Deletion::Deleted) => Removal::Deleted,
            Ok(Deletion::NotFound) => Removal::Absent,
            Ok(Deletion::NotEmpty(why)) => Removal::Waits(Reason::NotEmpty, why),
            Ok(Deletion::Stale) => Removal::waits(
                Reason::Changing,
                "the namespace changed between the list and the deletion",
            ),
            Err(failure) => failure.into(),
        }
    }
}

/// Whether the namespace is not as it was listed. That it is absent may be the answer of a proxy:
/// only a list shows it.
fn is_stale(removal: &Removal) -> bool {
    matches!(
        removal,
        Removal::Waits(Reason::Changing, _) | Removal::Absent
    )
}
