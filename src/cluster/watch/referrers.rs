//! Finds the objects that refer to another one, or to anything else that has a key.

use crate::{hashing::HashMap, objects::ObjectName};
use std::{
    borrow::Borrow,
    collections::{BTreeSet, hash_map::Entry},
    hash::Hash,
    mem,
};

/// The names of the objects that refer to each key, such as the name of another object.
///
/// A key can have very many referrers: every claim `workspace-1`, `workspace-2`, … refers to the
/// name `workspace`. So adding and removing one does not compare it with all others.
#[derive(Debug)]
pub struct ReferrerIndex<K = ObjectName>(HashMap<K, Referrers>);

impl<K> Default for ReferrerIndex<K> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

/// The referrers of one key. Most keys have one, which needs no allocation.
#[derive(Debug)]
enum Referrers {
    One(ObjectName),
    Many(BTreeSet<ObjectName>),
}

impl<K: Eq + Hash> ReferrerIndex<K> {
    /// Records that `referrer` refers to `key`. A repetition changes nothing.
    pub fn add(&mut self, key: K, referrer: &ObjectName) {
        match self.0.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(Referrers::One(referrer.clone()));
            }
            Entry::Occupied(mut entry) => entry.get_mut().add(referrer),
        }
    }

    /// Forgets that `referrer` refers to `key`, if it did.
    pub fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q, referrer: &ObjectName)
    where
        K: Borrow<Q>,
    {
        let referrers = self.0.get_mut(key);
        if referrers.is_some_and(|referrers| referrers.remove(referrer)) {
            self.0.remove(key);
        }
    }

    /// Records that `referrer` refers to `now`, and no longer to `before`; none means no key.
    pub fn replace<Q: Eq + Hash + ?Sized>(
        &mut self,
        before: Option<&Q>,
        now: Option<K>,
        referrer: &ObjectName,
    ) where
        K: Borrow<Q>,
    {
        if let Some(before) = before {
            self.remove(before, referrer);
        }
        if let Some(now) = now {
            self.add(now, referrer);
        }
    }

    /// Returns the referrers of `key`, sorted.
    pub fn of<'a, Q: Eq + Hash + ?Sized>(
        &'a self,
        key: &Q,
    ) -> impl Iterator<Item = &'a ObjectName> + use<'a, K, Q>
    where
        K: Borrow<Q>,
    {
        let (one, many) = match self.0.get(key) {
            None => (None, None),
            Some(Referrers::One(referrer)) => (Some(referrer), None),
            Some(Referrers::Many(referrers)) => (None, Some(referrers)),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// Returns the keys that have referrers, in any order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.0.keys()
    }

    /// Frees memory. A list adds the referrers of a key in order, which leaves the nodes of its
    /// tree half full; a tree that is built at once has full ones.
    pub fn shrink(&mut self) {
        self.0.values_mut().for_each(|referrers| {
            if let Referrers::Many(many) = referrers {
                *many = mem::take(many).into_iter().collect();
            }
        });
    }
}

impl Referrers {
    fn add(&mut self, referrer: &ObjectName) {
        match self {
            Self::One(known) if known == referrer => {}
            Self::One(known) => *self = Self::Many([known.clone(), referrer.clone()].into()),
            Self::Many(known) => {
                known.insert(referrer.clone());
            }
        }
    }

    /// Removes a referrer, and returns whether none is left.
    fn remove(&mut self, referrer: &ObjectName) -> bool {
        match self {
            Self::One(known) => known == referrer,
            Self::Many(known) => {
                known.remove(referrer);
                known.is_empty()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> ObjectName {
        ObjectName::new("ns", name)
    }

    fn referrers(index: &ReferrerIndex) -> Vec<&str> {
        index.of(&name("x")).map(|each| &*each.name).collect()
    }

    #[test]
    fn each_referrer_is_known_once_and_removed_alone() {
        let mut index = ReferrerIndex::default();
        for (added, expected) in [
            ("b", vec!["b"]),
            ("b", vec!["b"]),
            ("c", vec!["b", "c"]),
            ("a", vec!["a", "b", "c"]),
            ("c", vec!["a", "b", "c"]),
        ] {
            index.add(name("x"), &name(added));
            index.shrink();
            assert_eq!(referrers(&index), expected);
        }
        for (removed, expected) in [
            ("d", vec!["a", "b", "c"]),
            ("b", vec!["a", "c"]),
            ("a", vec!["c"]),
            ("a", vec!["c"]),
            ("c", vec![]),
            ("c", vec![]),
        ] {
            index.remove(&name("x"), &name(removed));
            assert_eq!(referrers(&index), expected);
        }
        assert_eq!(index.keys().count(), 0);
        index.add(name("x"), &name("a"));
        index.remove(&name("x"), &name("b"));
        assert_eq!(referrers(&index), ["a"]);
    }
}
