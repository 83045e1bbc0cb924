//! What is told: in the log, and to users by an Event on our Lease, the one object of ours that lasts as long as the work.

use super::{
    reasons::{CAPPED, DELETED},
    waiting::Reason,
};
use crate::{
    backend::Sentence,
    cluster::{Announcement, Apply, LeaseName},
};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::ObjectReference};
use kube::{Api, Client};
use std::{sync::Arc, time::Duration};
use tokio::{sync::OnceCell, time::timeout};

/// An Event without the uid is better than none.
const LOOK: Duration = Duration::from_secs(4);
/// What was done or tried.
const ACTION: &str = "DeleteFromBackend";

/// See the module.
#[derive(Clone)]
pub struct Tell {
    apply: Arc<Apply>,
    leases: Api<Lease>,
    lease: Arc<LeaseName>,
    uid: Arc<OnceCell<String>>,
    backend: &'static str,
}

impl Tell {
    /// Tells on that Lease, about that backend.
    pub fn new(client: Client, apply: Arc<Apply>, lease: LeaseName, backend: &'static str) -> Self {
        Self {
            apply,
            leases: Api::namespaced(client, &lease.namespace),
            lease: Arc::new(lease),
            uid: Arc::default(),
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
            let lease = tell.reference().await;
            tell.apply.publish(lease, announcement, otherwise);
        });
    }

    async fn reference(&self) -> ObjectReference {
        let uid = self.uid.get_or_try_init(|| self.read_uid()).await;
        ObjectReference {
            api_version: Some("coordination.k8s.io/v1".to_owned()),
            kind: Some("Lease".to_owned()),
            namespace: Some(self.lease.namespace.clone()),
            name: Some(self.lease.name.clone()),
            uid: uid.ok().cloned(),
            ..ObjectReference::default()
        }
    }

    async fn read_uid(&self) -> Result<String, ()> {
        let lease = timeout(LOOK, self.leases.get(&self.lease.name)).await;
        let lease = lease.ok().and_then(Result::ok);
        lease.and_then(|lease| lease.metadata.uid).ok_or(())
    }
}
