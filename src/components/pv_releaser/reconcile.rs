//! The reconciler of pv-releaser: labels and releases volumes, and reports orphans.

use super::{
    NAME,
    caches::Caches,
    metrics, notices,
    patch::{association, release},
    reasons::{ASSOCIATED, RELEASED},
    rule::{Attachment, Decision, Left, Unconfirmed},
    triggers,
};
use crate::{
    cluster::{
        Action, Apply, Basis, EventDeduplicator, Lane, Mutation, OnRefusal, Proof, Reconcile,
        ReconcileError, Reconciled, Regarding, Requeue, SharedList, Target, WorkQueue,
    },
    objects::{Kind, ObjectName, Volume, VolumeAttachment},
    telemetry::Metrics,
};
use json_patch::PatchOperation;
use std::{collections::HashSet, sync::Arc, time::Duration};

/// Delay before an orphaned volume is reported: the watch of claims may lag behind the watch of
/// volumes.
const SURE: Duration = Duration::from_secs(5);

/// Maximum age of the LIST of VolumeAttachments on which the release of a volume may rest.
const MAX_AGE: Duration = Duration::from_secs(10);

/// The reconciler of pv-releaser.
pub struct PvReleaserReconciler {
    /// The watches that pv-releaser reads.
    pub caches: Caches,
    /// Live LISTs of VolumeAttachments.
    pub live_attachments: Arc<SharedList<VolumeAttachment>>,
    /// Writes to the API server.
    pub apply: Arc<Apply>,
    /// The causes that Events have already reported, by volume.
    pub events: Arc<EventDeduplicator<ObjectName, Left>>,
}

impl PvReleaserReconciler {
    /// Enqueues a volume on every change that may affect the decision about it.
    pub fn listen(&self, queue: &Arc<WorkQueue<ObjectName>>) {
        triggers::listen(&self.caches, queue);
        let (caches, apply) = (self.caches.clone(), self.apply.clone());
        self.caches.volumes.listen(move |change| {
            if let Some(volume) = change.new.filter(|_| caches.is_labelled_from_birth(change)) {
                let regarding = regarding(change.name, volume);
                apply.announce(regarding, notices::associated(volume), || {});
            }
        });
    }

    /// Registers the metrics of pv-releaser.
    pub fn register_metrics(&self, metrics: &Metrics) {
        metrics::register(metrics, self.caches.clone());
    }

    /// Decides about the volume by a live LIST of VolumeAttachments, which is the proof for the
    /// decision.
    async fn confirm(
        &self,
        name: &ObjectName,
        volume: &Volume,
    ) -> Result<Decision<Proof>, ReconcileError> {
        let live = self.live_attachments.list(&name.namespace).await;
        let live = live.map_err(|error| {
            ReconcileError::new(format!("VolumeAttachments could not be listed: {error}"))
        })?;
        if !live.value.is_unreferenced(name) {
            // The watch may never deliver the VolumeAttachment if it is deleted soon. Then no
            // change would enqueue the volume, so the reconcile fails and is retried.
            return Err(ReconcileError::new(
                "the volume is attached, but the watch has not delivered its VolumeAttachment yet",
            ));
        }
        let detached = Attachment::Detached(live.proof(MAX_AGE));
        Ok(self.caches.judge_with(volume, detached))
    }

    async fn associate(&self, name: &ObjectName, volume: &Arc<Volume>) -> Reconciled {
        let action = action(
            "Associate",
            OnRefusal::new("ErrAssociatePV"),
            association(volume, &self.caches.options.id),
            Basis::Object,
        );
        let target = written(name, volume);
        let applied = self.apply.perform(NAME, &target, action, ASSOCIATED).await;
        if applied.written() {
            self.caches.volumes.mark_stale(name, volume);
            let regarding = regarding(name, volume);
            self.apply
                .announce(regarding, notices::associated(volume), || {});
        }
        applied.settled()
    }

    /// Releases the volume from its claim. `detached` proves that no VolumeAttachment names the
    /// volume.
    async fn release(
        &self,
        name: &ObjectName,
        volume: &Arc<Volume>,
        detached: Proof,
    ) -> Reconciled {
        let options = &self.caches.options;
        let action = action(
            "Release",
            OnRefusal::new("ErrReleasePV"),
            release(volume, options),
            Basis::Proof(detached),
        );
        let target = written(name, volume);
        let applied = self.apply.perform(NAME, &target, action, RELEASED).await;
        if applied.written() {
            self.caches.volumes.mark_stale(name, volume);
            let announcement = notices::released(volume, options.release_mode);
            self.apply
                .announce(regarding(name, volume), announcement, || {});
        }
        applied.settled()
    }

    /// Publishes an Event that says why the volume is left unchanged, unless this cause was already
    /// reported.
    fn publish(&self, name: &ObjectName, volume: &Arc<Volume>, left: Left) {
        let options = &self.caches.options;
        let announcement = notices::left(volume, left, options);
        let causes: HashSet<_> = announcement.iter().map(|_| left).collect();
        let news = self.events.news(name, &volume.uid, causes);
        let Some(announcement) = announcement.filter(|_| news.contains(&left)) else {
            return;
        };
        let (caches, apply, events) =
            (self.caches.clone(), self.apply.clone(), self.events.clone());
        let regarding = regarding(name, volume);
        let name = name.clone();
        tokio::spawn(async move {
            if left == Left::Orphaned {
                tokio::time::sleep(SURE).await;
                if !caches.is_orphan_still(&name) {
                    return;
                }
            }
            apply.announce(regarding, announcement, move || events.forget(&name));
        });
    }
}

impl Reconcile for PvReleaserReconciler {
    const COMPONENT: &'static str = NAME;
    type Key = ObjectName;

    fn candidates(&self) -> Vec<ObjectName> {
        let volumes = self.caches.volumes.read();
        self.events.retain(|name| volumes.get(name).is_some());
        volumes.names_where(|volume| volume.claimed_by().is_some())
    }

    async fn reconcile(&self, name: &ObjectName) -> Reconciled {
        let (known, current) = {
            let volumes = self.caches.volumes.read();
            (volumes.get(name), volumes.get_fresh(name))
        };
        if known.is_none() {
            self.events.forget(name);
        }
        let Some(volume) = current else {
            return Ok(Requeue::OnEvent);
        };
        let decision = match self.caches.judge(name, &volume) {
            // The volume was read before, so a LIST of VolumeAttachments that begins now is newer
            // than the volume.
            Decision::Release(Unconfirmed) => self.confirm(name, &volume).await?,
            Decision::Associate => Decision::Associate,
            Decision::Leave(left) => Decision::Leave(left),
        };
        if !decision.is_in_time(volume.phase) {
            tracing::debug!(component = NAME, object = %name, "the volume is not Bound yet, so it is labelled later");
            return Ok(Requeue::OnEvent);
        }
        match decision {
            Decision::Associate => self.associate(name, &volume).await,
            Decision::Release(detached) => self.release(name, &volume, detached).await,
            Decision::Leave(left) => {
                let reason = left.name();
                tracing::debug!(component = NAME, object = %name, reason, "no action");
                self.publish(name, &volume, left);
                Ok(Requeue::OnEvent)
            }
        }
    }
}

fn written<'a>(name: &'a ObjectName, volume: &'a Volume) -> Target<'a> {
    Target {
        resource_version: Some(&volume.resource_version),
        ..Target::new(Kind::PersistentVolume, name, &volume.uid)
    }
}

fn regarding(name: &ObjectName, volume: &Volume) -> Regarding {
    Regarding {
        kind: Kind::PersistentVolume,
        name: name.clone(),
        uid: volume.uid.clone(),
    }
}

/// An action whose failures are reported by Events even if they are outages, as plumber-cd's
/// releaser does.
fn action(
    name: &'static str,
    on_refusal: OnRefusal,
    operations: Vec<PatchOperation>,
    basis: Basis,
) -> Action {
    Action {
        name,
        mutation: Mutation::Patch(operations),
        lane: Lane::Release,
        basis,
        on_refusal: OnRefusal {
            outages: true,
            ..on_refusal
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_use_their_own_lane_and_report_outages() {
        let refusal = OnRefusal::new("ErrReleasePV");
        let action = action("Release", refusal, Vec::new(), Basis::Object);
        assert_eq!(
            (action.lane, action.on_refusal.outages),
            (Lane::Release, true)
        );
    }
}
