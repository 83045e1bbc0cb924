//! With `--gc-scope=seen`, records the names of the namespaces that this cluster once had in a
//! ConfigMap, one per line.
//!
//! Only the leader writes the ConfigMap, each time based on a fresh read. It removes a name when
//! neither Kubernetes nor the backend has the namespace any more. A collection keeps a namespace
//! whose name is not recorded, so a failure to record a name never causes a deletion.

use super::NAME;
use crate::cluster::{DEFAULT_CALL_TIMEOUT, existing, within};
use crate::hashing::HashSet;
use crate::objects::keys::SEEN_IN_CLUSTER;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client, ResourceExt,
    api::{ObjectMeta, PostParams},
};
use std::collections::BTreeSet;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

/// The name of the ConfigMap with the namespace names. It is in the system namespace.
pub const CONFIG_MAP: &str = "volume-warden-seen-namespaces";
/// The key of the ConfigMap that holds the namespace names.
const KEY: &str = "names";
/// The namespace whose uid identifies the cluster. Every cluster has this namespace.
const ANCHOR: &str = "kube-system";
/// Maximum size in bytes of all namespace names in the ConfigMap. A ConfigMap holds 1 MiB; the
/// remaining space is left for other keys.
pub(super) const LIMIT: usize = 900 * 1024;
/// Maximum number of attempts to write the ConfigMap when other writers cause conflicts.
const ROUNDS: u32 = 5;

/// Why the recorded namespace names could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// The request to the API server failed.
    #[error(transparent)]
    Kubernetes(#[from] kube::Error),
    /// The recorded names belong to another cluster.
    #[error(
        "the ConfigMap {CONFIG_MAP} belongs to another cluster: its annotation {SEEN_IN_CLUSTER} is not the uid \
         of the namespace {ANCHOR}. Delete the ConfigMap to start a new record"
    )]
    Foreign,
}

/// The record of the namespaces that this cluster once had.
pub struct Seen {
    api: Api<ConfigMap>,
    namespaces: Api<Namespace>,
    cluster: OnceCell<String>,
    /// Serializes changes of the ConfigMap, because each change is based on the previous one.
    writing: Mutex<()>,
    /// The names that the next call of [`Self::forget_removed`] removes.
    removed: parking_lot::Mutex<HashSet<String>>,
}

/// How many namespace names are recorded after [`Seen::add`], and how many did not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Number of all namespace names that are recorded now.
    pub names: usize,
    /// Number of new names that did not fit into the ConfigMap.
    pub left_out: usize,
}

impl Seen {
    /// The record in the ConfigMap [`CONFIG_MAP`] of the system namespace.
    pub fn new(client: Client, system_namespace: &str) -> Self {
        Self {
            api: Api::namespaced(client.clone(), system_namespace),
            namespaces: Api::all(client),
            cluster: OnceCell::new(),
            writing: Mutex::default(),
            removed: parking_lot::Mutex::default(),
        }
    }

    /// Reads all recorded namespace names; none if the ConfigMap does not exist.
    ///
    /// # Errors
    /// If the ConfigMap could not be read, or is of another cluster. A collection or a retry must
    /// then delete no namespace.
    pub async fn read(&self) -> Result<HashSet<String>, Unreadable> {
        let Some(map) = self.map().await? else {
            tracing::warn!(
                component = NAME,
                name = CONFIG_MAP,
                "ConfigMap not found in the system namespace; this cluster is not known to have \
                 had any namespace, so no collection deletes one"
            );
            return Ok(HashSet::default());
        };
        Ok(names(&map).into_iter().collect())
    }

    /// Whether the ConfigMap exists.
    ///
    /// # Errors
    /// If the ConfigMap could not be read.
    pub async fn exists(&self) -> kube::Result<bool> {
        let map = existing(within(DEFAULT_CALL_TIMEOUT, self.api.get(CONFIG_MAP)).await)?;
        Ok(map.is_some())
    }

    async fn map(&self) -> Result<Option<ConfigMap>, Unreadable> {
        let map = existing(within(DEFAULT_CALL_TIMEOUT, self.api.get(CONFIG_MAP)).await)?;
        let written_by = map
            .as_ref()
            .and_then(|map| map.annotations().get(SEEN_IN_CLUSTER));
        match written_by {
            Some(cluster) if cluster != self.cluster().await? => Err(Unreadable::Foreign),
            _ => Ok(map),
        }
    }

    async fn cluster(&self) -> kube::Result<&String> {
        let read = async || {
            let anchor = within(DEFAULT_CALL_TIMEOUT, self.namespaces.get(ANCHOR)).await?;
            Ok(anchor.uid().unwrap_or_default())
        };
        self.cluster.get_or_try_init(read).await
    }

    /// Records these namespace names, as many as fit into the ConfigMap.
    ///
    /// # Errors
    /// If the ConfigMap could not be read or written.
    pub async fn add(&self, new: &BTreeSet<String>) -> Result<Recorded, Unreadable> {
        self.change(|names| fit(names, new, LIMIT)).await
    }

    /// Removes these names from the ConfigMap, except those of namespaces that exist again:
    /// `exist` is called while no other change of the ConfigMap is under way.
    ///
    /// # Errors
    /// If the ConfigMap could not be read or written.
    pub async fn forget(
        &self,
        gone: &HashSet<String>,
        exist: impl Fn(&str) -> bool,
    ) -> Result<(), Unreadable> {
        let keep = |name: &String| !gone.contains(name) || exist(name);
        self.change(|names| names.retain(keep)).await
    }

    /// Removes a name as [`Self::forget`] does. Many namespaces may be deleted at the same time, so
    /// the names that come while the ConfigMap is written are removed by one further write.
    ///
    /// # Errors
    /// If the ConfigMap could not be read or written. The names then stay recorded.
    pub async fn forget_removed(
        &self,
        name: &str,
        exist: impl Fn(&str) -> bool,
    ) -> Result<(), Unreadable> {
        self.removed.lock().insert(name.to_owned());
        let alone = self.writing.lock().await;
        let removed = std::mem::take(&mut *self.removed.lock());
        if removed.is_empty() {
            return Ok(());
        }
        let keep = |name: &String| !removed.contains(name) || exist(name);
        self.change_alone(&alone, |names| names.retain(keep)).await
    }

    /// Applies a change to the recorded names. Does not write the ConfigMap if the names stay the
    /// same.
    async fn change<T>(
        &self,
        change: impl Fn(&mut BTreeSet<String>) -> T,
    ) -> Result<T, Unreadable> {
        let alone = self.writing.lock().await;
        self.change_alone(&alone, change).await
    }

    async fn change_alone<T>(
        &self,
        _alone: &MutexGuard<'_, ()>,
        change: impl Fn(&mut BTreeSet<String>) -> T,
    ) -> Result<T, Unreadable> {
        let mut round = 0;
        loop {
            round += 1;
            let map = self.map().await?;
            let before = map.as_ref().map(names).unwrap_or_default();
            let mut after = before.clone();
            let changed = change(&mut after);
            if after == before {
                return Ok(changed);
            }
            match self.write(map, &after).await {
                Ok(()) => return Ok(changed),
                Err(kube::Error::Api(status)) if status.code == 409 && round < ROUNDS => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn write(&self, map: Option<ConfigMap>, names: &BTreeSet<String>) -> kube::Result<()> {
        let exists = map.is_some();
        // The manifest carries the resourceVersion, so the write fails if the ConfigMap has changed
        // since it was read.
        let mut map = map.unwrap_or_else(empty);
        let cluster = self.cluster().await?.clone();
        map.annotations_mut()
            .insert(SEEN_IN_CLUSTER.to_owned(), cluster);
        let text: String = names.iter().flat_map(|name| [name, "\n"]).collect();
        map.data
            .get_or_insert_default()
            .insert(KEY.to_owned(), text);
        let parameters = PostParams::default();
        if exists {
            let replaced = self.api.replace(CONFIG_MAP, &parameters, &map);
            within(DEFAULT_CALL_TIMEOUT, replaced).await.map(drop)
        } else {
            let created = self.api.create(&parameters, &map);
            within(DEFAULT_CALL_TIMEOUT, created).await.map(drop)
        }
    }
}

fn empty() -> ConfigMap {
    let metadata = ObjectMeta {
        name: Some(CONFIG_MAP.to_owned()),
        ..ObjectMeta::default()
    };
    ConfigMap {
        metadata,
        ..ConfigMap::default()
    }
}

fn names(map: &ConfigMap) -> BTreeSet<String> {
    let text = map.data.as_ref().and_then(|data| data.get(KEY));
    let lines = text.map(String::as_str).unwrap_or_default().lines();
    let lines = lines.map(str::trim).filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}

/// Adds new names as long as all names together stay within `limit` bytes. Existing names are
/// always kept.
pub(super) fn fit(names: &mut BTreeSet<String>, new: &BTreeSet<String>, limit: usize) -> Recorded {
    let mut size: usize = names.iter().map(|name| name.len() + 1).sum();
    let mut left_out = 0;
    for name in new {
        if names.contains(name) {
            continue;
        }
        if size + name.len() + 1 > limit {
            left_out += 1;
            continue;
        }
        size += name.len() + 1;
        names.insert(name.clone());
    }
    Recorded {
        names: names.len(),
        left_out,
    }
}
