//! The annotations of a claim about the trash, that is, about the data of deleted claims.

use super::{
    metadata,
    trash::{UNDELETE, UNDELETE_TOUCHED},
    undelete_window::UNDELETE_WINDOW,
};
use std::collections::BTreeMap;

/// The annotations of a claim about the trash. Tenants may write them, so a value that is longer
/// than [`MAX_TEXT`](super::MAX_TEXT) is read as an empty text, which is neither a name nor a
/// duration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimTrash {
    /// The name of the deleted claim whose volume the claim requests, or of that volume, from
    /// [`UNDELETE`].
    pub undelete: Option<Box<str>>,
    /// For how long the data is to be kept after the deletion of the claim, from
    /// [`UNDELETE_WINDOW`], unparsed. It only shortens the window of the StorageClass and the
    /// namespace.
    pub window: Option<Box<str>>,
    /// Whether the claim has the annotation [`UNDELETE_TOUCHED`], which Volume Warden changes so
    /// that the binder retries.
    pub touched: bool,
}

impl ClaimTrash {
    /// Reads the annotations about the trash from all those of a claim; none if there are none.
    pub(super) fn of(annotations: &BTreeMap<String, String>) -> Option<Box<Self>> {
        let value = |key| metadata::bounded(annotations, key);
        let found = Self {
            undelete: value(UNDELETE),
            window: value(UNDELETE_WINDOW),
            touched: annotations.contains_key(UNDELETE_TOUCHED),
        };
        (found != Self::default()).then(|| Box::new(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metadata::MAX_TEXT;

    #[test]
    fn a_text_about_the_trash_is_bounded() {
        let read = |length: usize| {
            let text = "1".repeat(length);
            let annotations = [UNDELETE, UNDELETE_WINDOW].map(|key| (key.to_owned(), text.clone()));
            let found = ClaimTrash::of(&annotations.into()).expect("annotations");
            let length = |text: Option<Box<str>>| text.map(|text| text.len());
            (length(found.undelete), length(found.window))
        };
        assert_eq!(read(MAX_TEXT), (Some(MAX_TEXT), Some(MAX_TEXT)));
        assert_eq!(read(MAX_TEXT + 1), (Some(0), Some(0)));
    }
}
