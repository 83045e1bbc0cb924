//! Events about volumes that are left unchanged.

use super::{notices, reconcile::PvReleaserReconciler, rule::LeaveReason};
use crate::{
    cluster::Regarding,
    hashing::HashSet,
    objects::{ObjectName, Volume},
};
use std::{sync::Arc, time::Duration};

/// Delay before an orphaned volume is reported: the watch of claims may lag behind the watch of
/// volumes.
const ORPHAN_REPORT_DELAY: Duration = Duration::from_secs(5);

/// Delay before the VolumeAttachment of a Released volume is reported: detaching takes some time,
/// and kube-controller-manager forces it after six minutes.
const ATTACHED_REPORT_DELAY: Duration = Duration::from_secs(420);

impl PvReleaserReconciler {
    /// Publishes an Event that says why the volume is left unchanged, if the cause needs one and
    /// was not reported already. An orphan and an attached volume are reported after a delay, if
    /// the cause still holds.
    pub(super) fn publish(
        &self,
        name: &ObjectName,
        volume: &Arc<Volume>,
        leave_reason: LeaveReason,
    ) {
        let options = &self.caches.options;
        let event_content = notices::left(volume, leave_reason, options);
        let is_reported = event_content.is_some() || leave_reason == LeaveReason::Attached;
        let causes: HashSet<_> = is_reported.then_some(leave_reason).into_iter().collect();
        let new_causes = self.events.new_causes(name, &volume.uid, causes);
        if !new_causes.contains(&leave_reason) {
            return;
        }
        let (caches, apply) = (self.caches.clone(), self.apply.clone());
        let (regarding, postpone) = (
            Regarding::of(name, volume),
            self.events.postponing(name, &leave_reason),
        );
        let name = name.clone();
        #[expect(
            clippy::disallowed_methods,
            reason = "no reconcile waits for this Event"
        )]
        tokio::spawn(async move {
            let event_content = match leave_reason {
                LeaveReason::Orphaned => {
                    tokio::time::sleep(ORPHAN_REPORT_DELAY).await;
                    event_content.filter(|_| caches.is_orphan_still(&name))
                }
                LeaveReason::Attached => {
                    tokio::time::sleep(ATTACHED_REPORT_DELAY).await;
                    let attached = caches.blocking_attachment(&name);
                    attached.map(|(volume, attachment, object)| {
                        notices::attached(&volume, &attachment, &object.node)
                    })
                }
                _ => event_content,
            };
            if let Some(event_content) = event_content {
                apply.publish_event_once(regarding, event_content, postpone);
            }
        });
    }
}
