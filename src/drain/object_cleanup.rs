//! One object, and the parts that are removed from it. A list of deleted claims is removed whole.

use crate::{
    cluster::Target,
    components::pvc_retention::{self, MarkerChange, Update},
    objects::{
        Claim, CompactText, ControllerId, Kind, ObjectName,
        claim::{AWAITING_POD, SCALED_WITH},
        expiry::EXPIRES_AT,
        finalizers,
        managed_by::PROVISIONER_LABEL,
        patch::remove,
        volume::ClaimRef,
    },
};
use json_patch::PatchOperation;

/// An object with parts to remove, or the ConfigMap of a list of deleted claims, which is deleted.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectCleanup {
    /// The kind of the object, which selects the API endpoint.
    pub kind: Kind,
    /// The namespace and name of the object, for the URL of the patch.
    pub name: ObjectName,
    /// The uid of the object, which every write tests.
    pub uid: CompactText,
    /// The version of the object for which the operations are valid.
    pub resource_version: CompactText,
    /// The parts to remove, in words, for the output.
    pub what: Vec<String>,
    /// The patch that removes these parts, except for the condition Unused. Empty for a ConfigMap.
    pub operations: Vec<PatchOperation>,
    /// Whether the condition Unused that Volume Warden has applied to the status is removed, too.
    pub applied_status: bool,
    /// What a live read of a claim must show before the patch is written; none for most objects.
    pub precondition: Option<Precondition>,
    /// The part, in words, of which this patch removes only some: a later one removes the rest.
    pub partly_removed: Option<String>,
    /// Whether `drain` deletes the copy of this volume object, a ConfigMap of pvc-trash, after a
    /// check that the API server accepts the patch, and before it writes the patch: after the
    /// patch, pvc-trash no longer keeps the volume.
    pub deletes_copy: bool,
}

/// What a live read of a claim must show, immediately before an object is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// The claim of this name and uid exists and is not being deleted.
    Exists(ClaimRef),
    /// The same, and the claim is not announced to expire: pvc-expiry may run, and relies on the
    /// trash.
    NotExpiring(ClaimRef),
    /// No claim of this name and uid exists any more. A later claim of the same name may exist.
    Deleted(ClaimRef),
}

impl ObjectCleanup {
    pub(super) fn new(
        kind: Kind,
        name: &ObjectName,
        uid: impl Into<CompactText>,
        resource_version: impl Into<CompactText>,
    ) -> Self {
        Self {
            kind,
            name: name.clone(),
            uid: uid.into(),
            resource_version: resource_version.into(),
            what: Vec::new(),
            operations: Vec::new(),
            applied_status: false,
            precondition: None,
            partly_removed: None,
            deletes_copy: false,
        }
    }

    /// Whether the volume is purged.
    pub(super) fn is_purge(&self) -> bool {
        matches!(self.precondition, Some(Precondition::Deleted(_)))
    }

    /// Identifies the object; an object that later gets the same name has another id.
    pub fn id(&self) -> String {
        format!("{} {}", object(self.kind, &self.name), self.uid)
    }

    /// Returns the object as the target of a write that tests uid and `resourceVersion`.
    pub fn target(&self) -> Target<'_> {
        Target {
            resource_version: Some(self.resource_version.clone()),
            ..Target::new(self.kind, &self.name, &self.uid)
        }
    }

    pub(super) fn remove_parts(
        &mut self,
        what: String,
        operations: impl IntoIterator<Item = PatchOperation>,
    ) {
        self.what.push(what);
        self.operations.extend(operations);
    }

    pub(super) fn label(&mut self, key: &str) {
        self.remove_parts(format!("label {key}"), [remove(&["labels", key])]);
    }

    /// Removes the condition Unused if Volume Warden wrote it, because no controller would keep it
    /// up to date. It stays on a claim that is being deleted.
    pub(super) fn unused_condition(&mut self, claim: &Claim) {
        if claim.removable_unused() {
            self.what.push("condition Unused".to_owned());
            self.applied_status = true;
        }
    }

    pub(super) fn finalizer(&mut self, all: &[Box<str>], finalizer: &str) {
        let operations = finalizers::remove(all, finalizer);
        let what = format!("finalizer {finalizer}");
        if finalizers::remain(all, finalizer) {
            self.partly_removed = Some(what.clone());
        }
        self.remove_parts(what, operations);
    }

    /// Removes the label and the annotation that pvc-provisioner wrote on the claim, unless the
    /// label names another installation. The owner reference to the pod stays.
    pub(super) fn provisioner_markers(&mut self, claim: &Claim, id: &ControllerId) {
        let labels = claim.rare.managed_by.as_deref();
        let label = labels.and_then(|labels| labels.provisioner.as_deref());
        let own = label == Some(id.as_str());
        if own {
            self.label(PROVISIONER_LABEL);
        }
        if claim.rare.awaiting_pod.is_some() && (own || label.is_none()) {
            let mark = remove(&["annotations", AWAITING_POD]);
            self.remove_parts(format!("annotation {AWAITING_POD}"), [mark]);
        }
    }

    /// Removes the announced time at which pvc-expiry would delete the claim.
    pub(super) fn announced_expiry(&mut self, claim: &Claim) {
        let expiry = claim.rare.expiry.as_deref();
        if expiry.is_some_and(|expiry| expiry.at.is_some()) {
            let announcement = remove(&["annotations", EXPIRES_AT]);
            self.remove_parts(format!("annotation {EXPIRES_AT}"), [announcement]);
        }
    }

    pub(super) fn owners_and_mark(&mut self, claim: &Claim, update: &Update) {
        let goes = claim
            .rare
            .owners
            .iter()
            .filter(|each| !update.owners.contains(each));
        let goes = goes.map(|owner| format!("owner reference {}/{}", owner.kind, owner.name));
        self.what.extend(goes);
        if update.mark == MarkerChange::Remove {
            self.what.push(format!("annotation {SCALED_WITH}"));
        }
        self.operations
            .extend(pvc_retention::changes(claim, update));
    }
}

/// Names an object in output, such as `claim shop/data`.
pub fn object(kind: Kind, name: &ObjectName) -> String {
    let kind = match kind {
        Kind::PersistentVolume => "volume",
        Kind::TrashList => "ConfigMap",
        _ => "claim",
    };
    format!("{kind} {name}")
}
