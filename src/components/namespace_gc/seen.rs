//! The names of namespaces that this cluster once had, in a ConfigMap, one a line.
//!
//! Only the leader writes it, each time on top of what it has just read. A name is forgotten when neither Kubernetes nor the backend has
//! it any more. Whatever goes wrong, a name that is not recorded is a namespace that is kept.

use super::NAME;
use crate::cluster::{UNHURRIED, existing, within};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client, ResourceExt,
    api::{ObjectMeta, PostParams},
};
use std::collections::{BTreeSet, HashSet};
use tokio::sync::{Mutex, OnceCell};

/// Its name, in the system namespace.
pub const CONFIG_MAP: &str = "volume-warden-seen-namespaces";
/// The key of the names.
const KEY: &str = "names";
/// The annotation that says whose names they are. A ConfigMap that was copied from another cluster must not speak for this one.
const CLUSTER: &str = "volume-warden.dev/cluster";
/// Its uid is a cluster's own, and every cluster has it.
const ANCHOR: &str = "kube-system";
/// A ConfigMap holds a mebibyte. So much is left for what somebody else puts there.
pub(super) const LIMIT: usize = 900 * 1024;
/// Somebody else may write meanwhile.
const ROUNDS: u32 = 5;

/// Why the names cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// The API server did not let us.
    #[error(transparent)]
    Kubernetes(#[from] kube::Error),
    /// They are not ours.
    #[error(
        "the ConfigMap {CONFIG_MAP} is another cluster's: its annotation {CLUSTER} is not the uid of our namespace {ANCHOR}. Once it is \
         deleted, this cluster begins a record of its own"
    )]
    Foreign,
}

/// See the module.
pub struct Seen {
    api: Api<ConfigMap>,
    namespaces: Api<Namespace>,
    cluster: OnceCell<String>,
    /// One change at a time: each is made on top of the one before.
    writing: Mutex<()>,
}

/// What became of names that were to be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// So many names are recorded now, all together.
    pub names: usize,
    /// So many did not fit.
    pub left_out: usize,
}

impl Seen {
    /// In that namespace.
    pub fn new(client: Client, system_namespace: &str) -> Self {
        Self {
            api: Api::namespaced(client.clone(), system_namespace),
            namespaces: Api::all(client),
            cluster: OnceCell::new(),
            writing: Mutex::default(),
        }
    }

    /// All names that are recorded right now.
    ///
    /// # Errors
    /// When that could not be read. Nothing may be concluded then.
    pub async fn read(&self) -> Result<HashSet<String>, Unreadable> {
        let Some(map) = self.map().await? else {
            tracing::warn!(
                component = NAME,
                name = CONFIG_MAP,
                "there is no such ConfigMap in the system namespace, so no namespace is known to have been here"
            );
            return Ok(HashSet::new());
        };
        Ok(names(&map).into_iter().collect())
    }

    /// Whether a record is kept.
    ///
    /// # Errors
    /// When that could not be read.
    pub async fn exists(&self) -> kube::Result<bool> {
        let map = existing(within(UNHURRIED, self.api.get(CONFIG_MAP)).await)?;
        Ok(map.is_some())
    }

    async fn map(&self) -> Result<Option<ConfigMap>, Unreadable> {
        let map = existing(within(UNHURRIED, self.api.get(CONFIG_MAP)).await)?;
        let written_by = map.as_ref().and_then(|map| map.annotations().get(CLUSTER));
        match written_by {
            Some(cluster) if cluster != self.cluster().await? => Err(Unreadable::Foreign),
            _ => Ok(map),
        }
    }

    async fn cluster(&self) -> kube::Result<&String> {
        let read = async || {
            let anchor = within(UNHURRIED, self.namespaces.get(ANCHOR)).await?;
            Ok(anchor.uid().unwrap_or_default())
        };
        self.cluster.get_or_try_init(read).await
    }

    /// Records these names, as many as fit.
    ///
    /// # Errors
    /// When the ConfigMap could not be read or written.
    pub async fn add(&self, new: &BTreeSet<String>) -> Result<Recorded, Unreadable> {
        self.change(|names| fit(names, new, LIMIT)).await
    }

    /// Forgets these names, except those that `exist`, by what is known when nobody else writes.
    ///
    /// # Errors
    /// When the ConfigMap could not be read or written.
    pub async fn forget(
        &self,
        gone: &HashSet<String>,
        exist: impl Fn(&str) -> bool,
    ) -> Result<(), Unreadable> {
        let keep = |name: &String| !gone.contains(name) || exist(name);
        self.change(|names| names.retain(keep)).await
    }

    /// Nothing is written where nothing changes.
    async fn change<T>(
        &self,
        change: impl Fn(&mut BTreeSet<String>) -> T,
    ) -> Result<T, Unreadable> {
        let _alone = self.writing.lock().await;
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
        // The resourceVersion travels along: whatever was written since makes this fail.
        let mut map = map.unwrap_or_else(empty);
        let cluster = self.cluster().await?.clone();
        map.annotations_mut().insert(CLUSTER.to_owned(), cluster);
        let text: String = names.iter().flat_map(|name| [name, "\n"]).collect();
        map.data
            .get_or_insert_default()
            .insert(KEY.to_owned(), text);
        let parameters = PostParams::default();
        if exists {
            let replaced = self.api.replace(CONFIG_MAP, &parameters, &map);
            within(UNHURRIED, replaced).await.map(drop)
        } else {
            let created = self.api.create(&parameters, &map);
            within(UNHURRIED, created).await.map(drop)
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

/// Adds what is new as long as all of it takes no more than `limit` bytes. What is there stays in any case.
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
