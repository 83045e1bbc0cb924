//! Keeps a copy of the object of each volume that has a record, in a ConfigMap, unless the volume
//! had the policy Retain at first or its object is too large. If a user removes the object by
//! force, the command `volume-warden trash repair` creates the volume again from the copy.
//!
//! A copy outlives its volume only if the volume was removed without a purge: Volume Warden
//! deletes the copy before a purge, and before it disables the trash.

use super::{
    NAME,
    copy_rule::{Step, decide},
    notices,
    reasons::{TRASH_ERROR, VOLUME_FORGOTTEN, VOLUME_SAVED},
};
use crate::{
    cluster::{
        Action, Applied, Apply, Basis, Caller, Creation, DEFAULT_CALL_TIMEOUT, EventContent,
        EventDeduplicator, Feed, Feeds, Lane, LiveGet, OnRefusal, ReconcileError, Regarding,
        Target, for_users, is_lasting_refusal,
    },
    hashing::HashSet,
    objects::{
        Kind, ObjectName, SavedVolume, Volume, WholeVolume,
        patch::add_at,
        saved_volume::{KEY, MAX_MANIFEST, config_map, name_of},
    },
    telemetry::Metrics,
};
use kube::Client;
use serde_json::json;
use std::{sync::Arc, time::Duration};

/// Maximum age of the read on which the deletion of a copy rests.
const MAX_AGE: Duration = Duration::from_secs(10);

/// Why the copy of a volume is missing or outdated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Obstacle {
    /// Its object is too large.
    Size,
    /// The API server refused the copy.
    Refused,
}

/// Creates, updates and deletes the copies of volumes.
pub struct Copies {
    /// The watch of the copies.
    pub feed: Arc<Feed<SavedVolume>>,
    live: Arc<LiveGet<SavedVolume>>,
    whole: Arc<LiveGet<WholeVolume>>,
    apply: Arc<Apply>,
    system_namespace: Arc<str>,
    /// The volumes about which an Event has already said why they have no current copy.
    without_copy: Arc<EventDeduplicator<ObjectName, Obstacle>>,
}

impl Copies {
    /// Creates the writer of copies, which are ConfigMaps in the namespace `system_namespace`.
    pub fn new(
        feeds: &Feeds,
        client: &Client,
        apply: &Arc<Apply>,
        system_namespace: &str,
        metrics: &Arc<Metrics>,
    ) -> Self {
        Self {
            feed: feeds.saved.clone(),
            live: LiveGet::new(metrics.clone(), client),
            whole: LiveGet::new(metrics.clone(), client),
            apply: apply.clone(),
            system_namespace: system_namespace.into(),
            without_copy: Arc::default(),
        }
    }

    /// Creates, changes or deletes the copy of the volume, as its state requires. Deletes copies of
    /// earlier volumes that it replaces. Without `may_save`, none is created or changed: if the
    /// purge of the volume is due, each attempt would write and delete it, and both enqueue the
    /// volume, without the delay after a failure; and the Volume Warden of another namespace keeps
    /// the copies of volumes of its claims.
    ///
    /// # Errors
    /// When something could not be read or written.
    pub async fn reconcile_copy(
        &self,
        name: &ObjectName,
        volume: &Volume,
        may_save: bool,
    ) -> Result<(), ReconcileError> {
        let copy_name = name_of(&self.system_namespace, &volume.uid);
        let (known, fresh) = {
            let copies = self.feed.read();
            (copies.get(&copy_name), copies.get_fresh(&copy_name))
        };
        // Volume Warden has just written the copy. The watch delivers the result, which enqueues
        // the volume again.
        if known.is_some() && fresh.is_none() {
            return Ok(());
        }
        let step = decide(volume, fresh.as_deref());
        if step != Step::Save {
            self.without_copy.forget(name);
        }
        match step {
            Step::Leave => self.forget_earlier(name, volume, fresh.as_deref()).await,
            Step::Save if !may_save => Ok(()),
            Step::Save => self.save(name, volume, (&copy_name, fresh)).await,
            Step::Delete => {
                if self.needs_none(name, volume, fresh.as_deref()).await? {
                    self.delete(&copy_name).await
                } else {
                    Ok(())
                }
            }
        }
    }

    /// Returns whether a live read also shows that the volume needs no copy. The watch may show a
    /// volume as it was before its first record, and without its copy a volume that is removed by
    /// force cannot be created again.
    ///
    /// # Errors
    /// When the volume could not be read.
    async fn needs_none(
        &self,
        name: &ObjectName,
        volume: &Volume,
        copy: Option<&SavedVolume>,
    ) -> Result<bool, ReconcileError> {
        let live = self.read_whole(name, volume).await?;
        Ok(live.is_some_and(|live| decide(&live.volume, copy) == Step::Delete))
    }

    /// Deletes the copy of a volume before `change`, which purges the volume or disables its trash.
    /// The copy stays if a dry run shows that the API server would refuse the change, or that the
    /// volume does not exist: only the copy can create the volume again.
    ///
    /// # Errors
    /// When the change would be refused, or the copy could not be read or deleted.
    pub async fn delete_copy(
        &self,
        volume: &Target<'_>,
        change: &Action,
        reason: &'static str,
    ) -> Result<(), ReconcileError> {
        let checked = self.apply.check(NAME, volume, change, reason).await;
        checked.into_reconciled()?;
        self.delete(&name_of(&self.system_namespace, &volume.uid))
            .await
    }

    async fn delete(&self, copy: &ObjectName) -> Result<(), ReconcileError> {
        let deleted = delete_copy(&self.live, &self.apply, NAME, copy)
            .await
            .map_err(ReconcileError::unread(format!("the ConfigMap {copy}")))?;
        deleted.into_reconciled().map(drop)
    }

    /// Returns the names of the volumes in all copies, also of those that do not exist any more.
    pub fn volumes(&self) -> Vec<ObjectName> {
        let copies = self.feed.read();
        let volumes = copies.objects().map(|(_, copy)| &*copy.volume);
        volumes.map(ObjectName::cluster_scoped).collect()
    }

    /// Returns the command that creates the volume of this name again from the copy of its object;
    /// none if there is no copy.
    pub fn repair(&self, volume: &ObjectName) -> Option<String> {
        self.feed.read().named_referrers(volume).next()?;
        let namespace = &self.system_namespace;
        Some(format!(
            "volume-warden trash repair --system-namespace {namespace}"
        ))
    }

    /// Forgets the reports about volumes for which `exists` returns false.
    pub fn retain(&self, exists: impl Fn(&ObjectName) -> bool) {
        self.without_copy.retain(exists);
    }

    /// Reads the volume live, with its whole object; none if it does not exist any more.
    async fn read_whole(
        &self,
        name: &ObjectName,
        volume: &Volume,
    ) -> Result<Option<WholeVolume>, ReconcileError> {
        let whole = self
            .whole
            .get(name, DEFAULT_CALL_TIMEOUT)
            .await
            .map_err(ReconcileError::unread(format!("the volume {name}")))?;
        Ok(whole.filter(|whole| whole.volume.uid == volume.uid))
    }

    async fn save(
        &self,
        name: &ObjectName,
        volume: &Volume,
        (copy_name, copy): (&ObjectName, Option<Arc<SavedVolume>>),
    ) -> Result<(), ReconcileError> {
        let whole = self.read_whole(name, volume).await?;
        let whole = whole.filter(|whole| !whole.volume.deleting);
        let Some(manifest) = whole.and_then(|whole| whole.manifest()) else {
            // The volume has changed since, and the watch delivers the change.
            return Ok(());
        };
        let manifest = manifest.to_string();
        if manifest.len() > MAX_MANIFEST {
            self.report(name, volume, Obstacle::Size, notices::too_large());
            return Ok(());
        }
        let Some(copy) = copy else {
            let created = self.create(copy_name, &manifest).await;
            if let Applied::Failed(error) = &created {
                self.report_refusal(name, volume, error);
            }
            return created.into_reconciled().map(drop);
        };
        self.replace(copy_name, &copy, &manifest).await
    }

    async fn create(&self, name: &ObjectName, manifest: &str) -> Applied {
        let creation = Creation {
            kind: Kind::ConfigMap,
            name,
            manifest: &config_map(name, manifest),
        };
        let created = self
            .apply
            .create(NAME, creation, Caller::Bulk(None), VOLUME_SAVED);
        match created.await {
            // The copy exists, but the watch has not delivered it yet.
            Applied::Stale => Applied::Done,
            created => created,
        }
    }

    async fn replace(
        &self,
        name: &ObjectName,
        copy: &Arc<SavedVolume>,
        manifest: &str,
    ) -> Result<(), ReconcileError> {
        let written = add_at(&["data"], json!({KEY: manifest}));
        let refusal = OnRefusal::new(TRASH_ERROR);
        let action = Action::patch(
            "SaveVolume",
            Lane::Bulk,
            vec![written],
            Basis::Object,
            refusal,
        );
        let target = Target::of(name, copy);
        let applied = self
            .apply
            .perform(NAME, &target, action, VOLUME_SAVED)
            .await;
        if applied.written() {
            self.feed.mark_stale(name, copy);
        }
        applied.into_reconciled().map(drop)
    }

    /// Deletes the copies of earlier volumes of this name with the same data: the volume was
    /// created again.
    async fn forget_earlier(
        &self,
        name: &ObjectName,
        volume: &Volume,
        copy: Option<&SavedVolume>,
    ) -> Result<(), ReconcileError> {
        let Some(source) = copy.and_then(|copy| copy.source.as_ref()) else {
            return Ok(());
        };
        let earlier: Vec<_> = {
            let copies = self.feed.read();
            let named = copies.named_referrers(name);
            let same = named.filter(|(_, other)| {
                volume.uid != other.volume_uid && other.source.as_ref() == Some(source)
            });
            same.map(|(name, _)| name.clone()).collect()
        };
        for copy in earlier {
            self.delete(&copy).await?;
        }
        Ok(())
    }

    /// Publishes an Event on the volume, once, if the API server refused its copy, because of a
    /// quota for example.
    fn report_refusal(&self, name: &ObjectName, volume: &Volume, error: &kube::Error) {
        // A conflict (409) is one of two writes that a quota counts at the same time.
        if let kube::Error::Api(status) = error
            && is_lasting_refusal(error)
            && status.code != 409
            && let Some(message) = for_users(status)
        {
            let notice = notices::not_copied(&self.system_namespace, &message);
            self.report(name, volume, Obstacle::Refused, notice);
        }
    }

    /// Publishes an Event, once, that says why the volume has no current copy.
    fn report(&self, name: &ObjectName, volume: &Volume, why: Obstacle, notice: EventContent) {
        let causes = HashSet::from_iter([why]);
        let new_causes = self.without_copy.new_causes(name, &volume.uid, causes);
        if new_causes.is_empty() {
            return;
        }
        let postpone = self.without_copy.postponing(name, &why);
        self.apply
            .publish_event_or(Regarding::of(name, volume), notice, postpone);
    }
}

/// Deletes a copy, if it exists.
///
/// # Errors
/// When it could not be read.
pub async fn delete_copy(
    live: &LiveGet<SavedVolume>,
    apply: &Apply,
    component: &'static str,
    name: &ObjectName,
) -> kube::Result<Applied> {
    let read = live.read(name, DEFAULT_CALL_TIMEOUT).await?;
    let proof = read.proof(MAX_AGE);
    let Some(copy) = read.value else {
        return Ok(Applied::Done);
    };
    let target = Target::of(name, &copy);
    let delete = Action::delete(proof);
    Ok(apply
        .perform(component, &target, delete, VOLUME_FORGOTTEN)
        .await)
}
