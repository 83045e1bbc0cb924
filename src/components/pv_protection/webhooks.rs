//! The webhooks of pv-protection: they add the finalizer to a new volume, and refuse to bind a
//! volume that is being deleted to a claim that was not bound to it before.

use crate::{
    admission::{Answer, Hook, Request, Review, Reviewed, Rule, Unavailable},
    cluster::{Excluded, Feed, LiveGet},
    objects::{
        Claim, ObjectName, Volume,
        finalizers::PV_PROTECTION,
        volume::{ClaimRefWire, VolumeWire},
    },
};
use std::{sync::Arc, time::Duration};

/// The webhooks of pv-protection. With `namespace`, only claims of that namespace are watched, and
/// a binding to a claim of any other namespace is allowed. A binding to a claim of an `excluded`
/// namespace, which has opted out, is allowed, too.
pub fn hooks(
    claims: &Arc<Feed<Claim>>,
    live: &Arc<LiveGet<Claim>>,
    namespace: Option<&str>,
    excluded: &Excluded,
) -> Vec<Hook> {
    let guard = Arc::new(Guard {
        claims: claims.clone(),
        live: live.clone(),
        namespace: namespace.map(str::to_owned),
        excluded: excluded.clone(),
    });
    let review = Review::with_calls(&guard, |guard, request| async move {
        guard.review(&request).await
    });
    vec![
        Hook {
            path: "/pv-protection/volumes",
            rules: &[Rule("CREATE", "persistentvolumes")],
            timeout: Duration::from_secs(2),
            review: Review::from_memory(protect),
        },
        Hook {
            path: "/pv-protection/bind",
            // The webhook configuration of version 0.1.0 also sends updates of the status to this
            // path. Later ones send them to `/pv-protection/phase`.
            rules: &[
                Rule("UPDATE", "persistentvolumes"),
                Rule("UPDATE", "persistentvolumes/status"),
            ],
            timeout: Duration::from_secs(1),
            review: review.clone(),
        },
        Hook {
            path: "/pv-protection/phase",
            rules: &[Rule("UPDATE", "persistentvolumes/status")],
            timeout: Duration::from_secs(1),
            review,
        },
    ]
}

/// Adds the finalizer to a new volume.
///
/// # Errors
/// When the object of the request cannot be parsed.
pub fn protect(request: &Request) -> Reviewed {
    let volume = Volume::from(request.object::<VolumeWire>()?);
    let state = volume.finalizer_state();
    Ok(Answer::with_finalizer(
        state,
        &volume.finalizers,
        PV_PROTECTION,
    ))
}

/// Refuses to bind a volume that is being deleted to a claim that was not bound to it before.
///
/// A claim that names this volume and has the annotation `bind-completed` was bound before: the
/// binder only repairs the `claimRef` or the phase of the volume, and a refusal would lose the
/// data of the claim. The watch of claims may be late, so a refusal requires a live read of the
/// claim. If that read fails, the binding is allowed.
struct Guard {
    claims: Arc<Feed<Claim>>,
    live: Arc<LiveGet<Claim>>,
    namespace: Option<String>,
    excluded: Excluded,
}

impl Guard {
    async fn review(&self, request: &Request) -> Reviewed {
        let volume = request.object::<VolumeWire>()?;
        let before = request.old_object::<VolumeWire>()?;
        match volume.spec.claim_ref.as_ref() {
            Some(claim)
                if volume.metadata.deletion_timestamp.is_some() && binds(&before, &volume) =>
            {
                let name = volume.metadata.name.as_deref().unwrap_or_default();
                self.judge(name, claim, request.call_budget).await
            }
            _ => Ok(Answer::Allow),
        }
    }

    async fn judge(
        &self,
        volume: &str,
        claim_ref: &ClaimRefWire,
        call_budget: Duration,
    ) -> Reviewed {
        if self
            .namespace
            .as_ref()
            .is_some_and(|namespace| *namespace != claim_ref.namespace)
        {
            // The namespace of the claim is not watched, so it is unknown whether the claim was
            // bound before. A refusal could lose the data of such a claim.
            return Ok(Answer::Allow);
        }
        if self.excluded.contains(&claim_ref.namespace) {
            return Ok(Answer::Allow);
        }
        if !self.claims.is_synced() {
            return Err(Unavailable::unsynced("claims"));
        }
        let name = ObjectName::new(claim_ref.namespace.as_str(), claim_ref.name.as_str());
        let was_bound = |claim: &Claim| claim.uid == claim_ref.uid && claim.is_bound_to(volume);
        let cached = self.claims.read().get(&name);
        if cached.is_some_and(|claim| was_bound(&claim)) {
            return Ok(Answer::Allow);
        }
        let live = self.live.get(&name, call_budget).await;
        if live.map_or(true, |claim| claim.is_some_and(|claim| was_bound(&claim))) {
            return Ok(Answer::Allow);
        }
        Ok(Answer::deny(format!(
            "persistentvolume \"{volume}\" is being deleted, so no claim may be bound to it, and \
             its binding to the claim {name} is refused. Let the claim use another volume, or wait \
             until this volume is deleted and recreated."
        )))
    }
}

/// Returns whether the update is a binding: a claim's uid appears in `claimRef`, or the phase
/// becomes Bound.
fn binds(before: &VolumeWire, after: &VolumeWire) -> bool {
    let claimed = !after.claim_uid().is_empty() && after.claim_uid() != before.claim_uid();
    claimed || (after.is_bound() && !before.is_bound())
}
