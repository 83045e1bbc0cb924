//! Log lines and Events about namespaces of the storage backend. The Events are on Volume Warden's
//! Lease.

use super::{
    reason::Reason,
    reasons::{CAPPED, DELETED},
};
use crate::{
    backend::Sentence,
    cluster::{Apply, EventContent, LeaseName, LeaseObject},
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

    /// Returns how the text of each Event about the namespace begins.
    pub fn beginning(namespace: &str) -> String {
        format!("namespace {namespace} ")
    }

    /// Publishes that the namespace was deleted from the backend.
    pub fn deleted(&self, namespace: &str) {
        let how = format!(
            "is not in Kubernetes, and was deleted from {}",
            self.backend
        );
        self.gone(
            namespace,
            &how,
            "the namespace was deleted from the backend",
        );
    }

    /// Publishes that the backend does not have the namespace any more, whose removal had failed.
    pub fn absent(&self, namespace: &str) {
        let how = format!(
            "could not be deleted at first; {} reports that it no longer exists there",
            self.backend
        );
        self.gone(
            namespace,
            &how,
            "the namespace no longer exists in the backend",
        );
    }

    fn gone(&self, namespace: &str, how: &str, message: &str) {
        tracing::info!(
            namespace,
            backend = self.backend,
            reason = DELETED,
            "{message}"
        );
        self.publish(DELETED, false, Self::beginning(namespace) + how, || {});
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
        tracing::warn!(namespace, backend = self.backend, reason = event, cause = reason.name(), %why, "the namespace stays in the backend");
        let note = note(namespace, self.backend, (reason, why));
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
        tracing::warn!(
            backend,
            reason = CAPPED,
            note,
            "the limit of deletions was reached"
        );
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
            let event_content = EventContent {
                reason,
                action,
                warning,
                note,
                related: None,
            };
            match notices.lease.reference().await {
                Some(lease) => notices.apply.publish(lease, event_content, otherwise),
                None => otherwise(),
            }
        });
    }
}

/// The text of the Event about a namespace that stays in the backend. Only [`Reason::NotEmpty`]
/// comes after a live read of Kubernetes and an answer of the backend.
fn note(namespace: &str, backend: &str, (reason, why): (Reason, &Sentence)) -> String {
    let rest = match reason {
        Reason::NotEmpty => format!(
            "is not in Kubernetes, but still in {backend}; it is deleted once it is empty: {why}"
        ),
        _ => format!("could not be deleted from {backend}; Volume Warden retries: {why}"),
    };
    Notices::beginning(namespace) + &rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use strum::VariantArray;

    #[test]
    fn only_an_answer_of_the_backend_shows_that_it_has_the_namespace() {
        let why = Sentence::new("the namespace could not be read");
        let claims =
            |reason: &&Reason| note("shop", "storageos", (**reason, &why)).contains("still in");
        let claiming: Vec<_> = Reason::VARIANTS.iter().filter(claims).collect();
        assert_eq!(claiming, [&Reason::NotEmpty]);
    }
}
