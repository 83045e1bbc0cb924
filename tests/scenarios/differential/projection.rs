//! The part of a scenario's objects that can be compared between two clusters: no uids, no times.
//!
//! Labels and annotations are not included. Only Volume Warden writes the mark
//! `volume-warden.dev/scaled-with`: in-tree needs none, because it deletes only claims whose pod
//! it has seen.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{ResourceExt, api::DynamicObject};
use std::collections::{BTreeMap, BTreeSet};

/// A line for each claim, pod, set and volume.
pub type Projection = BTreeSet<String>;

/// The uids of the objects that may own others, by `kind/name`.
#[derive(Default)]
pub struct Present(BTreeMap<String, String>);

impl Present {
    pub fn add(&mut self, kind: &str, objects: &[DynamicObject]) {
        let uid = |object: &DynamicObject| {
            let name = format!("{kind}/{}", object.name_any());
            (name, object.uid().unwrap_or_default())
        };
        self.0.extend(objects.iter().map(uid));
    }

    /// ` of StatefulSet/web`, with deviations from a regular reference in parentheses.
    fn owner(&self, owner: &OwnerReference) -> String {
        let name = format!("{}/{}", owner.kind, owner.name);
        let uid = self.0.get(&name);
        // The owner reference of kube-controller-manager to a pod blocks the deletion of the pod,
        // that of Volume Warden does not: see `docs/differences.md`.
        let blocks = owner.kind != "Pod";
        let notes = [
            ("gone", uid.is_none()),
            ("another", uid.is_some_and(|uid| *uid != owner.uid)),
            ("not controller", owner.controller != Some(true)),
            (
                "not blocking",
                blocks && owner.block_owner_deletion != Some(true),
            ),
        ];
        let notes = notes.into_iter().filter(|(_, applies)| *applies);
        let notes: Vec<_> = notes.map(|(note, _)| note).collect();
        if notes.is_empty() {
            format!(" of {name}")
        } else {
            format!(" of {name} ({})", notes.join(", "))
        }
    }
}

/// `claim data: Terminating Pending [kubernetes.io/pvc-protection] of Pod/user`, without the parts
/// that the object does not have.
pub fn line(label: &str, object: &DynamicObject, present: &Present) -> String {
    let mut line = format!("{label}:");
    if object.metadata.deletion_timestamp.is_some() {
        line += " Terminating";
    }
    if let Some(phase) = object.data["status"]["phase"].as_str() {
        line += &format!(" {phase}");
    }
    if !object.finalizers().is_empty() {
        line += &format!(" [{}]", object.finalizers().join(" "));
    }
    let owners = object.owner_references().iter();
    line.extend(owners.map(|owner| present.owner(owner)));
    line
}

/// `set web: 1 of 2 ready`; `, not seen yet` until the StatefulSet controller observes the latest
/// generation.
pub fn line_of_set(set: &DynamicObject) -> String {
    let (spec, status) = (&set.data["spec"], &set.data["status"]);
    let ready = status["readyReplicas"].as_u64().unwrap_or_default();
    let seen = status["observedGeneration"].as_i64() == set.metadata.generation;
    let line = line(&format!("set {}", set.name_any()), set, &Present::default());
    let unseen = if seen { "" } else { ", not seen yet" };
    format!("{line} {ready} of {} ready{unseen}", spec["replicas"])
}

/// The difference between a cluster's wanted and actual projection, for a failure message.
pub fn report(cluster: &str, wanted: &Projection, found: &Projection) -> String {
    let show = |these: &Projection, those: &Projection| -> String {
        let lines = these.difference(those).map(|line| format!("\n    {line}"));
        lines.collect()
    };
    format!(
        "\n{cluster}\n  missing:{}\n  unexpected:{}",
        show(wanted, found),
        show(found, wanted)
    )
}
