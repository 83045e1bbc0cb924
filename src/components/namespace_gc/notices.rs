//! Log lines and Events about namespaces of the storage backend. The Events are on Volume Warden's
//! Lease.

use super::{
    reason::Reason,
    reasons::{CAPPED, DELETED},
};
use crate::{
    backend::Sentence,
    cluster::{Announcement, Apply, LeaseName, LeaseObject},
};
use kube::Client;
use std::sync::Arc;

/// The `action` field of the Events.
const ACTION: &str = "DeleteFromBackend";

/// Publishes log lines and Events about namespaces of the backend.
#[derive(Clone)]
pub struct Notices {
    apply: Arc<Apply>,
    lease: LeaseObject,
    backend: &'static str,
}

impl Notices {
    /// Notices about this backend, published as Events on this Lease.
    pub fn new(client: Client, apply: Arc<Apply>, lease: LeaseName, backend: &'static str) -> Self {
        Self {
            apply,
            lease: LeaseObject::new(client, lease),
            backend,
        }
    }

    /// Publishes that the namespace was deleted from the backend.
    pub fn deleted(&self, namespace: &str) {
        let note = format!(
            "namespace {namespace} is not in Kubernetes, and was deleted from {}",
            self.backend
        );
        tracing::info!(
            namespace,
            backend = self.backend,
            reason = DELETED,
            "event published"
        );
        self.publish(DELETED, false, note, || {});
    }

    /// Publishes that the namespace could not be removed from the backend, and is retried. Calls
    /// `otherwise` if the Event was not published.
    pub fn waits(
        &self,
        namespace: &str,
        (reason, why): (Reason, &Sentence),
        otherwise: impl FnOnce() + Send + 'static,
    ) {
        let event = reason.event();
        tracing::warn!(namespace, backend = self.backend, reason = event, cause = reason.name(), %why, "event published");
        let again = match reason {
            Reason::NotEmpty => "it is deleted once it is empty",
            _ => "Volume Warden retries",
        };
        let note = format!(
            "namespace {namespace} is not in Kubernetes, but still in {}; {again}: {why}",
            self.backend
        );
        self.publish(event, true, note, otherwise);
    }

    /// Publishes that a collection found more orphans than it may delete.
    pub fn capped(&self, deleted: usize, left: usize) {
        let backend = self.backend;
        let note = format!(
            "{backend} has {} namespaces that Kubernetes does not have; a collection deletes at most \
             {deleted} (--gc-max-deletions), and {left} are left for the next one. If that number is \
             unexpected, run `/volume-warden gc --dry-run` in a pod of Volume Warden",
            deleted + left
        );
        tracing::warn!(backend, reason = CAPPED, note, "event published");
        self.publish(CAPPED, true, note, || {});
    }

    fn publish(
        &self,
        reason: &'static str,
        warning: bool,
        note: String,
        otherwise: impl FnOnce() + Send + 'static,
    ) {
        let (notices, action) = (self.clone(), ACTION);
        #[expect(clippy::disallowed_methods, reason = "no removal waits for this Event")]
        tokio::spawn(async move {
            let announcement = Announcement {
                reason,
                action,
                warning,
                note,
                related: None,
            };
            match notices.lease.reference().await {
                Some(lease) => notices.apply.publish(lease, announcement, otherwise),
                None => otherwise(),
            }
        });
    }
}
