//! Two webhooks of pv-releaser. One labels a volume with the policy Retain that is created for a
//! managed claim, so that even a claim that exists for two seconds leaves no unlabelled volume. The
//! other reserves parked volumes for new claims.

use super::{
    Scope,
    caches::Caches,
    identity::Identity,
    parked::Reservations,
    patch::{association, record},
    rule::{Attachment, Decision, Unconfirmed},
};
use crate::{
    admission::{Answer, Hook, Request, Review, Reviewed, Rule},
    objects::{Volume, managed_by::RELEASER_LABEL, volume::VolumeWire},
};
use std::{sync::Arc, time::Duration};

/// Labels new volumes with the policy Retain whose claims this installation manages, and in the
/// scope `namespace` records the namespace of these claims.
pub struct VolumeWebhook {
    /// The watches that pv-releaser reads.
    pub caches: Caches,
    /// Live reads of namespaces and claims.
    pub identity: Identity,
}

/// Creates the webhook for new volumes.
pub fn volume_hook(webhook: VolumeWebhook) -> Hook {
    let webhook = Arc::new(webhook);
    Hook {
        path: "/pv-releaser/volumes",
        rules: &[Rule("CREATE", "persistentvolumes")],
        timeout: Duration::from_secs(2),
        review: Review::with_calls(&webhook, |webhook, request| async move {
            webhook.review(&request).await
        }),
    }
}

/// Creates the webhook that reserves a parked volume for a new claim that the volume fits. It is a
/// validating webhook: the API server calls it after all changes to the claim.
pub fn reservation_hook(reservations: Reservations) -> Hook {
    let reservations = Arc::new(reservations);
    Hook {
        path: "/pv-releaser/reservations",
        rules: &[Rule("CREATE", "persistentvolumeclaims")],
        timeout: Duration::from_secs(2),
        review: Review::with_calls(&reservations, |reservations, request| async move {
            reservations.review(&request).await
        }),
    }
}

impl VolumeWebhook {
    /// Labels the new volume if the rule decides [`Decision::Associate`], and in the scope
    /// `namespace` records the namespace of the claim, if it can be proven. The review refuses no
    /// volume and waits for no watch: the reconciler labels and records what the webhook missed.
    async fn review(&self, request: &Request) -> Reviewed {
        let volume = Volume::from(request.object::<VolumeWire>()?);
        let detached = Attachment::Detached(Unconfirmed);
        if self.caches.judge_with(&volume, detached) != Decision::Associate {
            return Ok(Answer::Allow);
        }
        let mut operations = association(&volume, &self.caches.options.id);
        if self.caches.scope(&volume) == Some(Scope::Namespace) {
            let limit = request.call_budget / 2;
            // If the namespace cannot be proven, the volume is labelled without a record.
            let found = self.identity.record(&volume, limit).await.ok().flatten();
            operations.extend(found.iter().flat_map(|found| record(&volume, found)));
        }
        Ok(Answer::Patch {
            operations,
            what: format!("add the label {RELEASER_LABEL}={}", self.caches.options.id),
            warnings: Vec::new(),
        })
    }
}
