//! Stores the tracked objects of one kind, which are found by name or by the objects that they
//! refer to.

use super::referrers::ReferrerIndex;
use crate::hashing::{HashMap, HashSet};
use crate::objects::{ObjectName, Tracked};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// How long [`Store::get_fresh`] hides an object after a write of Volume Warden. A working watch
/// delivers the result much sooner. If no event arrives in this time, the write changed nothing or
/// the event was lost, and the object must be reconciled again. A second write is safe: like the
/// first, it has preconditions.
const HIDDEN: Duration = Duration::from_secs(60);

/// All tracked objects of one kind.
#[derive(Debug)]
pub struct Store<T> {
    objects: HashMap<ObjectName, Arc<T>>,
    /// Objects that Volume Warden has written since the watch reported them, and when. They are
    /// kept in a separate map because they are few.
    stale: HashMap<ObjectName, Instant>,
    referrers: ReferrerIndex,
    /// The objects that count as referring to every name in their namespace.
    referring_to_all: ReferrerIndex<Arc<str>>,
    namespaces: HashSet<Arc<str>>,
    /// The objects of the list that is being read. None between lists, and during a list before
    /// which the store was empty: then no object can be absent.
    listed: Option<HashSet<ObjectName>>,
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self {
            objects: HashMap::default(),
            stale: HashMap::default(),
            referrers: ReferrerIndex::default(),
            referring_to_all: ReferrerIndex::default(),
            namespaces: HashSet::default(),
            listed: None,
        }
    }
}

impl<T: Tracked> Store<T> {
    /// Returns the object of that name, unless a write of Volume Warden made it stale less than a
    /// minute ago.
    pub fn get_fresh(&self, name: &ObjectName) -> Option<Arc<T>> {
        let hidden = |since: &Instant| since.elapsed() < HIDDEN;
        let object = self.objects.get(name)?;
        (!self.stale.get(name).is_some_and(hidden)).then(|| object.clone())
    }

    /// Returns the object of that name as the API server last reported it, even if a write of
    /// Volume Warden has made it stale since.
    pub fn get(&self, name: &ObjectName) -> Option<Arc<T>> {
        self.objects.get(name).cloned()
    }

    /// Returns every object that refers to `name`, such as the pods that use a claim.
    pub fn referrers(&self, name: &ObjectName) -> impl Iterator<Item = &Arc<T>> {
        self.named_referrers(name).map(|(_, object)| object)
    }

    /// Returns every object that refers to `name`, together with its own name.
    pub fn named_referrers<'a>(
        &'a self,
        name: &ObjectName,
    ) -> impl Iterator<Item = (&'a ObjectName, &'a Arc<T>)> + use<'a, T> {
        self.names_referring_to(name).filter_map(|referrer| {
            let object = self.objects.get(referrer)?;
            Some((referrer, object))
        })
    }

    /// Returns the names of the objects that refer to `name`, without reading the objects.
    pub fn names_referring_to<'a>(
        &'a self,
        name: &ObjectName,
    ) -> impl Iterator<Item = &'a ObjectName> + use<'a, T> {
        let all = self.referring_to_all.of(&name.namespace);
        self.referrers.of(name).chain(all)
    }

    /// Returns whether no object refers to `name`.
    pub fn is_unreferenced(&self, name: &ObjectName) -> bool {
        self.names_referring_to(name).next().is_none()
    }

    /// Returns every object, as the API server last reported it.
    pub fn objects(&self) -> impl Iterator<Item = (&ObjectName, &Arc<T>)> {
        self.objects.iter()
    }

    /// Returns the names of all objects for which `wanted` is true, in any order.
    pub fn names_where(&self, wanted: impl Fn(&T) -> bool) -> Vec<ObjectName> {
        let wanted = self.objects.iter().filter(|(_, object)| wanted(object));
        wanted.map(|(name, _)| name.clone()).collect()
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Returns whether the store has no object.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Stores the newest state of an object, or its deletion, and returns the previous state.
    pub fn put(&mut self, name: ObjectName, object: Option<Arc<T>>) -> Option<Arc<T>> {
        let name = ObjectName::new(self.intern(name.namespace), name.name);
        self.stale.remove(&name);
        let old = self.objects.remove(&name);
        if let Some(old) = &old {
            self.unlink(&name, old);
        }
        match object {
            Some(object) => {
                self.link(&name, &object);
                if let Some(listed) = &mut self.listed {
                    listed.insert(name.clone());
                }
                self.objects.insert(name, object);
            }
            None => self.forget_namespace_if_unused(&name.namespace),
        }
        old
    }

    /// Begins a complete list, whose objects are put next. After it, the caller removes those that
    /// are [`Store::absent`], and calls [`Store::end_list`].
    pub fn begin_list(&mut self) {
        self.listed = (!self.objects.is_empty()).then(HashSet::default);
    }

    /// Returns the names of the objects that were not put since [`Store::begin_list`], because the
    /// list did not contain them.
    pub fn absent(&self) -> Vec<ObjectName> {
        let Some(listed) = &self.listed else {
            return Vec::new();
        };
        let absent = self.objects.keys().filter(|name| !listed.contains(*name));
        absent.cloned().collect()
    }

    /// Ends a complete list: drops the shared names of namespaces without objects, and memory that
    /// the indexes do not need.
    pub fn end_list(&mut self) {
        self.listed = None;
        self.referrers.shrink();
        self.namespaces
            .retain(|namespace| Arc::strong_count(namespace) > 1);
    }

    /// Marks this object as stale after a write of Volume Warden. [`Store::get_fresh`] returns
    /// `None` until the watch delivers a newer version, or for a minute. If the store already has
    /// another version than `object`, nothing happens.
    pub fn mark_stale(&mut self, name: &ObjectName, object: &Arc<T>) {
        let known = self.objects.get(name);
        if known.is_some_and(|known| Arc::ptr_eq(known, object)) {
            self.stale.insert(name.clone(), Instant::now());
        }
    }

    /// Returns the shared copy of a namespace name: thousands of object names share one allocation.
    fn intern(&mut self, namespace: Arc<str>) -> Arc<str> {
        if let Some(known) = self.namespaces.get(&namespace) {
            return known.clone();
        }
        self.namespaces.insert(namespace.clone());
        namespace
    }

    /// Drops the shared name of a namespace without objects. Then two references remain: that of
    /// the set and that of the caller.
    fn forget_namespace_if_unused(&mut self, namespace: &Arc<str>) {
        if self
            .namespaces
            .get(namespace)
            .is_some_and(|known| Arc::strong_count(known) <= 2)
        {
            self.namespaces.remove(namespace);
        }
    }

    fn link(&mut self, name: &ObjectName, object: &T) {
        for reference in object.references(name) {
            self.referrers.add(reference, name);
        }
        if object.may_refer_to_all() {
            self.referring_to_all.add(name.namespace.clone(), name);
        }
    }

    fn unlink(&mut self, name: &ObjectName, object: &T) {
        for reference in object.references(name) {
            self.referrers.remove(&reference, name);
        }
        self.referring_to_all.remove(&name.namespace, name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::{
        Pod,
        pod::{MAX_NAMES, Mount},
    };

    fn pod(uid: &str, claims: &[&str]) -> Option<Arc<Pod>> {
        let mounts = claims
            .iter()
            .map(|&claim| Mount {
                claim: claim.into(),
                ephemeral: false,
            })
            .collect();
        Some(Arc::new(Pod {
            uid: uid.into(),
            scheduled: true,
            finished: false,
            stopped: false,
            deleting: false,
            shut_down: false,
            mounts,
            stateful_set: None,
            claim_requests: None,
        }))
    }

    fn name(name: &str) -> ObjectName {
        ObjectName::new("ns", name)
    }

    fn users(store: &Store<Pod>, claim: &str) -> Vec<String> {
        let mut users: Vec<_> = store
            .referrers(&name(claim))
            .map(|pod| pod.uid.to_string())
            .collect();
        users.sort();
        users
    }

    #[test]
    fn referrers_follow_every_change() {
        let mut store = Store::default();
        store.put(name("a"), pod("1", &["x", "y", "x"]));
        store.put(name("b"), pod("2", &["x"]));
        assert_eq!(users(&store, "x"), ["1", "2"]);
        let old = store.put(name("a"), pod("3", &["y"]));
        assert_eq!(old.map(|pod| pod.uid.to_string()), Some("1".into()));
        assert_eq!(
            (users(&store, "x"), users(&store, "y")),
            (vec!["2".into()], vec!["3".into()])
        );
        store.put(name("b"), None);
        assert_eq!(users(&store, "x"), Vec::<String>::new());
    }

    #[test]
    fn an_object_that_may_refer_to_all_is_found_by_every_name_of_its_namespace() {
        let mut store = Store::default();
        let many: Vec<_> = (0..=MAX_NAMES).map(|n| n.to_string()).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        store.put(name("a"), pod("1", &many));
        store.put(name("b"), pod("2", &["x"]));
        assert_eq!(users(&store, "x"), ["1", "2"]);
        assert_eq!(users(&store, "y"), ["1"]);
        assert!(store.is_unreferenced(&ObjectName::new("other", "x")));
        store.put(name("a"), pod("3", &["y"]));
        assert_eq!(users(&store, "x"), ["2"]);
    }

    #[test]
    fn objects_that_a_new_list_does_not_contain_are_absent() {
        let mut store = Store::default();
        store.put(name("a"), pod("1", &["x"]));
        store.put(name("b"), pod("2", &["x"]));
        store.begin_list();
        store.put(name("b"), pod("2", &["x"]));
        assert_eq!(store.absent(), [name("a")]);
        store.end_list();
        store.put(name("c"), pod("3", &["x"]));
        assert_eq!(store.absent(), [], "a watch is no list");
        assert_eq!(users(&store, "x"), ["1", "2", "3"]);
    }

    #[test]
    fn a_list_that_began_anew_counts_and_not_its_predecessor() {
        let mut store = Store::default();
        store.begin_list();
        store.put(name("a"), pod("1", &["x"]));
        store.begin_list();
        store.put(name("b"), pod("2", &["x"]));
        assert_eq!(store.absent(), [name("a")]);
    }

    #[test]
    fn a_stale_object_is_hidden_until_a_newer_version() {
        let mut store = Store::default();
        let first = pod("1", &["x"]).expect("some");
        store.put(name("a"), Some(first.clone()));
        store.mark_stale(&name("a"), &first);
        assert!(store.get_fresh(&name("a")).is_none() && store.get(&name("a")).is_some());
        store.put(name("a"), pod("1", &["x"]));
        store.mark_stale(&name("a"), &first);
        assert!(
            store.get_fresh(&name("a")).is_some(),
            "only the very copy that was acted on is stale"
        );
    }

    /// A write without an event changed nothing, or its event was lost. The first resync after
    /// a minute reconciles the object again.
    #[tokio::test(start_paused = true)]
    async fn a_stale_object_is_hidden_for_a_minute_at_most() {
        let mut store = Store::default();
        let object = pod("1", &["x"]).expect("some");
        store.put(name("a"), Some(object.clone()));
        let hidden = |store: &Store<Pod>| store.get_fresh(&name("a")).is_none();
        for _ in 0..2 {
            store.mark_stale(&name("a"), &object);
            tokio::time::advance(Duration::from_secs(59)).await;
            assert!(hidden(&store));
            tokio::time::advance(Duration::from_secs(2)).await;
            assert!(!hidden(&store));
        }
        store.put(name("a"), None);
        assert!(store.stale.is_empty(), "nothing is remembered indefinitely");
    }

    #[test]
    fn namespaces_are_shared_and_forgotten() {
        let mut store = Store::default();
        store.put(name("a"), pod("1", &["x"]));
        store.put(name("b"), pod("2", &["x"]));
        assert_eq!(store.namespaces.len(), 1);
        store.put(name("a"), None);
        assert_eq!(store.namespaces.len(), 1);
        store.put(name("b"), None);
        assert_eq!(
            (store.namespaces.len(), store.referrers.keys().count()),
            (0, 0)
        );
    }
}
