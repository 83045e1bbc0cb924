//! The rule: what happens next to the list of a namespace.

use crate::objects::{
    Namespace, ObjectName, TrashList, Volume,
    trash_entry::Entry,
    trash_list::{List, ListedVolume},
};
use std::sync::Arc;

/// What the rule reads.
pub struct View<'a> {
    /// The namespace, as a live read returned it; none if it does not exist.
    pub namespace: Option<&'a Namespace>,
    /// Whether the namespace has opted out.
    pub excluded: bool,
    /// The volumes with records of claims of this namespace or of earlier ones of its name.
    pub volumes: &'a [(ObjectName, Arc<Volume>)],
    /// The ConfigMap with the name of the list.
    pub list: Option<&'a TrashList>,
}

/// What happens next to the list of a namespace, which is a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Leave the list unchanged.
    Leave,
    /// Create the list with this text.
    Create(String),
    /// Replace the content of the list by this text.
    Write(String),
    /// Delete the list: the namespace needs none, or no patch can correct this one, because it is
    /// immutable or has `binaryData`. After the latter, the next reconcile creates it again.
    Delete,
    /// A user's ConfigMap is in the way: report it.
    Report,
}

/// Decides what happens next to the list of a namespace.
pub fn decide(view: &View<'_>) -> Step {
    let Some(namespace) = view.namespace.filter(|namespace| !namespace.deleting) else {
        return Step::Leave;
    };
    let text = if view.excluded {
        None
    } else {
        text(view.volumes, namespace)
    };
    match (text, view.list) {
        (Some(_), Some(list)) if !list.owned => Step::Report,
        (_, Some(list)) if !list.owned || list.deleting => Step::Leave,
        (None, None) => Step::Leave,
        (Some(text), None) => Step::Create(text),
        (None, Some(_)) => Step::Delete,
        (Some(_), Some(list)) if list.sealed => Step::Delete,
        (Some(text), Some(list)) if list.text.as_deref() == Some(&text) => Step::Leave,
        (Some(text), Some(_)) => Step::Write(text),
    }
}

/// The text of the list: the deleted claims of this namespace, up to a limit; none if there are
/// none.
fn text(volumes: &[(ObjectName, Arc<Volume>)], namespace: &Namespace) -> Option<String> {
    let entries = volumes
        .iter()
        .filter_map(|(name, volume)| Entry::of(name, volume));
    let own = entries.filter(|entry| {
        let claim = &entry.record.claim;
        claim.namespace_uid.as_deref() == Some(&*namespace.uid)
    });
    let own: Vec<_> = own.map(|entry| ListedVolume::of(&entry)).collect();
    (!own.is_empty()).then(|| List::of(own).text())
}
