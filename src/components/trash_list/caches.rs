//! The watches that trash-list reads.

use crate::{
    cluster::{Change, Feed, Feeds, ReferrerIndex, WorkQueue},
    objects::{Namespace, ObjectName, TrashList, Volume, trash_entry::Entry, trash_list::name_in},
};
use parking_lot::Mutex;
use std::sync::Arc;

/// The watches that trash-list reads. No two of the feeds are ever locked at once.
#[derive(Clone)]
pub struct Caches {
    /// The watch of all volumes.
    pub volumes: Arc<Feed<Volume>>,
    /// The watch of the lists, and of the ConfigMaps of users with their name.
    pub lists: Arc<Feed<TrashList>>,
    namespaces: Arc<Feed<Namespace>>,
    recorded: Arc<Recorded>,
}

impl Caches {
    /// The caches of trash-list, which read these feeds. With `namespace`, only deleted claims of
    /// that namespace are known.
    pub fn new(feeds: &Feeds, namespace: Option<&str>) -> Self {
        let recorded = Arc::new(Recorded {
            only: namespace.map(Into::into),
            volumes: Mutex::default(),
        });
        let index = recorded.clone();
        feeds.volumes.listen(move |change| index.update(change));
        Self {
            volumes: feeds.volumes.clone(),
            lists: feeds.trash_lists.clone(),
            namespaces: feeds.namespaces.clone(),
            recorded,
        }
    }

    /// Enqueues the list of a namespace when the list changes, when what it says about a volume
    /// changes, and when the namespace is created or deleted, or opts out or in.
    pub fn listen(&self, queue: &Arc<WorkQueue<ObjectName>>) {
        let (list_queue, recorded) = (queue.clone(), self.recorded.clone());
        self.volumes.listen(move |change| {
            let old = change.old.and_then(|volume| shown(change.name, volume));
            let new = change.new.and_then(|volume| shown(change.name, volume));
            if old != new {
                let namespaces = [change.old, change.new].into_iter().flatten();
                let namespaces = namespaces.filter_map(|volume| recorded.namespace(volume));
                namespaces.for_each(|namespace| list_queue.add(name_in(namespace)));
            }
        });
        let list_queue = queue.clone();
        self.lists.listen(move |change| {
            if change.old != change.new {
                list_queue.add(change.name.clone());
            }
        });
        let (list_queue, recorded) = (queue.clone(), self.recorded.clone());
        self.namespaces.listen(move |change| {
            let excluded = |namespace: &Arc<Namespace>| namespace.excluded;
            let namespace = &change.name.name;
            if change.old.map(excluded) != change.new.map(excluded) && recorded.has(namespace) {
                list_queue.add(name_in(namespace));
            }
        });
    }

    /// Returns the lists that exist or may be needed.
    pub fn candidates(&self) -> Vec<ObjectName> {
        let mut names = self.lists.read().names_where(|list| list.owned);
        names.extend(self.recorded.namespaces());
        names.sort();
        names.dedup();
        names
    }

    /// Returns the volumes with records of claims of a namespace of this name.
    pub fn volumes_of(&self, namespace: &str) -> Vec<(ObjectName, Arc<Volume>)> {
        let names = self.recorded.of(namespace);
        let volumes = self.volumes.read();
        let found = names.into_iter().map(|name| (volumes.get(&name), name));
        found
            .filter_map(|(volume, name)| Some((name, volume?)))
            .collect()
    }
}

/// What a list may say about the volume, and whose claim it was; none if the volume is not in the
/// trash.
fn shown<'a>(name: &'a ObjectName, volume: &'a Volume) -> Option<impl PartialEq + use<'a>> {
    let entry = Entry::of(name, volume)?;
    Some((
        entry.record,
        entry.next,
        entry.capacity(),
        &entry.volume.class,
    ))
}

/// The volumes with a record, by the namespace of the recorded claim.
struct Recorded {
    only: Option<Box<str>>,
    volumes: Mutex<ReferrerIndex<Box<str>>>,
}

impl Recorded {
    fn update(&self, change: &Change<'_, Volume>) {
        let before = change.old.and_then(|volume| self.namespace(volume));
        let now = change.new.and_then(|volume| self.namespace(volume));
        if before != now {
            let mut index = self.volumes.lock();
            index.replace(before, now.map(Into::into), change.name);
        }
    }

    /// Returns the namespace of the claim in the volume's record; none without a record, or if
    /// `--namespace` is another one.
    fn namespace<'a>(&self, volume: &'a Volume) -> Option<&'a str> {
        let record = volume.trash.as_deref()?.record.as_ref()?;
        let namespace = record.claim.namespace.as_str();
        let handled = self.only.as_deref().is_none_or(|only| only == namespace);
        handled.then_some(namespace)
    }

    fn has(&self, namespace: &str) -> bool {
        self.volumes.lock().of(namespace).next().is_some()
    }

    fn namespaces(&self) -> Vec<ObjectName> {
        self.volumes
            .lock()
            .keys()
            .map(|each| name_in(each))
            .collect()
    }

    fn of(&self, namespace: &str) -> Vec<ObjectName> {
        self.volumes.lock().of(namespace).cloned().collect()
    }
}
