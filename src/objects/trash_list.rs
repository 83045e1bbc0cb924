//! The list of the deleted claims of a namespace: a ConfigMap in that namespace, for its users, who
//! may not list volumes.

pub use super::keys::TRASH_LIST;
use super::{
    CompactText, Kind, ObjectName, Tracked, config_map,
    deletion_order::listed_at,
    metadata,
    trash_entry::{Entry, Next},
};
use k8s_openapi::{api::core::v1::ConfigMap, jiff::Timestamp};
use kube::{Resource, api::ObjectMeta};
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::Value;
use std::{cmp::Reverse, collections::BTreeMap};

/// The name of the ConfigMap in each namespace.
pub const NAME: &str = "volume-warden-trash";
/// The key of the ConfigMap with the list, as JSON.
pub const KEY: &str = "trash";
/// Maximum number of deleted claims in a list.
pub const MAX_CLAIMS: usize = 100;
/// Maximum length of a list. [`MAX_CLAIMS`] claims with the longest names are shorter.
pub const MAX_LIST: usize = 128 * 1024;

/// Maximum length of a name or quantity in a list: no object has a longer name.
const MAX_NAME: usize = 253;
const SELECTOR: &str = "metadata.name=volume-warden-trash";

/// A ConfigMap with the name of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrashList {
    /// The uid of the ConfigMap.
    pub uid: CompactText,
    /// The `resourceVersion` of the ConfigMap.
    pub resource_version: CompactText,
    /// Whether it has the label [`TRASH_LIST`]. Otherwise it belongs to a user.
    pub owned: bool,
    /// Whether `deletionTimestamp` is set.
    pub deleting: bool,
    /// Whether it has `immutable` or `binaryData`, so that no patch of its data corrects it.
    pub sealed: bool,
    /// The list; none if it is not the only key, is too long, or the ConfigMap belongs to a user.
    pub text: Option<Box<str>>,
}

/// The fields of a ConfigMap named `volume-warden-trash` that are parsed.
#[derive(Resource, Clone, Debug, Deserialize)]
#[resource(inherit = ConfigMap)]
#[serde(rename_all = "camelCase")]
pub struct TrashListWire {
    /// The object's standard metadata.
    #[serde(deserialize_with = "metadata::trimmed")]
    pub metadata: ObjectMeta,
    /// The values of the ConfigMap.
    #[serde(default)]
    pub data: BTreeMap<String, String>,
    /// The values of the ConfigMap that are no text.
    #[serde(default)]
    pub binary_data: BTreeMap<String, IgnoredAny>,
    /// Whether the values cannot be changed. The policy for Volume Warden's account permits no
    /// write of a ConfigMap that has the field, whatever its value is.
    #[serde(default)]
    pub immutable: Option<bool>,
}

impl Tracked for TrashList {
    type Wire = TrashListWire;
    const KIND: Kind = Kind::TrashList;
    const FIELDS: Option<&'static str> = Some(SELECTOR);

    fn track(mut wire: TrashListWire) -> Option<Self> {
        let metadata = wire.metadata;
        let labels = metadata.labels.as_ref();
        let owned = labels
            .and_then(|labels| labels.get(TRASH_LIST))
            .is_some_and(|value| value == "true");
        let alone = owned && wire.data.len() == 1;
        let text = wire.data.remove(KEY).filter(|_| alone);
        Some(Self {
            uid: metadata.uid.unwrap_or_default().into(),
            resource_version: metadata.resource_version.unwrap_or_default().into(),
            owned,
            deleting: metadata.deletion_timestamp.is_some(),
            sealed: wire.immutable.is_some() || !wire.binary_data.is_empty(),
            text: text.filter(|text| text.len() <= MAX_LIST).map(Into::into),
        })
    }
}

/// What a list says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct List {
    /// At most [`MAX_CLAIMS`] deleted claims; the one that was deleted last is the first.
    pub volumes: Vec<ListedVolume>,
    /// The number of deleted claims that are left out because of [`MAX_CLAIMS`].
    pub left_out: usize,
}

/// A deleted claim and its volume in a list, with some of the fields of
/// `volume-warden trash -o json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedVolume {
    /// The name of the deleted claim.
    pub claim: String,
    /// The capacity of the volume, as a Kubernetes quantity.
    pub capacity: String,
    /// The name of the StorageClass.
    pub storage_class: String,
    /// When the claim was deleted; none if that is not recorded yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_at: Option<Timestamp>,
    /// When the data is deleted; only set in the state `InTrash`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purged_at: Option<Timestamp>,
    /// What happens next to the volume.
    pub state: State,
    /// The name of the volume.
    pub volume: String,
    /// The undelete window in seconds, from the deletion of the claim. In the state `Kept`, the
    /// claim can be restored after it, too.
    pub window_seconds: u64,
}

/// What happens next to the volume, as the list writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// The data can be restored until [`ListedVolume::purged_at`].
    InTrash,
    /// A user requested that the data is deleted now.
    PurgeRequested,
    /// The data can be restored, and Volume Warden never deletes it.
    Kept,
    /// The volume and its data are being deleted.
    Purging,
}

impl From<Next> for State {
    fn from(next: Next) -> Self {
        match next {
            Next::Until(_) => Self::InTrash,
            Next::Requested => Self::PurgeRequested,
            Next::Kept => Self::Kept,
            Next::Purging => Self::Purging,
        }
    }
}

impl ListedVolume {
    /// Returns what the list says about the volume.
    pub fn of(entry: &Entry<'_>) -> Self {
        Self {
            claim: bounded(&entry.record.claim.name),
            capacity: bounded(entry.capacity()),
            storage_class: bounded(&entry.volume.class),
            deleted_at: entry.record.deleted_at,
            purged_at: match entry.next {
                Next::Until(end) => end,
                _ => None,
            },
            state: entry.next.into(),
            volume: bounded(&entry.name.name),
            window_seconds: entry.record.window_seconds,
        }
    }

    /// Returns what happens next to the volume.
    pub fn next(&self) -> Next {
        match self.state {
            State::InTrash => Next::Until(self.purged_at),
            State::PurgeRequested => Next::Requested,
            State::Kept => Next::Kept,
            State::Purging => Next::Purging,
        }
    }
}

impl List {
    /// Returns the list with these volumes.
    pub fn of(mut volumes: Vec<ListedVolume>) -> Self {
        volumes.sort_by(|a, b| rank(a).cmp(&rank(b)));
        let left_out = volumes.len().saturating_sub(MAX_CLAIMS);
        volumes.truncate(MAX_CLAIMS);
        Self { volumes, left_out }
    }

    /// Returns the text for the ConfigMap.
    pub fn text(&self) -> String {
        // A struct of strings and numbers can always be serialized.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

/// The sort key of a list: the latest deletion is the first.
fn rank(volume: &ListedVolume) -> (Reverse<Timestamp>, &str, &str) {
    let deleted = listed_at(volume.deleted_at);
    (Reverse(deleted), &volume.claim, &volume.volume)
}

/// Returns the text without spaces, quotes, backslashes and characters that are not ASCII, at most
/// [`MAX_NAME`] characters of it. Names and quantities stay unchanged, and a user who can write
/// other texts on a volume cannot enlarge the list by them.
fn bounded(text: &str) -> String {
    let plain = |each: &char| each.is_ascii_graphic() && !matches!(each, '"' | '\\');
    text.chars().filter(plain).take(MAX_NAME).collect()
}

/// Returns the name of the list of a namespace.
pub fn name_in(namespace: &str) -> ObjectName {
    ObjectName::new(namespace, NAME)
}

/// Returns the ConfigMap with this list.
pub fn config_map(name: &ObjectName, text: &str) -> Value {
    config_map::manifest(name, TRASH_LIST, KEY, text)
}

#[cfg(test)]
#[path = "trash_list_tests.rs"]
mod tests;
