//! Finds the objects that refer to a name.

use crate::{hashing::HashMap, objects::ObjectName};
use std::{
    collections::{BTreeSet, hash_map::Entry},
    mem,
};

/// The names of the objects that refer to each name.
///
/// A name can have very many referrers: every claim `workspace-1`, `workspace-2`, … refers to the
/// name `workspace`. So adding and removing one does not compare it with all others.
#[derive(Debug, Default)]
pub struct ReferrerIndex(HashMap<ObjectName, Referrers>);

/// The referrers of one name. Most names have one, which needs no allocation.
#[derive(Debug)]
enum Referrers {
    One(ObjectName),
    Many(BTreeSet<ObjectName>),
}

impl ReferrerIndex {
    /// Records that `referrer` refers to `name`. A repetition changes nothing.
    pub fn add(&mut self, name: ObjectName, referrer: &ObjectName) {
        match self.0.entry(name) {
            Entry::Vacant(entry) => {
                entry.insert(Referrers::One(referrer.clone()));
            }
            Entry::Occupied(mut entry) => entry.get_mut().add(referrer),
        }
    }

    /// Forgets that `referrer` refers to `name`, if it did.
    pub fn remove(&mut self, name: ObjectName, referrer: &ObjectName) {
        if let Entry::Occupied(mut entry) = self.0.entry(name)
            && entry.get_mut().remove(referrer)
        {
            entry.remove();
        }
    }

    /// Returns the referrers of `name`, sorted.
    pub fn of<'a>(&'a self, name: &ObjectName) -> impl Iterator<Item = &'a ObjectName> + use<'a> {
        let (one, many) = match self.0.get(name) {
            None => (None, None),
            Some(Referrers::One(referrer)) => (Some(referrer), None),
            Some(Referrers::Many(referrers)) => (None, Some(referrers)),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// Frees memory. A list adds the referrers of a name in order, which leaves the nodes of its
    /// tree half full; a tree that is built at once has full ones.
    pub fn shrink(&mut self) {
        self.0.values_mut().for_each(|referrers| {
            if let Referrers::Many(many) = referrers {
                *many = mem::take(many).into_iter().collect();
            }
        });
    }

    /// Returns the number of names that have referrers.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.len()
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
            index.remove(name("x"), &name(removed));
            assert_eq!(referrers(&index), expected);
        }
        assert_eq!(index.len(), 0);
        index.add(name("x"), &name("a"));
        index.remove(name("x"), &name("b"));
        assert_eq!(referrers(&index), ["a"]);
    }
}
