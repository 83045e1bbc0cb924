//! What decides which namespace may get a volume after its claim is deleted.

pub use super::keys::{CLAIM_NAMESPACE, RELEASE_SCOPE, RESERVED_AT};
use super::{CompactText, ObjectName, fit::VolumeProperties};
use std::{collections::BTreeMap, fmt, sync::Arc};

/// Prefix of the claim name in the `claimRef` of a parked volume, to which no claim can be bound
/// until Volume Warden reserves the volume. The uid of the volume follows.
const PARKED: &str = "parked-";

/// The labels and annotations that decide about the next claim of a volume.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reuse {
    /// Whether the released volume is only for claims of the namespace of its deleted claim, or
    /// for those of any namespace, from [`RELEASE_SCOPE`], unparsed.
    pub scope: Option<Box<str>>,
    /// The recorded namespace of the present or an earlier claim of the volume, from
    /// [`CLAIM_NAMESPACE`]; none if the value is absent or invalid.
    pub record: Option<Record>,
    /// When Volume Warden reserved the volume, from [`RESERVED_AT`], unparsed.
    pub reserved_at: Option<Box<str>>,
    /// What the volume offers to a claim; only kept of a volume that waits for the next claim of
    /// its recorded namespace.
    pub properties: Option<VolumeProperties>,
}

/// The namespace of a claim, by name and uid, and the uid of the claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The name of the namespace, which a later namespace may have, too.
    pub namespace: Arc<str>,
    /// The uid of the namespace, which no later namespace has.
    pub namespace_uid: Box<str>,
    /// The uid of the claim that the volume is or was bound to.
    pub claim_uid: CompactText,
}

impl Reuse {
    /// Returns the labels and annotations that decide about the next claim, if there are any.
    pub fn of(
        labels: Option<&BTreeMap<String, String>>,
        annotations: &BTreeMap<String, String>,
        properties: impl FnOnce() -> Option<VolumeProperties>,
    ) -> Option<Box<Self>> {
        let text = |value: &String| value.as_str().into();
        let record = annotations.get(CLAIM_NAMESPACE);
        let record = record.and_then(|value| Record::parse(value));
        let found = Self {
            scope: labels
                .and_then(|labels| labels.get(RELEASE_SCOPE))
                .map(text),
            reserved_at: annotations.get(RESERVED_AT).map(text),
            properties: record.as_ref().and_then(|_| properties()),
            record,
        };
        (found != Self::default()).then(|| Box::new(found))
    }
}

impl Record {
    /// Returns whether the record is that of the claim with this uid in this namespace.
    pub fn is_of_claim(&self, namespace: &str, uid: &CompactText) -> bool {
        self.claim_uid == *uid && *self.namespace == *namespace
    }

    /// Parses the value of [`CLAIM_NAMESPACE`]; none if it is invalid.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('/').filter(|part| !part.is_empty());
        let parts = [parts.next()?, parts.next()?, parts.next()?];
        let [namespace, namespace_uid, claim_uid] = parts;
        let record = Self {
            namespace: namespace.into(),
            namespace_uid: namespace_uid.into(),
            claim_uid: claim_uid.into(),
        };
        (record.to_string() == text).then_some(record)
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            namespace,
            namespace_uid,
            claim_uid,
        } = self;
        write!(f, "{namespace}/{namespace_uid}/{claim_uid}")
    }
}

/// The claim that a parked volume names: no client can create it, because a policy refuses such
/// names in the namespace of Volume Warden.
pub fn parked_name(system_namespace: &str, volume_uid: &CompactText) -> ObjectName {
    ObjectName::new(system_namespace, format!("{PARKED}{volume_uid}"))
}

/// Returns an index key, which no object has as its name. Under it, the index of volumes lists
/// those that wait for the next claim of the namespace, and the index of claims those that wait for
/// a volume.
pub fn waiting_in(namespace: &Arc<str>) -> ObjectName {
    ObjectName::new(namespace.clone(), "")
}

/// Returns the record of a parked volume, with the namespace whose claims it waits for; none if the
/// volume is not parked or has no record. The namespace in its `claimRef` is not compared.
pub fn parked_for(
    volume_uid: &str,
    claim: &str,
    annotations: &BTreeMap<String, String>,
) -> Option<Record> {
    let parked = claim.strip_prefix(PARKED) == Some(volume_uid);
    let record = annotations.get(CLAIM_NAMESPACE).filter(|_| parked)?;
    Record::parse(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_three_parts() {
        let record = Record::parse("shop/n-1/c-1").expect("a record");
        assert_eq!(
            (&*record.namespace, record.claim_uid.clone()),
            ("shop", "c-1".into())
        );
        assert_eq!(record.to_string(), "shop/n-1/c-1");
        for invalid in [
            "",
            "shop",
            "shop/n-1",
            "shop//c-1",
            "/n/c",
            "a/b/c/d",
            "a/b/c/",
        ] {
            assert_eq!(Record::parse(invalid), None, "{invalid}");
        }
    }
}
