//! What identifies an object in writes and Events: its kind, its uid and its version.

use super::{Claim, CompactText, Kind, SavedVolume, StatefulSet, StorageClass, Volume};
use std::sync::Arc;

/// An object that writes and Events name.
///
/// A [`TrashList`](super::TrashList) is none. Its watch has a kind of its own, and the component
/// and the drain name it in their writes by different kinds: as a ConfigMap, the list is also
/// deleted in a namespace that has opted out.
pub trait Identified {
    /// The kind by which writes and Events name the object.
    const API_KIND: Kind;

    /// Returns the uid of the object.
    fn uid(&self) -> &CompactText;
}

/// An object whose writes test its `resourceVersion`.
pub trait Versioned: Identified {
    /// Returns the version of the object that was read.
    fn resource_version(&self) -> &CompactText;
}

impl<T: Identified> Identified for Arc<T> {
    const API_KIND: Kind = T::API_KIND;

    fn uid(&self) -> &CompactText {
        T::uid(self)
    }
}

impl<T: Versioned> Versioned for Arc<T> {
    fn resource_version(&self) -> &CompactText {
        T::resource_version(self)
    }
}

macro_rules! identified {
    ($($object:ident as $kind:ident),+) => {$(
        impl Identified for $object {
            const API_KIND: Kind = Kind::$kind;

            fn uid(&self) -> &CompactText {
                &self.uid
            }
        }
    )+};
}

macro_rules! versioned {
    ($($object:ident),+) => {$(
        impl Versioned for $object {
            fn resource_version(&self) -> &CompactText {
                &self.resource_version
            }
        }
    )+};
}

identified!(
    Claim as PersistentVolumeClaim,
    Volume as PersistentVolume,
    SavedVolume as ConfigMap,
    StatefulSet as StatefulSet,
    StorageClass as StorageClass
);
versioned!(Claim, Volume, SavedVolume);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::Tracked;

    /// A write must not be sent to another endpoint than the read.
    #[test]
    fn the_kind_is_that_of_the_read() {
        fn kinds<T: Identified + Tracked>() -> [Kind; 2] {
            [<T as Identified>::API_KIND, <T as Tracked>::KIND]
        }
        for [written, read] in [
            kinds::<Claim>(),
            kinds::<Volume>(),
            kinds::<SavedVolume>(),
            kinds::<StatefulSet>(),
            kinds::<StorageClass>(),
        ] {
            assert_eq!(written, read);
        }
    }
}
