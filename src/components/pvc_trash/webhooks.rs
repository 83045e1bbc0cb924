//! The webhooks of pvc-trash: for new volumes, for claims that restore data, and a warning for
//! users who delete a claim.

use super::{
    NAME,
    caches::Caches,
    confirm::Live,
    patch,
    recorded::recorded,
    refusals::{refuse, unknown},
    restoration::{
        named_volume, other_origin, requested_volume, restore, restore_metadata, without_request,
    },
    rule::record_at_creation,
};
use crate::{
    admission::{Answer, Hook, Request, Review, Reviewed, Rule, Unavailable},
    objects::{
        MAX_TEXT, ObjectName, Volume,
        claim::ClaimWire,
        fit::ClaimRequirementsWire,
        trash::TrashRecord,
        undelete_request::{UNDELETE, UndeleteRequest},
        volume::{RETAIN, VolumeWire},
    },
};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

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
            review: Review::with_calls(reviews, |reviews, request| async move {
                reviews.volume(&request).await
            }),
        },
        Hook {
            path: "/pvc-trash/claims",
            rules: &[Rule("CREATE", "persistentvolumeclaims")],
            timeout: Duration::from_secs(2),
            review: Review::with_calls(reviews, |reviews, request| async move {
                reviews.requesting_claim(&request).await
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
    /// version of the volume has the policy Delete. A volume whose claim has got another one
    /// meanwhile stays as it is: kube-controller-manager deletes it, but only with that policy.
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
        match completed.await {
            Ok(other) if !other.is_empty() && *other != *request.name => return Ok(Answer::Allow),
            Ok(_) => {}
            // The reconciler completes the record, once the volume is Bound.
            Err(error) => tracing::debug!(component = NAME, %error, "the claim or its namespace \
                could not be read, so the record of the new volume lacks the uid of the namespace; \
                the reconciler adds it later"),
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
    async fn requesting_claim(&self, request: &Request) -> Reviewed {
        let claim = request.object::<ClaimRequirementsWire>()?;
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
                "Volume Warden runs with --namespace={only}, so it restores deleted claims only in \
                 that namespace"
            )));
        }
        if !self.caches.volumes.is_synced() {
            return Err(Unavailable::unsynced("volumes"));
        }
        let parsed = UndeleteRequest::parse(requested);
        let creating = ObjectName::new(&*request.namespace, &*request.name);
        let mut found = self.caches.deleted(&creating, parsed);
        if let Some(origin) = other_origin(&claim.spec, &found) {
            return Ok(without_request(origin));
        }
        if let Some(named) = named_volume(&claim.spec) {
            found.retain(|(name, _)| *name.name == *named);
        }
        if found.is_empty() {
            return Ok(unknown(requested, &request.namespace));
        }
        let until = Instant::now() + request.call_budget;
        let live = self
            .live
            .namespace_uid(&request.namespace, request.call_budget);
        let uid = live.await.map_err(unread("the namespace"))?;
        let chosen = match requested_volume(&found, uid.as_deref(), requested, &creating) {
            Ok((name, ..)) => name.clone(),
            Err(refusal) => return Ok(refusal),
        };
        // A claim keeps the name of its volume, so a purged one would keep it Pending.
        let live = self.live.refresh(&mut found, &chosen, until);
        live.await.map_err(unread("the volume"))?;
        let (name, volume, record) =
            match requested_volume(&found, uid.as_deref(), requested, &creating) {
                Ok(found) if *found.0 == chosen => found,
                // The volume of an earlier claim would have to be read, too.
                Ok(_) => {
                    return Err(Unavailable::new(
                        "the watch of volumes is late, so it is not known which volume to restore",
                    ));
                }
                Err(refusal) => return Ok(refusal),
            };
        Ok(Answer::Patch {
            operations: restore(&claim.spec, name, volume)
                .into_iter()
                .chain(restore_metadata(&claim.metadata, &record.claim))
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
            .filter(|volume| volume.retains() && !volume.deleting);
        let record = kept.and_then(recorded);
        let uid = claim.metadata.uid.as_deref();
        let record = record
            .filter(|record| Some(record.claim.uid.as_str()) == uid && !record.ends_at_once());
        Ok(Answer::warned(record.map(warning)))
    }
}

fn unread(what: &'static str) -> impl FnOnce(kube::Error) -> Unavailable {
    move |error| Unavailable::new(format!("{what} could not be read: {error}"))
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
