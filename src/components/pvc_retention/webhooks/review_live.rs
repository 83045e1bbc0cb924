//! Reviews claims whose StatefulSet the watch alone cannot identify: every StatefulSet that the
//! claim may belong to by its name is read live.

use super::{
    CachedCandidate, ClaimWebhook, add_owner_and_marker, candidate, deletes_with_set,
    is_from_set_controller,
};
use crate::{
    admission::{Answer, Request},
    components::pvc_retention::resolve_set::resolve_set,
    objects::{
        Claim, ObjectName,
        stateful_set::{Reading, readings},
    },
};
use futures::future::join_all;
use std::sync::Arc;

/// Refuses a claim whose StatefulSet does not exist, or exists without the template of the claim.
pub(super) fn not_created(claim: &str, reading: Reading<'_>, exists: bool) -> Answer {
    let Reading { set, template, .. } = reading;
    let why = if exists {
        format!("has no volume claim template \"{template}\"")
    } else {
        // A StatefulSet without volume claim templates is not tracked, so it is read as absent.
        "does not exist, or has no volume claim templates".to_owned()
    };
    Answer::deny(format!(
        "statefulset \"{set}\" {why}, so its claim \"{claim}\" is not created: no controller \
         would delete the claim"
    ))
}

impl ClaimWebhook {
    /// Answers the review of a claim by a live read of every StatefulSet that the claim may belong
    /// to by its name. A claim with an ambiguous name may belong to a StatefulSet that the watch
    /// has not delivered yet, and not to one of `cached`. If none of the StatefulSets exists with
    /// the template of this claim, a claim that the service account of the StatefulSet controller
    /// creates is refused: its StatefulSet is deleted already. Such a claim is nevertheless allowed
    /// if a StatefulSet in `cached` keeps its claims when it is deleted.
    pub(super) async fn review_live(
        &self,
        request: &Request,
        name: &str,
        claim: &Claim,
        cached: &[CachedCandidate<'_>],
    ) -> Answer {
        let reads = readings(name).map(async |reading| {
            let set = ObjectName::new(request.namespace.as_str(), reading.set);
            let live = self.live.get(&set, request.call_budget).await;
            if let Err(error) = &live {
                tracing::warn!(%set, %error, "cannot read the StatefulSet from the API server; the webhook adds no owner reference to the claim");
            }
            live.map(|set| set.and_then(|set| candidate(reading, Arc::new(set))))
        });
        let read: kube::Result<Vec<_>> = join_all(reads).await.into_iter().collect();
        match read {
            Ok(found) => self.among(request, name, claim, cached, found.into_iter().flatten()),
            Err(_) if is_from_set_controller(request) && self.are_deleted(request, cached) => {
                Answer::deny(format!(
                    "the statefulset of the claim \"{name}\" is deleted according to the watch, \
                     and could not be read. The claim is not created until a read succeeds"
                ))
            }
            Err(_) => Answer::Allow,
        }
    }

    /// Answers the review of a claim, given in `found` all existing StatefulSets that create claims
    /// of this name.
    fn among<'a>(
        &self,
        request: &Request,
        name: &str,
        claim: &Claim,
        cached: &[CachedCandidate<'_>],
        found: impl Iterator<Item = CachedCandidate<'a>>,
    ) -> Answer {
        let found: Vec<_> = found.collect();
        let keeps = cached.iter().any(|each| !deletes_with_set(&each.set));
        if found.is_empty() && is_from_set_controller(request) && !keeps {
            return Answer::deny(format!(
                "no statefulset creates the claim \"{name}\", so it is not created: no controller \
                 would delete the claim"
            ));
        }
        if let Some(found) = resolve_set(name, claim, found.clone(), |_| false) {
            return add_owner_and_marker(&found, claim);
        }
        // A StatefulSet of another reading exists, but the claim is of one that does not any more.
        let lost = resolve_set(name, claim, cached.to_vec(), |_| false)
            .filter(|lost| deletes_with_set(&lost.set))
            .filter(|lost| {
                !found
                    .iter()
                    .any(|each| each.reading.set == lost.reading.set)
            });
        match lost {
            Some(lost) if is_from_set_controller(request) => not_created(name, lost.reading, false),
            _ => Answer::Allow,
        }
    }

    /// Returns whether all StatefulSets of `cached` are deleted according to the watch, and their
    /// claims were to be deleted with them. False if `cached` is empty.
    fn are_deleted(&self, request: &Request, cached: &[CachedCandidate<'_>]) -> bool {
        let gone = |each: &CachedCandidate<'_>| {
            let set = ObjectName::new(request.namespace.as_str(), each.reading.set);
            deletes_with_set(&each.set) && self.sets.read().get(&set).is_none()
        };
        !cached.is_empty() && cached.iter().all(gone)
    }
}
