//! Decides which claims and volumes are in the report.

use crate::{
    components::pvc_protection::unused::uses,
    hashing::{HashMap, HashSet},
    inventory::{Listed, References},
    objects::{
        ListedClaim, ObjectName, Pod, Volume,
        fit::class_of,
        is_possible_name,
        reuse::parked_for,
        trash_entry::{Entry, Next},
        unused::UNUSED,
        volume::VolumeWire,
    },
};
use k8s_openapi::{
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::Time},
    jiff::Timestamp,
};
use kube::ResourceExt as _;
use std::collections::BTreeMap;

/// What storage is used for, or why it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// A pod uses the claim.
    Used,
    /// No pod uses the claim.
    Unused,
    /// The claim of the volume was deleted, the volume still exists, and it is not
    /// [`Self::InTrash`].
    Released,
    /// The claim of the volume was deleted and can be restored.
    InTrash,
    /// The volume has no claim.
    Available,
    /// The claim of the volume was deleted, and the deletion or recycling of the volume failed.
    Failed,
}

impl State {
    /// The name of the state in every format.
    pub fn name(self) -> &'static str {
        match self {
            Self::Used => "Used",
            Self::Unused => "Unused",
            Self::Released => "Released",
            Self::InTrash => "InTrash",
            Self::Available => "Available",
            Self::Failed => "Failed",
        }
    }
}

/// A claim, or a volume without one.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What it is used for, or why it is kept.
    pub state: State,
    /// The namespace of the claim; empty if the volume names none.
    pub namespace: String,
    /// The name of the claim, also of a deleted one; empty if the volume names none.
    pub claim: String,
    /// The name of the volume; empty for a claim that is not bound.
    pub volume: String,
    /// The StorageClass; empty if there is none.
    pub class: String,
    /// The capacity, or the request of a claim that is not bound, as the API server stores it.
    pub capacity: String,
    /// For a claim, since when no pod uses it; for a volume without a claim, since when it has
    /// its phase. None if that is not recorded.
    pub since: Option<Timestamp>,
    /// When the deletion of the claim was requested; for a volume without a claim, when that of
    /// the volume was.
    pub deleted: Option<Timestamp>,
    /// What refers to the claim, in words.
    pub referenced_by: Vec<String>,
}

/// Returns what no pod uses, sorted by namespace, claim and volume. If `namespace` is set, volumes
/// whose claim is or was in another namespace, and those that name none, are left out.
pub fn rows(listed: &Listed, namespace: Option<&str>) -> Vec<Row> {
    let mut rows = inventory(listed, namespace);
    rows.retain(|row| row.state != State::Used);
    rows
}

/// Returns all claims, and the volumes without one, sorted and restricted as [`rows`] does. Only
/// claims that no pod uses have `referenced_by`.
pub fn inventory(listed: &Listed, namespace: Option<&str>) -> Vec<Row> {
    let mut pods: HashMap<(&str, &str), Vec<&Pod>> = HashMap::default();
    let mut with_too_many: HashMap<&str, Vec<&Pod>> = HashMap::default();
    for (namespace, pod) in &listed.pods {
        for claim in pod.claims() {
            pods.entry((namespace, claim)).or_default().push(pod);
        }
        if pod.mounts.are_too_many() {
            with_too_many.entry(namespace).or_default().push(pod);
        }
    }
    let references = References::new(listed);
    let is_used = |claim: &ListedClaim| {
        let (namespace, name) = (claim.namespace().unwrap_or_default(), claim.name_any());
        let owners = claim.owner_references().iter();
        let mut controllers = owners.filter(|owner| owner.controller == Some(true));
        let controller = controllers.next().map(|owner| owner.uid.as_str());
        let named = pods.get(&(&*namespace, &*name));
        let maybe = with_too_many.get(&*namespace);
        let mut named = named.into_iter().chain(maybe).flatten();
        named.any(|pod| uses(pod, &name, controller))
    };
    let claims = listed.claims.iter().map(|claim| {
        if is_used(claim) {
            of_claim(claim, State::Used)
        } else {
            Row {
                referenced_by: references.of(claim),
                ..of_claim(claim, State::Unused)
            }
        }
    });
    let named: HashSet<_> = listed.claims.iter().map(name_of).collect();
    let reserved = |volume: &VolumeWire| {
        let claim = volume.spec.claim_ref.as_ref();
        claim.is_some_and(|claim| named.contains(&(claim.namespace.clone(), claim.name.clone())))
    };
    // An Available volume that is reserved for an existing claim is about to be bound to it, so it
    // is left out.
    let volumes = listed.volumes.iter();
    let volumes = volumes.filter_map(|volume| {
        of_volume(volume).filter(|row| row.state != State::Available || !reserved(volume))
    });
    let volumes = volumes.filter(|row| namespace.is_none_or(|only| row.namespace == only));
    let mut rows: Vec<_> = claims.chain(volumes).collect();
    rows.sort_by(|a, b| key(a).cmp(&key(b)));
    rows
}

fn name_of(claim: &ListedClaim) -> (String, String) {
    (claim.namespace().unwrap_or_default(), claim.name_any())
}

fn key(row: &Row) -> (&str, &str, &str) {
    (&row.namespace, &row.claim, &row.volume)
}

fn of_claim(claim: &ListedClaim, state: State) -> Row {
    let (spec, status) = (&claim.spec, &claim.status);
    let mut conditions = status.conditions.iter().flatten();
    let unused = conditions.find(|each| each.kind == UNUSED && each.status == "True");
    // The volume that a Pending or Lost claim names may not exist, belong to another claim, or have
    // a row of its own.
    let is_bound = status.phase.as_deref() == Some("Bound");
    Row {
        state,
        namespace: claim.namespace().unwrap_or_default(),
        claim: claim.name_any(),
        volume: (spec.volume_name.clone().filter(|_| is_bound)).unwrap_or_default(),
        class: possible_class(claim.annotations(), spec.storage_class_name.as_ref()),
        capacity: storage(status.capacity.as_ref().or(claim.requests())),
        since: time(unused.and_then(|each| each.last_transition_time.as_ref())),
        deleted: time(claim.metadata.deletion_timestamp.as_ref()),
        referenced_by: Vec::new(),
    }
}

fn of_volume(volume: &VolumeWire) -> Option<Row> {
    let (spec, status) = (&volume.spec, &volume.status);
    let state = match status.phase.as_deref() {
        Some("Released") if in_trash(volume) => State::InTrash,
        Some("Released") => State::Released,
        Some("Available") => State::Available,
        Some("Failed") => State::Failed,
        _ => return None,
    };
    let (namespace, claim) = claim_of(volume);
    let capacity = spec.capacity.as_ref().and_then(|all| all.get("storage"));
    Some(Row {
        state,
        namespace,
        claim,
        volume: volume.metadata.name.clone().unwrap_or_default(),
        class: possible_class(volume.annotations(), spec.storage_class_name.as_ref()),
        capacity: capacity.cloned().unwrap_or_default(),
        since: time(status.last_phase_transition_time.as_ref()),
        deleted: time(volume.metadata.deletion_timestamp.as_ref()),
        referenced_by: Vec::new(),
    })
}

/// Returns the namespace and the name of the claim that the volume is kept for. The `claimRef` of a
/// parked volume names no real claim: it waits for any claim of its recorded namespace.
fn claim_of(volume: &VolumeWire) -> (String, String) {
    let Some(claim) = &volume.spec.claim_ref else {
        return Default::default();
    };
    let uid = volume.metadata.uid.as_deref().unwrap_or_default();
    match parked_for(uid, &claim.name, volume.annotations()) {
        Some(record) => (record.namespace.to_string(), String::new()),
        None => (claim.namespace.clone(), claim.name.clone()),
    }
}

/// Returns the StorageClass; empty if no class can have that name. Users may write any text into
/// the annotation with the class, of up to 256 KiB.
fn possible_class(annotations: &BTreeMap<String, String>, field: Option<&String>) -> String {
    Some(class_of(annotations, field))
        .filter(|class| is_possible_name(class))
        .unwrap_or_default()
}

/// Returns whether the volume is in the trash, and its data can still be restored.
fn in_trash(volume: &VolumeWire) -> bool {
    let volume = Volume::from(volume.clone());
    let name = ObjectName::cluster_scoped("");
    Entry::of(&name, &volume).is_some_and(|entry| entry.next != Next::Purging)
}

fn storage(quantities: Option<&BTreeMap<String, Quantity>>) -> String {
    let storage = quantities.and_then(|all| all.get("storage"));
    storage
        .map(|quantity| quantity.0.clone())
        .unwrap_or_default()
}

fn time(time: Option<&Time>) -> Option<Timestamp> {
    time.map(|time| time.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        objects::keys::STORAGE_CLASS,
        unused::test_objects::{claim, read, volume},
    };
    use serde_json::json;

    #[test]
    fn the_annotation_of_the_class_takes_precedence() {
        let old = json!({"metadata": {"annotations": {STORAGE_CLASS: "old"}}});
        let listed = Listed {
            claims: vec![read(claim("data", old.clone()))],
            volumes: vec![read(volume("kept", "Released", old))],
            ..Listed::default()
        };
        let rows = rows(&listed, None);
        let classes: Vec<_> = rows.iter().map(|row| &*row.class).collect();
        assert_eq!(classes, ["old", "old"]);
    }
}
