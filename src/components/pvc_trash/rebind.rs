//! Rebinding: which volume in the trash a new claim with the name of a deleted claim gets.
//!
//! The claim gets only a volume that it can be bound to, because its `volumeName` cannot be
//! changed later. Otherwise it gets a new volume, as without Volume Warden, and a warning says
//! why.

use super::recorded::record_if_deleted;
use crate::objects::{
    ObjectName, Volume,
    claim::AWAITING_POD,
    claim_metadata::is_filled_by_tool,
    deletion_order::{Deletion, latest},
    fit::{ClaimRequirements, ClaimRequirementsWire, VolumeProperties},
    managed_by::PROVISIONER_LABEL,
    quantity,
    trash::{MAX_UNBINDABLE, OriginalPolicy, Trash, TrashRecord},
};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use std::{collections::BTreeMap, fmt, sync::Arc};

/// How long before the end of its window a volume is not given to a claim any more. A purge lists
/// the claims that request the volume, and the API server stores a claim up to a minute after its
/// review. The clocks of two API servers may differ.
const MARGIN: SignedDuration = SignedDuration::from_mins(5);

/// The namespace and name of a volume, and its cached state.
pub type Named = (ObjectName, Arc<Volume>);

/// What the rule reads about a new claim.
pub struct View<'a> {
    /// The namespace and name of the claim.
    pub name: &'a ObjectName,
    /// What the claim requires of its volume.
    pub requirements: &'a ClaimRequirements,
    /// The uid of its namespace, by a live read.
    pub namespace_uid: &'a str,
    /// The volumes whose `claimRef` has the name of the claim.
    pub volumes: &'a [Named],
    /// The time by the clock of the API server.
    pub now: Timestamp,
    /// Whether another Pending claim requests the volume of this name.
    pub is_requested: &'a dyn Fn(&ObjectName) -> bool,
}

/// Decision about a new claim.
#[derive(Clone, Debug, PartialEq)]
pub enum Rebinding<'a> {
    /// No deleted claim of this name is in the trash.
    Absent,
    /// The claim gets this volume.
    Get(&'a Named),
    /// The claim gets a new volume, and this one stays in the trash.
    Keep(&'a ObjectName, Kept),
}

/// Why a volume in the trash is not given to the new claim with the name of its deleted claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It is not known which of several claims of this name was deleted last.
    Unordered,
    /// A user requested that its data is deleted.
    PurgeRequested,
    /// Its window ends soon, or has ended.
    Due(Timestamp),
    /// [`MAX_UNBINDABLE`] claims could not be bound to it, so only an administrator restores it.
    Unbindable,
    /// Another claim requests it.
    Requested,
    /// The claim requires something else. The text says what the volume offers.
    Misfit(String),
}

/// Returns whether any volume may be given to the claim: it has no `volumeName`, selector or data
/// source. False for a claim that was made for a single pod, or that a tool fills: they must begin
/// with an empty volume.
pub fn is_open(claim: &ClaimRequirementsWire) -> bool {
    let (metadata, spec) = (&claim.metadata, &claim.spec);
    let mut owners = metadata.owner_references.iter().flatten();
    let of_a_pod = owners.any(|owner| owner.api_version == "v1" && owner.kind == "Pod");
    let has =
        |of: &Option<BTreeMap<_, _>>, key| of.as_ref().is_some_and(|all| all.contains_key(key));
    let annotations = metadata.annotations.as_ref();
    // The marker counts only with the label.
    let awaits_pod =
        has(&metadata.annotations, AWAITING_POD) && has(&metadata.labels, PROVISIONER_LABEL);
    let named = spec
        .volume_name
        .as_ref()
        .is_some_and(|name| !name.is_empty());
    !named
        && !of_a_pod
        && !awaits_pod
        && !annotations.is_some_and(|all| all.keys().any(|key| is_filled_by_tool(key)))
        && spec.selector.is_none()
        && spec.data_source.is_none()
        && spec.data_source_ref.is_none()
}

/// Decides which volume the claim gets.
pub fn decide<'a>(view: &View<'a>) -> Rebinding<'a> {
    let kept = view
        .volumes
        .iter()
        .filter_map(|each| Some((each, view.record(&each.1)?)));
    let kept: Vec<_> = kept.collect();
    match latest(&kept, |((_, volume), record)| Deletion::of(volume, record)) {
        Ok(Some(&(found, record))) if view.is_own(record) => match view.reason(found, record) {
            None => Rebinding::Get(found),
            Some(why) => Rebinding::Keep(&found.0, why),
        },
        Err([&(found, one), &(_, other)]) if view.is_own(one) && view.is_own(other) => {
            Rebinding::Keep(&found.0, Kept::Unordered)
        }
        // There is none, or the namespace of the last one is not known: the claim gets no earlier
        // data, and its user learns nothing about a claim that may be of another namespace.
        _ => Rebinding::Absent,
    }
}

impl View<'_> {
    /// The record of a volume that is kept for a deleted claim of this name and namespace, or of
    /// one whose namespace is not known by uid. A claim of the name is being created, so the
    /// earlier one is deleted.
    fn record<'a>(&self, volume: &'a Volume) -> Option<&'a TrashRecord> {
        record_if_deleted(volume).filter(|record| {
            let claim = &record.claim;
            *self.name.namespace == *claim.namespace
                && *self.name.name == *claim.name
                && (claim.namespace_uid.is_none() || self.is_own(record))
        })
    }

    fn is_own(&self, record: &TrashRecord) -> bool {
        record.is_of(Some(self.namespace_uid))
    }

    /// Why the claim does not get the volume; none if it does.
    fn reason(&self, (name, volume): &Named, record: &TrashRecord) -> Option<Kept> {
        let trash = volume.trash.as_deref()?;
        let ended = TrashRecord {
            deleted_at: record.deleted_at.or(Some(self.now)),
            ..record.clone()
        };
        let until = ended
            .ends()
            .filter(|_| record.policy == OriginalPolicy::Delete);
        let near = |until: &Timestamp| until.duration_since(self.now) <= MARGIN;
        if trash.purge.as_deref() == Some(record.claim.uid.as_str()) {
            return Some(Kept::PurgeRequested);
        }
        if let Some(until) = until.filter(near) {
            return Some(Kept::Due(until));
        }
        if !record.is_restorable() {
            return Some(Kept::Unbindable);
        }
        if (self.is_requested)(name) {
            return Some(Kept::Requested);
        }
        let fits = properties(trash).fits(&name.name, &volume.class, self.requirements);
        (!fits).then(|| Kept::Misfit(described(volume, trash)))
    }
}

fn properties(trash: &Trash) -> VolumeProperties {
    VolumeProperties {
        capacity: quantity::of(&trash.capacity),
        access_modes: trash
            .access_modes
            .iter()
            .map(|mode| mode.to_string())
            .collect(),
        mode: trash.mode.as_deref().map(Into::into),
        attributes_class: trash.attributes_class.as_deref().map(Into::into),
        ..VolumeProperties::default()
    }
}

/// What the volume offers, for a user whose claim requires something else.
fn described(volume: &Volume, trash: &Trash) -> String {
    let mut all = vec![
        format!("class {}", volume.class),
        trash.capacity.to_string(),
    ];
    all.push(trash.access_modes.join("+"));
    all.push(trash.mode.as_deref().unwrap_or("Filesystem").to_owned());
    let attributes = trash.attributes_class.as_deref();
    all.extend(attributes.map(|class| format!("VolumeAttributesClass {class}")));
    all.join(", ")
}

impl fmt::Display for Kept {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unordered => out
                .write_str("it is not known which of several claims of this name was deleted last"),
            Self::PurgeRequested => out.write_str("a user requested that its data is deleted"),
            Self::Due(until) => write!(out, "its undelete window ends at {until}"),
            Self::Unbindable => write!(
                out,
                "{MAX_UNBINDABLE} claims could not be bound to it, so only an administrator can \
                 restore it"
            ),
            Self::Requested => out.write_str("another claim requests it"),
            Self::Misfit(properties) => write!(out, "the claim does not fit it ({properties})"),
        }
    }
}
