//! The names of namespaces that this cluster once had, in a ConfigMap, one a line.
//!
//! Only the leader writes it, each time on top of what it has just read. A name is forgotten when neither Kubernetes nor the backend has
//! it any more. Whatever goes wrong, a name that is not recorded is a namespace that is kept.

use crate::cluster::within;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use std::{
    collections::{BTreeSet, HashSet},
    time::Duration,
};
use tokio::sync::Mutex;

/// Its name, in the system namespace.
pub const CONFIG_MAP: &str = "volume-warden-seen-namespaces";
/// The key of the names.
const KEY: &str = "names";
/// A ConfigMap holds a mebibyte. So much is left for what somebody else puts there.
pub(super) const LIMIT: usize = 900 * 1024;
const CALL_LIMIT: Duration = Duration::from_secs(10);
/// Somebody else may write meanwhile.
const ROUNDS: u32 = 5;

/// See the module.
pub struct Seen {
    api: Api<ConfigMap>,
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
            api: Api::namespaced(client, system_namespace),
            writing: Mutex::default(),
        }
    }

    /// All names that are recorded right now.
    ///
    /// # Errors
    /// When that could not be read. Nothing may be concluded then.
    pub async fn read(&self) -> kube::Result<HashSet<String>> {
        let map = within(CALL_LIMIT, self.api.get_opt(CONFIG_MAP)).await?;
        Ok(map
            .as_ref()
            .map(names)
            .unwrap_or_default()
            .into_iter()
            .collect())
    }

    /// Records these names, as many as fit.
    ///
    /// # Errors
    /// When the ConfigMap could not be read or written.
    pub async fn add(&self, new: &BTreeSet<String>) -> kube::Result<Recorded> {
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
    ) -> kube::Result<()> {
        let keep = |name: &String| !gone.contains(name) || exist(name);
        self.change(|names| names.retain(keep)).await
    }

    /// Nothing is written where nothing changes.
    async fn change<T>(&self, change: impl Fn(&mut BTreeSet<String>) -> T) -> kube::Result<T> {
        let _alone = self.writing.lock().await;
        let mut round = 0;
        loop {
            round += 1;
            let map = within(CALL_LIMIT, self.api.get_opt(CONFIG_MAP)).await?;
            let before = map.as_ref().map(names).unwrap_or_default();
            let mut after = before.clone();
            let changed = change(&mut after);
            if after == before {
                return Ok(changed);
            }
            match self.write(map, &after).await {
                Ok(()) => return Ok(changed),
                Err(kube::Error::Api(status)) if status.code == 409 && round < ROUNDS => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn write(&self, map: Option<ConfigMap>, names: &BTreeSet<String>) -> kube::Result<()> {
        let exists = map.is_some();
        // The resourceVersion travels along: whatever was written since makes this fail.
        let mut map = map.unwrap_or_else(empty);
        let text: String = names.iter().flat_map(|name| [name, "\n"]).collect();
        map.data
            .get_or_insert_default()
            .insert(KEY.to_owned(), text);
        let parameters = PostParams::default();
        if exists {
            let replaced = self.api.replace(CONFIG_MAP, &parameters, &map);
            within(CALL_LIMIT, replaced).await.map(drop)
        } else {
            let created = self.api.create(&parameters, &map);
            within(CALL_LIMIT, created).await.map(drop)
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
