//! The objects, their revisions and their history.

use crate::{
    hooks::{Hook, hooks},
    json::json_of,
    resources::{RESOURCES, Resource},
    route::Route,
    watch::Watcher,
};
use bytes::Bytes;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, OnceLock},
};

/// One committed write.
#[derive(Debug, Clone)]
pub struct Change {
    /// The revision of the write.
    pub revision: u64,
    /// The plural of the kind.
    pub plural: &'static str,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The object before the write; `None` if it was created.
    pub before: Option<Arc<Value>>,
    /// The object after the write; `None` if it was removed.
    pub after: Option<Arc<Value>>,
    /// The user who sent the write.
    pub user: String,
}

/// Namespace and name.
pub(crate) type Name = (String, String);
/// The objects of one kind.
pub(crate) type Objects = BTreeMap<Name, Arc<Value>>;

/// An entry of the history: for a removed object, its last state with the revision of the removal.
pub(crate) struct Entry {
    pub(crate) revision: u64,
    pub(crate) resource: &'static Resource,
    pub(crate) before: Option<Arc<Value>>,
    pub(crate) object: Arc<Value>,
    pub(crate) removed: bool,
    /// The line of each type of event, shared by all watches.
    lines: [OnceLock<Bytes>; 3],
}

/// The type of a watch event.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Added,
    Modified,
    Deleted,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

impl Entry {
    /// The event as a watch sends it.
    pub(crate) fn line(&self, kind: Kind) -> Bytes {
        let line = || {
            let head = format!("{{\"type\":\"{}\",\"object\":", kind.name());
            Bytes::from([head.as_bytes(), &json_of(&self.object), b"}\n"].concat())
        };
        self.lines[kind as usize].get_or_init(line).clone()
    }
}

type Observer = Box<dyn Fn(&Change) + Send + Sync>;

/// The state of the API server.
pub(crate) struct Store {
    pub(crate) revision: u64,
    objects: HashMap<(&'static str, &'static str), Objects>,
    pub(crate) history: Vec<Arc<Entry>>,
    /// Watches and pages that begin before this revision are refused.
    pub(crate) compacted: u64,
    /// The snapshots that LISTs in pages read from, by revision and plural.
    pub(crate) snapshots: BTreeMap<(u64, &'static str), Objects>,
    pub(crate) watchers: Vec<Watcher>,
    /// The claims that have not been written since their creation, by namespace and name.
    as_created: BTreeSet<(String, String)>,
    pub(crate) observers: Vec<Observer>,
    /// The webhooks of the present configurations; none until a write needs them.
    hooks: Option<Arc<Vec<Hook>>>,
    pub(crate) random: fastrand::Rng,
    /// The random numbers for bookmarks. They are separate from those for uids, so that uids are
    /// the same with and without bookmarks.
    bookmarks: fastrand::Rng,
}

impl Store {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            // As on a real API server, revisions never are small.
            revision: 100,
            objects: HashMap::new(),
            history: Vec::new(),
            compacted: 0,
            snapshots: BTreeMap::new(),
            watchers: Vec::new(),
            as_created: BTreeSet::new(),
            observers: Vec::new(),
            hooks: None,
            random: fastrand::Rng::with_seed(seed),
            bookmarks: fastrand::Rng::with_seed(!seed),
        }
    }

    /// Copies the writes of `from`.
    pub(crate) fn copy(&mut self, from: &mut Self) {
        self.hooks = Some(from.hooks());
        self.revision = from.revision;
        self.objects.clone_from(&from.objects);
        self.history.clone_from(&from.history);
        self.as_created.clone_from(&from.as_created);
    }

    pub(crate) fn kind(&self, resource: &Resource) -> Option<&Objects> {
        self.objects.get(&(resource.group, resource.plural))
    }

    pub(crate) fn get(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Option<&Arc<Value>> {
        self.kind(resource)?
            .get(&(namespace.to_owned(), name.to_owned()))
    }

    /// Stores `object`, or removes it, as one write. The object gets the new revision.
    pub(crate) fn commit(
        &mut self,
        resource: &'static Resource,
        user: &str,
        before: Option<Arc<Value>>,
        mut object: Value,
        removed: bool,
    ) -> Arc<Value> {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = self.revision.to_string().into();
        let object = Arc::new(object);
        let text = |field: &str| {
            object["metadata"][field]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let name = (text("namespace"), text("name"));
        let objects = self
            .objects
            .entry((resource.group, resource.plural))
            .or_default();
        if removed {
            drop(objects.remove(&name))
        } else {
            drop(objects.insert(name.clone(), object.clone()))
        }
        if resource.kind == "PersistentVolumeClaim" {
            if before.is_none() {
                self.as_created.insert(name.clone())
            } else {
                self.as_created.remove(&name)
            };
        }
        let entry = Arc::new(Entry {
            revision: self.revision,
            resource,
            before: before.clone(),
            object: object.clone(),
            removed,
            lines: Default::default(),
        });
        self.history.push(entry.clone());
        // A watch whose client has ended is dropped.
        self.watchers.retain(|watcher| watcher.notify(&entry));
        for watcher in &self.watchers {
            watcher.remind(&mut self.bookmarks, self.revision);
        }
        if resource.plural.ends_with("webhookconfigurations") {
            self.hooks = None;
        }
        let change = Change {
            revision: self.revision,
            plural: resource.plural,
            namespace: name.0,
            name: name.1,
            before,
            after: (!removed).then(|| object.clone()),
            user: user.to_owned(),
        };
        for observer in &self.observers {
            observer(&change);
        }
        object
    }

    /// The webhooks of all configurations.
    pub(crate) fn hooks(&mut self) -> Arc<Vec<Hook>> {
        if self.hooks.is_none() {
            self.hooks = Some(Arc::new(hooks(self)));
        }
        self.hooks.clone().unwrap_or_default()
    }

    /// Whether the object is a claim that has not been written since its creation. Such a claim is
    /// stored without the default phase, so the first update is a write even if it changes nothing.
    ///
    /// Source: `SetDefaults_PersistentVolumeClaim` in `pkg/apis/core/v1/defaults.go`.
    pub(crate) fn is_as_created(&self, route: &Route) -> bool {
        let name = (route.namespace.clone(), route.name.clone());
        route.resource.kind == "PersistentVolumeClaim" && self.as_created.contains(&name)
    }

    /// A new uid.
    pub(crate) fn uid(&mut self) -> String {
        let number = self.random.u128(..);
        let hex = format!("{number:032x}");
        format!(
            "{}-{}-4{}-a{}-{}",
            &hex[..8],
            &hex[8..12],
            &hex[13..16],
            &hex[17..20],
            &hex[20..]
        )
    }

    /// Five characters for a generated name.
    pub(crate) fn suffix(&mut self) -> String {
        const CHARACTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        (0..5)
            .map(|_| CHARACTERS[self.random.usize(..CHARACTERS.len())] as char)
            .collect()
    }
}

/// The resource with this plural.
pub(crate) fn resource(plural: &str) -> Option<&'static Resource> {
    RESOURCES.iter().find(|each| each.plural == plural)
}
