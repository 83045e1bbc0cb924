//! Objects of one LIST that answers many lookups.

use crate::{
    objects::{
        self,
        pod::{Mounts, PodWire},
    },
    why::read::Pod,
};
use kube::ResourceExt;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::value::RawValue;
use std::{collections::BTreeMap, sync::Arc};

/// All objects of one LIST by namespace, sorted by name.
pub(super) struct Listed<K>(BTreeMap<String, Arc<Vec<K>>>);

impl<K: ResourceExt> Listed<K> {
    pub(super) fn of(items: Vec<K>) -> Self {
        let mut namespaces: BTreeMap<String, Vec<K>> = BTreeMap::new();
        for item in items {
            let namespace = item.namespace().unwrap_or_default();
            namespaces.entry(namespace).or_default().push(item);
        }
        let sorted = namespaces.into_iter().map(|(namespace, mut items)| {
            items.sort_by_cached_key(ResourceExt::name_any);
            (namespace, Arc::new(items))
        });
        Self(sorted.collect())
    }

    /// All objects, sorted by namespace and name.
    pub(super) fn everywhere(&self) -> Arc<Vec<K>>
    where
        K: Clone,
    {
        match &*self.namespaces() {
            [only] => only.clone(),
            all => Arc::new(all.iter().flat_map(|list| list.iter().cloned()).collect()),
        }
    }

    /// The objects in the namespace. For a cluster-scoped kind, `namespace` is empty.
    pub(super) fn in_namespace(&self, namespace: &str) -> Arc<Vec<K>> {
        self.0.get(namespace).cloned().unwrap_or_default()
    }

    /// Returns one list of objects for each namespace, sorted by the names of the namespaces.
    pub(super) fn namespaces(&self) -> Vec<Arc<Vec<K>>> {
        self.0.values().cloned().collect()
    }

    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<&K> {
        let items = self.0.get(namespace)?;
        let name_of = |item: &K| item.meta().name.as_deref().unwrap_or_default().cmp(name);
        let place = items.binary_search_by(name_of).ok()?;
        items.get(place)
    }
}

/// A pod that may use claims, with its name: of its fields, only those that the rules read are
/// kept.
pub(super) type UserOfClaims = (String, objects::Pod);

/// A pod, parsed only as far as necessary to know which claims it names. A namespace may have
/// thousands of pods, and few of them name a given claim.
#[derive(Clone, Debug)]
pub(super) struct PodOfClaims {
    mounts: Mounts,
    /// The whole pod as unparsed JSON; none if the pod names no claim.
    text: Option<Box<RawValue>>,
}

impl PodOfClaims {
    pub(super) fn names_any(&self) -> bool {
        self.text.is_some()
    }

    pub(super) fn names(&self, claim: &str) -> bool {
        self.mounts.may_name(claim, |_| true)
    }

    /// Parses the whole pod.
    ///
    /// # Errors
    /// When the pod names no claim, or a field of it is not what the API defines.
    pub(super) fn parse(&self) -> serde_json::Result<Pod> {
        serde_json::from_str(self.text.as_deref().map_or("null", RawValue::get))
    }
}

impl<'de> Deserialize<'de> for PodOfClaims {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let wire: PodWire = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        let mounts = wire.mounts();
        let text = Some(text).filter(|_| mounts.name_any());
        Ok(Self { mounts, text })
    }
}
