//! The webhook's answer about a new claim with the name of a deleted one.

use super::{
    NAME,
    rebind::{Kept, Named, Rebinding, View, decide, is_open},
    recorded::record_in_trash,
    restoration::restore,
    webhooks::Reviews,
};
use crate::{
    admission::{Answer, Request, Reviewed, Unavailable},
    objects::{
        ObjectName,
        fit::{ClaimRequirements, ClaimRequirementsWire},
        patch::add_at,
        rebind::{self, REBIND},
        undelete_request::{self, UNDELETE},
    },
};
use json_patch::PatchOperation;
use serde_json::json;
use std::ops::ControlFlow::{Break, Continue};
use tokio::time::Instant;

impl Reviews {
    /// Gives a new claim the volume of the deleted claim of its name, if its class requests that
    /// and [`decide`] permits it, unless the annotation `rebind` of the claim is `off`.
    pub(super) async fn rebind(&self, request: &Request, claim: ClaimRequirementsWire) -> Reviewed {
        let open = is_open(&claim);
        let annotations = claim.metadata.annotations.as_ref();
        let own = annotations.and_then(|all| all.get(REBIND));
        let own = own.map(|value| rebind::parse(value));
        let annotated = annotations.is_some();
        let requirements = ClaimRequirements::from(claim);
        if !self.caches.classes.is_synced() {
            return Err(Unavailable::unsynced("StorageClasses"));
        }
        let requested = self.caches.rebinds(requirements.class()) == Some(Ok(true));
        let handled = !request.name.is_empty() && self.caches.handles(&request.namespace);
        if !requested || !handled || !open {
            return Ok(Answer::Allow);
        }
        match own {
            Some(Ok(false)) => Ok(Answer::Allow),
            Some(Err(error)) => {
                let answer = self.rebound(request, &requirements, annotated).await?;
                let warning = format!(
                    "the annotation {REBIND} of the claim cannot be read and has no effect: {error}"
                );
                Ok(answer.and(Answer::warned(Some(warning))))
            }
            Some(Ok(true)) | None => self.rebound(request, &requirements, annotated).await,
        }
    }

    async fn rebound(
        &self,
        request: &Request,
        requirements: &ClaimRequirements,
        annotated: bool,
    ) -> Reviewed {
        if !self.caches.volumes.is_synced() {
            return Err(Unavailable::unsynced("volumes"));
        }
        let name = ObjectName::new(request.namespace.as_str(), request.name.as_str());
        let mut volumes = self.caches.referring(&name);
        if volumes.is_empty() {
            return Ok(Answer::Allow);
        }
        let until = Instant::now() + request.call_budget;
        let live = self
            .live
            .namespace_and_time(&name.namespace, request.call_budget);
        let (namespace, now) = match live.await {
            Ok(live) => live,
            Err(error) => {
                tracing::debug!(component = NAME, claim = %name, %error, "the namespace or the time \
                    of the API server could not be read, so the claim gets a new volume");
                // The warning needs the cached uid of the namespace: users do not learn which
                // claims an earlier namespace of this name had.
                let uid = self.caches.namespace_uid(&name.namespace);
                let mut records = volumes.iter().filter_map(|(_, each)| record_in_trash(each));
                let deleted = records.any(|record| record.is_of(uid.as_deref()));
                return Ok(Answer::warned(deleted.then(|| unread(&name))));
            }
        };
        let Some(namespace_uid) = namespace else {
            return Ok(Answer::Allow);
        };
        let is_requested = |volume: &ObjectName| self.caches.is_requested(volume, &name);
        let decided = |volumes: &[Named]| {
            let view = View {
                name: &name,
                requirements,
                namespace_uid: &namespace_uid,
                volumes,
                now,
                is_requested: &is_requested,
            };
            match decide(&view) {
                Rebinding::Absent => Break(Answer::Allow),
                Rebinding::Keep(volume, why) => {
                    Break(Answer::Warn(vec![kept(&name, volume, &why)]))
                }
                Rebinding::Get(found) => Continue(found.clone()),
            }
        };
        let (chosen, _) = match decided(&volumes) {
            Break(answer) => return Ok(answer),
            Continue(found) => found,
        };
        // A claim keeps the name of its volume, so a purged one would keep it Pending.
        if let Err(error) = self.live.refresh(&mut volumes, &chosen, until).await {
            tracing::debug!(component = NAME, claim = %name, %error, "the volume could not be \
                read, so the claim gets a new one");
            return Ok(Answer::warned(Some(unread(&name))));
        }
        Ok(match decided(&volumes) {
            Break(answer) => answer,
            Continue(found) if found.0 == chosen => Answer::Patch {
                operations: operations(requirements, annotated, &name, &found),
                what: format!("give the claim the volume {} of its name", found.0.name),
                warnings: vec![given(&name, &found.0)],
            },
            // That volume, of an earlier claim, would have to be read, too.
            Continue(_) => Answer::Allow,
        })
    }
}

/// Returns the same patch as for a claim that requests the data by annotation, and that
/// annotation. It adds no labels and annotations of the deleted claim: the author of this claim
/// has written those that it is to have.
fn operations(
    requirements: &ClaimRequirements,
    annotated: bool,
    name: &ObjectName,
    (volume, found): &Named,
) -> Vec<PatchOperation> {
    let mut operations = restore(requirements.spec(), volume, found);
    let requested = undelete_request::of_claim(&name.name);
    operations.push(if annotated {
        add_at(&["metadata", "annotations", UNDELETE], json!(requested))
    } else {
        add_at(&["metadata", "annotations"], json!({UNDELETE: requested}))
    });
    operations
}

fn given(claim: &ObjectName, volume: &ObjectName) -> String {
    format!(
        "claim {:?} gets volume {} of the deleted claim of its name, with its data. For a new, \
         empty volume: delete the claim, and create it with the annotation {REBIND}: \"off\"",
        &*claim.name, volume.name
    )
}

fn unread(claim: &ObjectName) -> String {
    let (namespace, name) = (&claim.namespace, &claim.name);
    format!(
        "claim {:?} gets a new volume, because Volume Warden could not verify in time that the \
         volume of the deleted claim of its name may be restored. To restore it: volume-warden \
         undelete pvc {name} -n {namespace} --new-name NEW",
        &**name
    )
}

fn kept(claim: &ObjectName, volume: &ObjectName, why: &Kept) -> String {
    let (namespace, name, volume) = (&claim.namespace, &claim.name, &volume.name);
    let sentence = format!(
        "claim {:?} gets a new volume. Volume {volume} of the deleted claim of its name stays in \
         the trash: {why}",
        &**name
    );
    match why {
        Kept::Unbindable => sentence,
        _ => format!(
            "{sentence}. To restore it: volume-warden undelete pvc {name} -n {namespace} --volume \
             {volume} --new-name NEW"
        ),
    }
}
