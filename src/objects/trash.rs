//! The trash: what Volume Warden records on a volume whose data is kept after the deletion of its
//! claim, so that the deletion can be undone.

pub use super::keys::{PURGE, TRASH, UNDELETE, UNDELETE_TOUCHED};
use super::{
    CompactText,
    claim_metadata::{is_kept_annotation, is_kept_label},
};
use crate::go_duration;
use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

/// How long the data of a deleted claim can be restored after a restore that failed, at least.
pub const WINDOW_AFTER_RETURN: Duration = Duration::from_secs(3600);
/// Maximum number of claims in a record that the volume was reserved for and that could not be
/// bound to it. After that, only an administrator restores the data: otherwise a tenant could delay
/// the purge without end by such claims.
pub const MAX_UNBINDABLE: usize = 10;

/// Maximum length of a record that is read.
const LIMIT: usize = 16 * 1024;

/// The reclaim policy of a volume before the trash was enabled for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OriginalPolicy {
    /// The data was to be deleted with the claim. Volume Warden deletes it when the window ends, or
    /// earlier if a user requests that.
    Delete,
    /// The data was to be kept. It is never deleted by Volume Warden.
    Retain,
}

/// Placeholder for the namespace in a command that an administrator completes, because no claim can
/// be created in the namespace of the deleted one: it does not exist, or is being deleted.
pub const ANOTHER_NAMESPACE: &str = "NAMESPACE";

/// What Volume Warden records on a volume so that the deletion of its claim can be undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TrashRecord {
    /// The reclaim policy of the volume before the trash was enabled for it.
    pub policy: OriginalPolicy,
    /// The undelete window in seconds, from the deletion of the claim. With
    /// [`OriginalPolicy::Retain`], the claim can be restored after it, too.
    pub window_seconds: u64,
    /// The finalizers that a volume with the policy Delete had, except `pv-protection` and that of
    /// the external-attacher: a provisioner may remove its own when the policy is Retain. The
    /// volume gets all of them back before its data is deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// The claim whose data can be restored. If the volume is bound to another claim later, Volume
    /// Warden rewrites the record.
    pub claim: RecordedClaim,
    /// When the claim was first seen to be deleted, by the clock of the API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_at: Option<Timestamp>,
    /// When the volume was reserved for a claim that restores its data, by the clock of the API
    /// server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_at: Option<Timestamp>,
    /// The uid of the claim that the volume is reserved for. Another claim of its name, in a
    /// namespace that was recreated for example, must not get the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_for: Option<String>,
    /// When the last reservation ended without a Bound claim, by the clock of the API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned_at: Option<Timestamp>,
    /// The uids of at most [`MAX_UNBINDABLE`] claims that the volume was reserved for and that
    /// could not be bound. They do not get the volume again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unbindable: Vec<String>,
}

/// The claim for which a record holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedClaim {
    /// The namespace of the claim.
    pub namespace: String,
    /// The name of the claim.
    pub name: String,
    /// The uid of the claim.
    pub uid: String,
    /// The uid of the claim's namespace, if it was read while the claim existed. A namespace of the
    /// same name that was created later has another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_uid: Option<String>,
    /// The labels of the claim in [`ClaimMetadata`](super::claim_metadata::ClaimMetadata). A claim
    /// that restores the data gets them if it has no labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", with = "as_text")]
    pub labels: BTreeMap<String, String>,
    /// The annotations of the claim in [`ClaimMetadata`](super::claim_metadata::ClaimMetadata). A
    /// claim that restores the data gets them if it has no annotation except the one that requests
    /// the restore.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", with = "as_text")]
    pub annotations: BTreeMap<String, String>,
}

impl RecordedClaim {
    /// Returns the recorded labels that may be restored. An earlier version may have recorded
    /// others.
    pub fn kept_labels(&self) -> BTreeMap<&str, &str> {
        kept(&self.labels, is_kept_label)
    }

    /// Returns the recorded annotations that may be restored. An earlier version may have recorded
    /// others.
    pub fn kept_annotations(&self) -> BTreeMap<&str, &str> {
        kept(&self.annotations, is_kept_annotation)
    }
}

fn kept(texts: &BTreeMap<String, String>, keeps: fn(&str) -> bool) -> BTreeMap<&str, &str> {
    let texts = texts.iter().filter(|(key, _)| keeps(key));
    texts.map(|(key, value)| (&**key, &**value)).collect()
}

/// Writes what a tenant wrote as one JSON string. The policies for Volume Warden's account look for
/// quoted uids and finalizers in a record, and inside a string all quotes are escaped.
mod as_text {
    use serde::{Deserialize, Deserializer, Serializer, de, ser};
    use std::collections::BTreeMap;

    type Texts = BTreeMap<String, String>;

    pub fn serialize<S: Serializer>(texts: &Texts, serializer: S) -> Result<S::Ok, S::Error> {
        let text = serde_json::to_string(texts).map_err(ser::Error::custom)?;
        serializer.serialize_str(&text)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Texts, D::Error> {
        let text = String::deserialize(deserializer)?;
        serde_json::from_str(&text).map_err(de::Error::custom)
    }
}

impl TrashRecord {
    /// Returns when the window ends; none until the time of the deletion is recorded. After a
    /// restore that failed, it lasts for at least [`WINDOW_AFTER_RETURN`].
    pub fn ends(&self) -> Option<Timestamp> {
        let window = Duration::from_secs(self.window_seconds);
        // A window that no timestamp can represent never ends.
        let after = |begin: Timestamp, window| begin.checked_add(window).unwrap_or(Timestamp::MAX);
        let end = after(self.deleted_at?, window);
        let returned = self.returned_at;
        Some(returned.map_or(end, |at| end.max(after(at, WINDOW_AFTER_RETURN))))
    }

    /// Returns whether the undelete window is 0: the volume is purged as soon as its claim is
    /// deleted.
    pub fn ends_at_once(&self) -> bool {
        self.policy == OriginalPolicy::Delete && self.window_seconds == 0
    }

    /// Returns whether the record shows that the claim was in the namespace with this uid; false if
    /// the record has no uid.
    pub fn is_of(&self, namespace_uid: Option<&str>) -> bool {
        let recorded = self.claim.namespace_uid.as_deref();
        recorded.is_some() && recorded == namespace_uid
    }

    /// Returns the undelete window as Go writes durations; none if the data is kept without limit,
    /// because the policy of the volume was Retain.
    pub fn window(&self) -> Option<String> {
        let window = Duration::from_secs(self.window_seconds);
        let limited = self.policy == OriginalPolicy::Delete;
        limited.then(|| go_duration::format(window))
    }

    /// Returns the command that restores the claim. If the uid of the claim's namespace is not
    /// recorded, it is a command with `--to-namespace`, which only an administrator may run.
    pub fn command(&self) -> String {
        match &self.claim.namespace_uid {
            Some(_) => self.users_command(),
            None => self.administrators_command(&self.claim.namespace),
        }
    }

    /// Returns the command by which an administrator restores the claim in this namespace, or in
    /// [`ANOTHER_NAMESPACE`], also without the webhook.
    pub fn administrators_command(&self, to: &str) -> String {
        format!("{} --to-namespace {to}", self.users_command())
    }

    fn users_command(&self) -> String {
        let claim = &self.claim;
        let (name, namespace) = (&claim.name, &claim.namespace);
        format!("volume-warden undelete pvc {name} -n {namespace}")
    }

    /// Returns whether the volume may still be reserved for a claim: fewer than [`MAX_UNBINDABLE`]
    /// claims could not be bound to it.
    pub fn is_restorable(&self) -> bool {
        self.unbindable.len() < MAX_UNBINDABLE
    }

    /// Returns whether earlier restores that failed permit to reserve the volume for the claim with
    /// this uid.
    pub fn may_restore(&self, uid: &CompactText) -> bool {
        self.is_restorable() && self.unbindable.iter().all(|each| uid != each)
    }

    /// Returns the value of the annotation [`TRASH`].
    pub fn json(&self) -> String {
        // A struct of strings and numbers can always be serialized.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// What is known about a volume that has the annotation [`TRASH`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trash {
    /// The record; none if it cannot be read.
    pub record: Option<TrashRecord>,
    /// The uid of the claim whose data is to be deleted now, as a user requested, from [`PURGE`].
    pub purge: Option<Box<str>>,
    /// The capacity of the volume, as a Kubernetes quantity.
    pub capacity: Box<str>,
    /// The access modes of the volume.
    pub access_modes: Box<[Box<str>]>,
    /// The volume mode; none means Filesystem.
    pub mode: Option<Box<str>>,
    /// The name of the VolumeAttributesClass.
    pub attributes_class: Option<Box<str>>,
}

/// What a volume offers to a claim that restores its data, except its StorageClass.
#[derive(Default)]
pub(super) struct VolumePropertiesRef<'a> {
    pub(super) capacity: Option<&'a str>,
    pub(super) access_modes: &'a [String],
    pub(super) mode: Option<&'a str>,
    pub(super) attributes_class: Option<&'a str>,
}

impl Trash {
    /// Reads the annotations of a volume; none without the annotation [`TRASH`].
    pub(super) fn of<'a>(
        annotations: &BTreeMap<String, String>,
        offered: impl FnOnce() -> VolumePropertiesRef<'a>,
    ) -> Option<Box<Self>> {
        let text = annotations.get(TRASH)?;
        let bounded = Some(text).filter(|text| text.len() <= LIMIT);
        let offered = offered();
        let modes = offered.access_modes.iter();
        Some(Box::new(Self {
            record: bounded.and_then(|text| serde_json::from_str(text).ok()),
            purge: annotations.get(PURGE).map(|uid| uid.as_str().into()),
            capacity: offered.capacity.unwrap_or_default().into(),
            access_modes: modes.map(|mode| mode.as_str().into()).collect(),
            mode: offered.mode.map(Into::into),
            attributes_class: offered.attributes_class.map(Into::into),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> TrashRecord {
        TrashRecord {
            policy: OriginalPolicy::Delete,
            window_seconds: 3600,
            finalizers: vec!["external-provisioner.volume.kubernetes.io/finalizer".to_owned()],
            claim: RecordedClaim {
                namespace: "shop".to_owned(),
                name: "data".to_owned(),
                uid: "1".to_owned(),
                namespace_uid: Some("2".to_owned()),
                labels: [("app".to_owned(), "photos".to_owned())].into(),
                annotations: BTreeMap::new(),
            },
            deleted_at: "2026-01-01T00:00:00Z".parse().ok(),
            reserved_at: None,
            reserved_for: None,
            returned_at: None,
            unbindable: Vec::new(),
        }
    }

    fn read(annotations: &[(&str, &str)]) -> Option<Box<Trash>> {
        let pairs = annotations.iter();
        let pairs = pairs.map(|(key, value)| (key.to_string(), value.to_string()));
        let offered = || VolumePropertiesRef {
            capacity: Some("1Gi"),
            ..VolumePropertiesRef::default()
        };
        Trash::of(&pairs.collect(), offered)
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let trash = read(&[(TRASH, &record().json()), (PURGE, "1")]).expect("a record");
        assert_eq!(trash.record, Some(record()));
        assert_eq!(
            (trash.purge.as_deref(), &*trash.capacity),
            (Some("1"), "1Gi")
        );
    }

    /// The policies for Volume Warden's account look for these texts.
    #[test]
    fn no_text_of_a_tenant_looks_like_a_uid_or_a_finalizer() {
        let mut hostile = record();
        let texts = [
            ("uid", "9"),
            ("note", "x/finalizer"),
            ("raw", "\"uid\":\"9\""),
        ];
        let texts = texts.map(|(key, value)| (key.to_owned(), value.to_owned()));
        hostile.claim.labels = texts.clone().into();
        hostile.claim.annotations = texts.into();
        let json = hostile.json();
        assert!(json.contains("\"uid\":\"1\""), "{json}");
        for text in ["\"uid\":\"9\"", "\"x/finalizer\""] {
            assert!(!json.contains(text), "{json}");
        }
        let trash = read(&[(TRASH, &json)]).expect("a record");
        assert_eq!(trash.record, Some(hostile));
    }

    /// The volume still counts as one in the trash: nothing else may release it.
    #[test]
    fn an_unreadable_record_is_none() {
        assert_eq!(read(&[(PURGE, "1")]), None);
        let huge = format!("{{\"policy\": \"{}\"}}", "x".repeat(LIMIT));
        for text in ["", "{}", "yes", huge.as_str()] {
            let trash = read(&[(TRASH, text)]).expect("an annotation");
            assert_eq!(trash.record, None, "{text}");
        }
    }

    #[test]
    fn the_window_counts_from_the_deletion() {
        let ends = |seconds| {
            let record = TrashRecord {
                window_seconds: seconds,
                ..record()
            };
            record.ends().map(|end| end.to_string())
        };
        assert_eq!(ends(3600).as_deref(), Some("2026-01-01T01:00:00Z"));
        assert_eq!(ends(u64::MAX), Some(Timestamp::MAX.to_string()));
        let living = TrashRecord {
            deleted_at: None,
            ..record()
        };
        assert_eq!(living.ends(), None);
    }

    #[test]
    fn after_a_restore_that_failed_the_window_lasts_an_hour_at_least() {
        let ends = |returned: &str| {
            let record = TrashRecord {
                returned_at: returned.parse().ok(),
                ..record()
            };
            record.ends().map(|end| end.to_string())
        };
        assert_eq!(
            ends("2025-12-31T22:00:00Z").as_deref(),
            Some("2026-01-01T01:00:00Z")
        );
        assert_eq!(
            ends("2026-01-01T00:59:00Z").as_deref(),
            Some("2026-01-01T01:59:00Z")
        );
    }

    #[test]
    fn the_number_of_unbindable_claims_is_limited() {
        let full = |number: usize| TrashRecord {
            unbindable: (0..number).map(|each| each.to_string()).collect(),
            ..record()
        };
        assert!(full(1).may_restore(&"1".into()) && !full(1).may_restore(&"0".into()));
        assert!(full(MAX_UNBINDABLE - 1).may_restore(&"new".into()));
        assert!(!full(MAX_UNBINDABLE).may_restore(&"new".into()));
    }
}
