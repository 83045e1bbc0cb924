//! Events about volumes that are left unchanged.

use super::{notices, reconcile::PvReleaserReconciler, rule::Left};
use crate::{
    cluster::Regarding,
    hashing::HashSet,
    objects::{ObjectName, Volume},
};
use std::{sync::Arc, time::Duration};

/// Delay before an orphaned volume is reported: the watch of claims may lag behind the watch of
/// volumes.
const SURE: Duration = Duration::from_secs(5);

/// Delay before the VolumeAttachment of a Released volume is reported: detaching takes some time,
/// and kube-controller-manager forces it after six minutes.
const DETACHED: Duration = Duration::from_secs(420);

impl PvReleaserReconciler {
    /// Publishes an Event that says why the volume is left unchanged, if the cause needs one and
    /// was not reported already. An orphan and an attached volume are reported after a delay, if
    /// the cause still holds.
    pub(super) fn publish(&self, name: &ObjectName, volume: &Arc<Volume>, left: Left) {
        let options = &self.caches.options;
        let announcement = notices::left(volume, left, options);
        let is_reported = announcement.is_some() || left == Left::Attached;
        let causes: HashSet<_> = is_reported.then_some(left).into_iter().collect();
        let news = self.events.news(name, &volume.uid, causes);
        if !news.contains(&left) {
            return;
        }
        let (caches, apply, events) =
            (self.caches.clone(), self.apply.clone(), self.events.clone());
        let regarding = Regarding::of(name, volume);
        let name = name.clone();
        #[expect(
            clippy::disallowed_methods,
            reason = "no reconcile waits for this Event"
        )]
        tokio::spawn(async move {
            let announcement = match left {
                Left::Orphaned => {
                    tokio::time::sleep(SURE).await;
                    announcement.filter(|_| caches.is_orphan_still(&name))
                }
                Left::Attached => {
                    tokio::time::sleep(DETACHED).await;
                    let attached = caches.attachment_in_the_way(&name);
                    attached.map(|(volume, attachment, object)| {
                        notices::attached(&volume, &attachment, &object.node)
                    })
                }
                _ => announcement,
            };
            if let Some(announcement) = announcement {
                apply.announce_once(regarding, announcement, move || events.forget(&name));
            }
        });
    }
}
