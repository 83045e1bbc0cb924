//! The garbage collector: deletes objects none of whose owners exists, and carries out
//! foreground deletion and orphaning.

use super::{Call, Controller};
use crate::{
    cluster::Cluster,
    json::{has_finalizer, is_deleting, list, name, namespace, owners, text, uid},
    view::View,
};
use serde_json::{Value, json};

/// Deletes objects whose owners do not exist, as the garbage collector of kube-controller-manager
/// does.
pub struct GarbageCollector;

/// The kinds that the garbage collector handles, each with the first part of its paths.
const KINDS: [(&str, &str); 3] = [
    ("pods", "/api/v1"),
    ("persistentvolumeclaims", "/api/v1"),
    ("statefulsets", "/apis/apps/v1"),
];

impl Controller for GarbageCollector {
    const NAME: &'static str = "garbage-collector";
    const USER: &'static str = "system:serviceaccount:kube-system:generic-garbage-collector";
    const KINDS: &'static [&'static str] = &[KINDS[0].0, KINDS[1].0, KINDS[2].0];

    fn act(&mut self, view: &View, live: &Cluster, _: u64) -> Vec<Call> {
        let objects = KINDS
            .iter()
            .flat_map(|kind| view.all(kind.0).map(move |object| (kind, object)));
        objects
            .filter_map(|((plural, base), object)| {
                let path = format!(
                    "{base}/namespaces/{}/{plural}/{}",
                    namespace(object),
                    name(object)
                );
                if is_deleting(object) {
                    of_owner(view, &path, object)
                } else {
                    of_dependent(live, &path, plural, object)
                }
            })
            .collect()
    }
}

/// Source: `attemptToDeleteItem` and `deleteObject` of `pkg/controller/garbagecollector`. They
/// read the object and its owners live, and delete with the uid and the resourceVersion read.
fn of_dependent(live: &Cluster, path: &str, plural: &str, known: &Value) -> Option<Call> {
    if owners(known).is_empty() {
        return None;
    }
    let object = &*live
        .server
        .get(plural, namespace(known), name(known))
        .filter(|found| uid(found) == uid(known))?;
    if owners(object).is_empty() {
        return None;
    }
    let state = |owner: &Value| {
        let plural = match text(owner, "/kind") {
            "StatefulSet" => "statefulsets",
            "Pod" => "pods",
            _ => "persistentvolumeclaims",
        };
        let found = live
            .server
            .get(plural, namespace(object), text(owner, "/name"));
        found.filter(|found| uid(found) == text(owner, "/uid"))
    };
    let (solid, gone): (Vec<&Value>, Vec<&Value>) = owners(object)
        .iter()
        .partition(|owner| state(owner).is_some());
    if !solid.is_empty() && !gone.is_empty() {
        let patch = json!({"metadata": {"uid": uid(object), "ownerReferences": solid,
            "resourceVersion": text(object, "/metadata/resourceVersion")}});
        return Some(Call::merge(path, patch));
    }
    let waiting = |owner: &&Value| {
        state(owner)
            .is_some_and(|owner| is_deleting(&owner) && has_finalizer(&owner, "foregroundDeletion"))
    };
    let all_go = gone.is_empty() && solid.iter().all(waiting);
    let read =
        json!({"uid": uid(object), "resourceVersion": text(object, "/metadata/resourceVersion")});
    (solid.is_empty() || all_go).then(|| Call::delete_with(path, json!({"preconditions": read})))
}

/// An owner that is deleted in the foreground waits for its dependents; one that orphans them
/// removes its references.
fn of_owner(view: &View, path: &str, owner: &Value) -> Option<Call> {
    let mut dependents = KINDS
        .iter()
        .flat_map(|kind| view.all(kind.0).map(move |object| (kind, object)))
        .filter(|(_, object)| {
            namespace(object) == namespace(owner)
                && owners(object)
                    .iter()
                    .any(|each| text(each, "/uid") == uid(owner))
        });
    if has_finalizer(owner, "orphan") {
        if let Some(((plural, base), object)) = dependents.next() {
            let others: Vec<&Value> = owners(object)
                .iter()
                .filter(|each| text(each, "/uid") != uid(owner))
                .collect();
            let patch = json!({"metadata": {"uid": uid(object), "ownerReferences": others,
                "resourceVersion": text(object, "/metadata/resourceVersion")}});
            return Some(Call::merge(
                format!(
                    "{base}/namespaces/{}/{plural}/{}",
                    namespace(object),
                    name(object)
                ),
                patch,
            ));
        }
        return Some(without(path, owner, "orphan"));
    }
    if !has_finalizer(owner, "foregroundDeletion") {
        return None;
    }
    let blocks = |object: &Value| {
        let mut own = owners(object)
            .iter()
            .filter(|each| text(each, "/uid") == uid(owner));
        own.any(|each| each["blockOwnerDeletion"] == true)
    };
    (!dependents.any(|(_, object)| blocks(object)))
        .then(|| without(path, owner, "foregroundDeletion"))
}

fn without(path: &str, object: &Value, finalizer: &str) -> Call {
    let left: Vec<&Value> = list(object, "/metadata/finalizers")
        .iter()
        .filter(|each| *each != finalizer)
        .collect();
    let patch = json!({"metadata": {"uid": uid(object), "finalizers": left,
        "resourceVersion": text(object, "/metadata/resourceVersion")}});
    Call::merge(path, patch)
}
