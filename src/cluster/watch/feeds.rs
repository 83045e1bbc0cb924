//! The feeds of one process, one for each kind.

use super::activity::WatchActivity;
use super::feed::Feed;
use super::pace::paced;
use super::progress::Progress;
use crate::cluster::api::scoped;
use crate::{
    objects::{
        Claim, Kind, Namespace, Pod, SavedVolume, StatefulSet, StorageClass, TrashList, Volume,
        VolumeAttachment,
    },
    telemetry::Metrics,
};
use futures::future::BoxFuture;
use kube::{Api, Client};
use std::{sync::Arc, time::Duration};
use tokio::sync::Notify;

/// The feeds, one for each kind. Only the feeds that the enabled components need are run, and,
/// without `--namespace`, that of namespaces. With `--namespace`, those of namespaced kinds have
/// only the objects of that namespace, except `saved`.
#[derive(Clone)]
pub struct Feeds {
    /// Pods that use a claim or request one by annotation.
    pub pods: Arc<Feed<Pod>>,
    /// All claims.
    pub claims: Arc<Feed<Claim>>,
    /// All volumes of the cluster.
    pub volumes: Arc<Feed<Volume>>,
    /// StatefulSets that have volumeClaimTemplates.
    pub sets: Arc<Feed<StatefulSet>>,
    /// StorageClasses with an annotation that a rule reads; see [`StorageClass`].
    pub classes: Arc<Feed<StorageClass>>,
    /// All VolumeAttachments that name a PersistentVolume.
    pub attachments: Arc<Feed<VolumeAttachment>>,
    /// All namespaces, also those that are being deleted.
    pub namespaces: Arc<Feed<Namespace>>,
    /// ConfigMaps in Volume Warden's own namespace, each a copy of a PersistentVolume object.
    pub saved: Arc<Feed<SavedVolume>>,
    /// ConfigMaps named `volume-warden-trash`: those in which Volume Warden lists the deleted
    /// claims of a namespace that can be restored, and those of users with the same name.
    pub trash_lists: Arc<Feed<TrashList>>,
    /// The metrics of the process.
    pub metrics: Arc<Metrics>,
}

impl Feeds {
    /// Creates empty feeds.
    pub fn new(metrics: &Arc<Metrics>) -> Self {
        Self {
            pods: Feed::new(metrics.clone()),
            claims: Feed::new(metrics.clone()),
            volumes: Feed::new(metrics.clone()),
            sets: Feed::new(metrics.clone()),
            classes: Feed::new(metrics.clone()),
            attachments: Feed::new(metrics.clone()),
            namespaces: Feed::new(metrics.clone()),
            saved: Feed::new(metrics.clone()),
            trash_lists: Feed::new(metrics.clone()),
            metrics: metrics.clone(),
        }
    }

    /// Drops the listeners of all feeds, and what the metrics call before a scrape. They refer to
    /// the feeds, which are never freed otherwise. A process that ends does not need that; one in
    /// which many replicas run one after another does.
    pub fn unlisten(&self) {
        self.pods.unlisten();
        self.claims.unlisten();
        self.volumes.unlisten();
        self.sets.unlisten();
        self.classes.unlisten();
        self.attachments.unlisten();
        self.namespaces.unlisten();
        self.saved.unlisten();
        self.trash_lists.unlisten();
        self.metrics.forget_observers();
    }

    /// Watches the kind until the future is dropped, and reports the time since the last watch
    /// activity in the metrics. If `namespace` is set, only objects in that namespace are watched;
    /// cluster-scoped kinds are always watched in the whole cluster, and the ConfigMaps that are
    /// copies of volumes only in `system_namespace`, the namespace of Volume Warden.
    pub fn run(
        &self,
        kind: Kind,
        client: &Client,
        namespace: Option<&str>,
        system_namespace: &str,
    ) -> BoxFuture<'static, ()> {
        let activity = WatchActivity::observed(kind, &self.metrics);
        let client = &activity.client(&paced(client));
        let all = client.clone();
        match kind {
            Kind::Pod => self.pods.run(scoped(client, namespace), activity),
            Kind::PersistentVolumeClaim => self.claims.run(scoped(client, namespace), activity),
            Kind::PersistentVolume => self.volumes.run(Api::all(all), activity),
            Kind::StatefulSet => self.sets.run(scoped(client, namespace), activity),
            Kind::StorageClass => self.classes.run(Api::all(all), activity),
            Kind::VolumeAttachment => self.attachments.run(Api::all(all), activity),
            Kind::Namespace => self.namespaces.run(Api::all(all), activity),
            Kind::ConfigMap => self
                .saved
                .run(Api::namespaced(all, system_namespace), activity),
            Kind::TrashList => self.trash_lists.run(scoped(client, namespace), activity),
        }
    }

    /// Notifies `after` at the end of each LIST of the kind except the first, because listeners do
    /// not learn of an object that was created and deleted before it.
    pub fn after_relist(&self, kind: Kind, after: Arc<Notify>) {
        self.progress(kind).after_relist(after);
    }

    /// Calls `listener` at each failure of the watch of the kind, and at the end of a LIST after
    /// failures, with the time since the outage began: for so long, changes may have been missed.
    pub fn during_outage(&self, kind: Kind, listener: impl Fn(Duration) + Send + Sync + 'static) {
        self.progress(kind).during_outage(listener);
    }

    /// Returns whether the first list of the kind is complete.
    pub fn is_synced(&self, kind: Kind) -> bool {
        self.progress(kind).is_synced()
    }

    /// Waits until the first list of the kind is complete.
    pub async fn synced(&self, kind: Kind) {
        self.progress(kind).synced().await;
    }

    fn progress(&self, kind: Kind) -> &Progress {
        match kind {
            Kind::Pod => &self.pods.progress,
            Kind::PersistentVolumeClaim => &self.claims.progress,
            Kind::PersistentVolume => &self.volumes.progress,
            Kind::StatefulSet => &self.sets.progress,
            Kind::StorageClass => &self.classes.progress,
            Kind::VolumeAttachment => &self.attachments.progress,
            Kind::Namespace => &self.namespaces.progress,
            Kind::ConfigMap => &self.saved.progress,
            Kind::TrashList => &self.trash_lists.progress,
        }
    }
}
