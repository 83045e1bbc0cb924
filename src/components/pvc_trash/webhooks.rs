//! The webhooks of pvc-trash: for new volumes, for claims that restore data, and a warning for
//! users who delete a claim.

use super::{
    NAME,
    caches::Caches,
    confirm::Live,
    patch,
    recorded::{record_if_deleted, record_in_trash, recorded},
    refusals::{ambiguous, refuse, unbindable, unknown, unordered, unsettled},
    rule::record_at_creation,
};
use crate::{
    admission::{Answer, Hook, Request, Review, Reviewed, Rule, Unavailable},
    objects::{
        MAX_TEXT, ObjectName, Volume,
        claim::ClaimWire,
        deletion_order::{Deletion, latest},
        fit::{NeedWire, requested as requested_storage},
        patch::add_at,
        trash::{RecordedClaim, TrashRecord},
        undelete_request::{UNDELETE, UndeleteRequest},
        volume::{RETAIN, VolumeWire},
    },
};
use json_patch::PatchOperation;
use k8s_openapi::api::core::v1::PersistentVolumeClaimSpec;
use kube::api::ObjectMeta;
use serde_json::json;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// The caches and the live reads of the webhooks.
pub struct Reviews {
    /// The watches that the webhooks read.
    pub caches: Caches,
    /// Reads objects and the time from the API server during a review.
    pub live: Arc<Live>,
}

/// The webhooks of pvc-trash.
pub fn hooks(reviews: &Arc<Reviews>) -> Vec<Hook> {
    vec![
        Hook {
            path: "/pvc-trash/volumes",
            rules: &[Rule("CREATE", "persistentvolumes")],
            timeout: Duration::from_secs(2),
            review: Review::asking(reviews, |reviews, request| async move {
                reviews.volume(&request).await
            }),
        },
        Hook {
            path: "/pvc-trash/claims",
            rules: &[Rule("CREATE", "persistentvolumeclaims")],
            timeout: Duration::from_secs(2),
            review: Review::asking(reviews, |reviews, request| async move {
                reviews.restorer(&request).await
            }),
        },
    ]
}

/// Warns a user who deletes a claim whose data is kept: for how long, and how to restore it.
pub fn deletions(reviews: &Arc<Reviews>) -> Review {
    let reviews = reviews.clone();
    Review::from_memory(move |request| reviews.deletion(request))
}

impl Reviews {
    /// Enables the trash for a new volume if [`record_at_creation`] decides so, so that no stored
    /// version of the volume has the policy Delete.
    async fn volume(&self, request: &Request) -> Reviewed {
        let volume = Volume::from(request.object::<VolumeWire>()?);
        let record = self
            .caches
            .view(&volume, None, record_at_creation)
            .flatten();
        let Some(mut record) = record else {
            return Ok(Answer::Allow);
        };
        let completed = self.live.complete(&mut record.claim, request.call_budget);
        if let Err(error) = completed.await {
            // The reconciler completes the record, once the volume is Bound.
            tracing::debug!(component = NAME, %error, "the claim or its namespace could not be \
                read, so the record of the new volume lacks the uid of the namespace; the \
                reconciler adds it later");
        }
        Ok(Answer::Patch {
            operations: patch::record(&volume, &record),
            what: format!(
                "set the reclaim policy {RETAIN} to keep the data after the deletion of the claim"
            ),
            warnings: Vec::new(),
        })
    }

    /// Names the volume in a claim that requests the data of a deleted one, so that no provisioner
    /// creates an empty volume, or refuses the claim. For a claim without such a request, see
    /// [`Self::rebind`].
    async fn restorer(&self, request: &Request) -> Reviewed {
        let claim = request.object::<NeedWire>()?;
        let annotations = claim.metadata.annotations.as_ref();
        let Some(requested) = annotations.and_then(|all| all.get(UNDELETE)) else {
            return self.rebind(request, claim).await;
        };
        if requested.len() > MAX_TEXT {
            return Ok(refuse(format!(
                "the annotation {UNDELETE} is longer than {MAX_TEXT} bytes: write the name of a \
                 deleted claim or of its volume"
            )));
        }
        if let Some(only) = self.caches.only_other_than(&request.namespace) {
            return Ok(refuse(format!(
                "Volume Warden restores deleted claims of the namespace {only} alone, as its flag \
                 --namespace says"
            )));
        }
        if !self.caches.volumes.is_synced() {
            return Err(Unavailable::unsynced("volumes"));
        }
        let parsed = UndeleteRequest::parse(requested);
        let found = self.caches.deleted(&request.namespace, parsed);
        if found.is_empty() {
            return Ok(unknown(requested, &request.namespace));
        }
        let live = self
            .live
            .namespace_uid(&request.namespace, request.call_budget);
        let uid = live.await.map_err(|error| {
            Unavailable::new(format!("the namespace could not be read: {error}"))
        })?;
        let (name, volume, record) =
            match requested_volume(&found, uid.as_deref(), requested, &request.namespace) {
                Ok(found) => found,
                Err(refusal) => return Ok(refusal),
            };
        Ok(Answer::Patch {
            operations: restore(&claim.spec, name, volume)
                .into_iter()
                .chain(give_back(&claim.metadata, &record.claim))
                .collect(),
            // With `--dry-run` of Volume Warden, users see this text in a warning. They must not
            // learn the volume's name.
            what: format!("restore the data of the deleted claim {requested:?}"),
            warnings: Vec::new(),
        })
    }

    fn deletion(&self, request: &Request) -> Reviewed {
        let claim = request.old_object::<ClaimWire>()?;
        let volume = claim.spec.volume_name.as_deref().unwrap_or_default();
        let volume = self
            .caches
            .volumes
            .read()
            .get(&ObjectName::cluster_scoped(volume));
        // An administrator may have set the policy Delete since the record was written.
        let kept = volume
            .as_deref()
            .filter(|volume| volume.retain && !volume.deleting);
        let record = kept.and_then(recorded);
        let uid = claim.metadata.uid.as_deref();
        let record = record
            .filter(|record| Some(record.claim.uid.as_str()) == uid && !record.ends_at_once());
        Ok(Answer::warned(record.map(warning)))
    }
}

/// Returns which of these volumes the claim gets, with its record, or the refusal of the claim. Only
/// claims of the namespace with this uid count, and of those with one name the one that was deleted
/// last. If its volume is not in the trash, the claim gets no other one instead.
fn requested_volume<'a>(
    found: &'a [(ObjectName, Arc<Volume>)],
    namespace_uid: Option<&str>,
    requested: &str,
    namespace: &str,
) -> Result<(&'a ObjectName, &'a Volume, &'a TrashRecord), Answer> {
    let own = found.iter().filter_map(|(name, volume)| {
        let record = record_if_deleted(volume)?;
        let own = record.is_of(namespace_uid);
        own.then_some((name, &**volume, record))
    });
    let own: Vec<_> = own.collect();
    let request = UndeleteRequest::parse(requested);
    let named = own
        .iter()
        .find(|(name, ..)| request.volume() == Some(&*name.name));
    let last = || latest(&own, |(_, volume, record)| Deletion::of(volume, record));
    let (name, volume, record) = match named.map_or_else(last, |named| Ok(Some(named))) {
        Ok(Some(chosen)) => *chosen,
        Ok(None) => return Err(unknown(requested, namespace)),
        Err(two) => return Err(unordered(requested, two.map(|(name, ..)| &*name.name))),
    };
    let other = |deleted: &str| request.claim() == Some(deleted) && record.claim.name != deleted;
    if own.iter().any(|(_, _, found)| other(&found.claim.name)) {
        return Err(ambiguous(requested));
    }
    if record_in_trash(volume).is_none() {
        return Err(unsettled(requested));
    }
    match record.is_restorable() {
        true => Ok((name, volume, record)),
        false => Err(unbindable(requested)),
    }
}

fn warning(record: &TrashRecord) -> String {
    let kept = record.window().map_or_else(
        || "until an administrator deletes it".to_owned(),
        |window| format!("for {window}"),
    );
    format!(
        "the data of claim {:?} is kept {kept} after its deletion; to restore it: {}",
        record.claim.name,
        record.command()
    )
}

/// Sets the volume, its class and its mode in the claim, and adds what the claim leaves out, such
/// as access modes and size.
pub fn restore(
    claim: &PersistentVolumeClaimSpec,
    name: &ObjectName,
    volume: &Volume,
) -> Vec<PatchOperation> {
    let mut operations = Vec::new();
    if *claim == PersistentVolumeClaimSpec::default() {
        // The object may have no `spec`. An empty one stays empty.
        operations.push(add_at(&["spec"], json!({})));
    }
    operations.push(add_at(&["spec", "volumeName"], json!(&*name.name)));
    operations.push(add_at(&["spec", "storageClassName"], json!(&*volume.class)));
    let trash = volume.trash.as_deref();
    // The API server has already set the default mode, which looks like a requested one. So the
    // mode of the volume replaces it.
    if let Some(mode) = trash.and_then(|trash| trash.mode.as_deref()) {
        operations.push(add_at(&["spec", "volumeMode"], json!(mode)));
    }
    let attributes = trash.and_then(|trash| trash.attributes_class.as_deref());
    if let Some(class) = attributes.filter(|_| claim.volume_attributes_class_name.is_none()) {
        let path = ["spec", "volumeAttributesClassName"];
        operations.push(add_at(&path, json!(class)));
    }
    if let Some(trash) = trash.filter(|_| claim.access_modes.is_none()) {
        operations.push(add_at(
            &["spec", "accessModes"],
            json!(&trash.access_modes[..]),
        ));
    }
    if let Some(trash) = trash.filter(|_| requested_storage(claim).is_none()) {
        let request = json!({"requests": {"storage": &*trash.capacity}});
        operations.push(add_at(&["spec", "resources"], request));
    }
    operations
}

/// Adds the recorded labels of the deleted claim to a claim without labels, and its annotations to
/// a claim whose only annotation is the request: an author who writes labels or annotations gets
/// only those.
pub(super) fn give_back(claim: &ObjectMeta, deleted: &RecordedClaim) -> Vec<PatchOperation> {
    let number = |texts: &Option<BTreeMap<_, _>>| texts.as_ref().map_or(0, BTreeMap::len);
    let mut operations = Vec::new();
    let labels = deleted.kept_labels();
    if number(&claim.labels) == 0 && !labels.is_empty() {
        operations.push(add_at(&["metadata", "labels"], json!(labels)));
    }
    if number(&claim.annotations) == 1 {
        let kept = deleted.kept_annotations().into_iter();
        operations.extend(
            kept.map(|(key, value)| add_at(&["metadata", "annotations", key], json!(value))),
        );
    }
    operations
}
