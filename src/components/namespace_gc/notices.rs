//! What is told: in the log, and to users by an Event on our Lease.

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

/// What was done or tried.
const ACTION: &str = "DeleteFromBackend";

/// See the module.
#[derive(Clone)]
pub struct Notices {
    apply: Arc<Apply>,
    lease: LeaseObject,
    backend: &'static str,
}

impl Notices {
    /// Tells on that Lease, about that backend.
    pub fn new(client: Client, apply: Arc<Apply>, lease: LeaseName, backend: &'static str) -> Self {
        Self {
            apply,
            lease: LeaseObject::new(client, lease),
            backend,
        }
    }

    /// The namespace is gone from the backend.
    pub fn deleted(&self, namespace: &str) {
        let note = format!(
            "namespace {namespace} is not in Kubernetes, and was deleted from {}",
            self.backend
        );
        tracing::info!(namespace, backend = self.backend, reason = DELETED, "told");
        self.publish(DELETED, false, note, || {});
    }

    /// The namespace could not be removed. Calls `otherwise` if nobody was told.
    pub fn waits(
        &self,
        namespace: &str,
        (reason, why): (Reason, &Sentence),
        otherwise: impl FnOnce() + Send + 'static,
    ) {
        let event = reason.event();
        tracing::warn!(namespace, backend = self.backend, reason = event, cause = reason.name(), %why, "told");
        let again = match reason {
            Reason::NotEmpty => "it goes once it is empty",
            _ => "it is tried again",
        };
        let note = format!(
            "namespace {namespace} is not in Kubernetes, but still in {}; {again}: {why}",
            self.backend
        );
        self.publish(event, true, note, otherwise);
    }

    /// A collection found more than it may take.
    pub fn capped(&self, taken: usize, left: usize) {
        let backend = self.backend;
        let note = format!(
            "{backend} has {} namespaces that Kubernetes does not have, and one collection deletes {taken} of them (--gc-max-deletions); \
             {left} are left to the next. If that many are not expected, look at `volume-warden gc --dry-run`",
            taken + left
        );
        tracing::warn!(backend, reason = CAPPED, note, "told");
        self.publish(CAPPED, true, note, || {});
    }

    fn publish(
        &self,
        reason: &'static str,
        warning: bool,
        note: String,
        otherwise: impl FnOnce() + Send + 'static,
    ) {
        let (tell, action) = (self.clone(), ACTION);
        tokio::spawn(async move {
            let announcement = Announcement {
                reason,
                action,
                warning,
                note,
                related: None,
            };
            match tell.lease.reference().await {
                Some(lease) => tell.apply.publish(lease, announcement, otherwise),
                None => otherwise(),
            }
        });
    }
}
