//! Events about StorageClasses and records that cannot be read, and about a full trash.

use super::{notices, reconcile::PvcTrashReconciler, rule::LeaveReason};
use crate::{
    cluster::Regarding,
    hashing::HashSet,
    objects::{
        Kind, ObjectName, Volume,
        rebind::REBIND,
        undelete_window::{UNDELETE_WINDOW, UNDELETE_WINDOW_MAX},
    },
};
use std::collections::BTreeSet;

impl PvcTrashReconciler {
    /// Publishes the Events about all StorageClasses, also those without volumes.
    pub(super) fn report_classes(&self) {
        let classes: Vec<_> = {
            let classes = self.caches.classes.read();
            classes.objects().map(|(name, _)| name.clone()).collect()
        };
        for class in classes {
            self.report_class(&class.name);
        }
    }

    /// Publishes an Event, once, for each annotation on the StorageClass that pvc-trash reads and
    /// cannot parse.
    pub(super) fn report_class(&self, name: &str) {
        let key = ObjectName::cluster_scoped(name);
        let Some(class) = self.caches.classes.read().get(&key) else {
            return;
        };
        let window = self.caches.window(name).and_then(Result::err);
        let longest = self.caches.longest(name).and_then(Result::err);
        let rebinds = self.caches.rebinds(name).and_then(Result::err);
        let errors = [
            window.map(|error| (UNDELETE_WINDOW, error)),
            longest.map(|error| (UNDELETE_WINDOW_MAX, error)),
            rebinds.map(|error| (REBIND, error)),
        ];
        let causes: HashSet<_> = errors.into_iter().flatten().collect();
        let new_causes = self.classes.new_causes(&key, &class.uid, causes);
        for (annotation, error) in BTreeSet::from_iter(new_causes) {
            let regarding = Regarding::of(&key, &class);
            let event = notices::unreadable_class(name, annotation, &error);
            let postpone = self.classes.postponing(&key, &(annotation, error));
            self.apply.publish_event_or(regarding, event, postpone);
        }
    }

    /// Publishes an Event, once, that the volume is not purged because of another volume.
    pub(super) fn report_shared_data(
        &self,
        name: &ObjectName,
        volume: &Volume,
        volume_with_same_data: &ObjectName,
    ) {
        let causes = HashSet::from_iter([LeaveReason::Shared]);
        if self.events.new_causes(name, &volume.uid, causes).is_empty() {
            return;
        }
        let event = notices::shared(&volume_with_same_data.name);
        let postpone = self.events.postponing(name, &LeaveReason::Shared);
        self.apply
            .publish_event_or(Regarding::of(name, volume), event, postpone);
    }

    /// Publishes an Event, once, if the record of the volume cannot be read, or if the trash of
    /// its claim's namespace is full.
    pub(super) fn publish(&self, name: &ObjectName, volume: &Volume, leave_reason: LeaveReason) {
        let reported = matches!(leave_reason, LeaveReason::Unreadable | LeaveReason::Full);
        let causes = HashSet::from_iter(reported.then_some(leave_reason));
        if self.events.new_causes(name, &volume.uid, causes).is_empty() {
            return;
        }
        let event = match volume
            .claimed_by()
            .filter(|_| leave_reason == LeaveReason::Full)
        {
            Some(claim) => {
                let event = notices::full(&claim.name);
                // Users who may not read volumes see the Event in the namespace of their claim.
                let regarding =
                    Regarding::new(Kind::PersistentVolumeClaim, &claim.name, &claim.uid);
                self.apply.publish_event(regarding, event.clone());
                event
            }
            None => notices::unreadable(),
        };
        let postpone = self.events.postponing(name, &leave_reason);
        self.apply
            .publish_event_or(Regarding::of(name, volume), event, postpone);
    }
}
