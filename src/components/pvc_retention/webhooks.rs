//! The webhook of pvc-retention: sets the owner and the marker of a claim that the StatefulSet
//! controller creates, and refuses a claim of a deleted StatefulSet.
//!
//! A StatefulSet that is deleted before the reconciler processes it would leak its claims, because
//! they have no owner. The StatefulSet controller, working from a stale cache, may create claims
//! even after their StatefulSet is deleted.

mod review_live;

use super::{
    caches::pod_name,
    patch::changes,
    resolve_set::{Candidate, READINGS, resolve_set},
    rule::{PodSlot, Step, View, decide},
};
use crate::{
    admission::{Answer, Hook, Request, Review, Reviewed, Rule, Unavailable},
    cluster::{Feed, LiveGet, RecentlyDeleted},
    objects::{
        Claim, ObjectName, StatefulSet,
        claim::ClaimWire,
        stateful_set::{Policy, Reading, Retention, readings},
    },
};
use std::{sync::Arc, time::Duration};

/// Users that create the claims of StatefulSets: the service account of the StatefulSet controller,
/// or the user of kube-controller-manager where its controllers have no service accounts of their
/// own.
const CLAIM_CREATORS: [&str; 2] = [
    "system:serviceaccount:kube-system:statefulset-controller",
    "system:kube-controller-manager",
];
/// How long a deleted StatefulSet is remembered: the StatefulSet controller may still create claims
/// for it from a stale cache.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Maximum size of a deleted StatefulSet that is remembered. A user may create and delete larger
/// ones all the time; a claim for such a one is refused once it is deleted.
const LARGEST_REMEMBERED: usize = 64 * 1024;
/// Maximum memory, in bytes, for all deleted StatefulSets that are remembered. A user may create
/// and delete many, which no quota counts any more; the oldest are then forgotten.
const MAX_REMEMBERED: usize = 8 << 20;

pub(super) const CREATE_CLAIM: &[Rule] = &[Rule("CREATE", "persistentvolumeclaims")];

/// Returns whether the request is from the StatefulSet controller, or from the user
/// `system:kube-controller-manager`, which all its controllers may share.
pub(super) fn is_made_for_a_set(request: &Request) -> bool {
    CLAIM_CREATORS.contains(&&*request.user_info.username)
}

/// Returns about how much memory a StatefulSet takes, in bytes: each text is an allocation of its
/// own, with a pointer and a length.
fn memory_bytes(set: &Arc<StatefulSet>) -> usize {
    const EACH: usize = 48;
    let texts = set.templates.len() + 2 * set.match_labels.len();
    size_of::<StatefulSet>() + EACH * (1 + texts) + set.text_bytes()
}

/// The webhook for claims that the StatefulSet controller creates. With `namespace`, only claims
/// of that namespace are managed.
pub fn hook(
    sets: &Arc<Feed<StatefulSet>>,
    live: &Arc<LiveGet<StatefulSet>>,
    namespace: Option<&str>,
) -> Hook {
    let recently_deleted = RecentlyDeleted::bounded(REMEMBERED, MAX_REMEMBERED, memory_bytes);
    let recently_deleted = Arc::new(recently_deleted);
    let memory = recently_deleted.clone();
    sets.listen(move |change| {
        if let (Some(old), None) = (change.old, change.new)
            && old.text_bytes() <= LARGEST_REMEMBERED
        {
            memory.remember(change.name.clone(), old.clone());
        }
    });
    let webhook = Arc::new(ClaimWebhook {
        sets: sets.clone(),
        live: live.clone(),
        recently_deleted,
        namespace: namespace.map(str::to_owned),
    });
    Hook {
        path: "/pvc-retention/claims",
        rules: CREATE_CLAIM,
        timeout: Duration::from_secs(2),
        review: Review::with_calls(&webhook, |webhook, request| async move {
            webhook.review(&request).await
        }),
    }
}

struct ClaimWebhook {
    sets: Arc<Feed<StatefulSet>>,
    live: Arc<LiveGet<StatefulSet>>,
    recently_deleted: Arc<RecentlyDeleted<ObjectName, Arc<StatefulSet>>>,
    namespace: Option<String>,
}

type CachedCandidate<'a> = Candidate<'a, Arc<StatefulSet>>;

impl ClaimWebhook {
    async fn review(&self, request: &Request) -> Reviewed {
        if !is_made_for_a_set(request) || self.names_other_volume(request) {
            return Ok(Answer::Allow);
        }
        let claim = request.object::<ClaimWire>()?;
        if !self.sets.is_synced() {
            return Err(Unavailable::unsynced("StatefulSets"));
        }
        let name = claim.metadata.name.clone().unwrap_or_default();
        let claim = Claim::from(claim);
        if claim.controller().is_some() {
            // Another controller of kube-controller-manager creates the claim, for example for an
            // ephemeral volume.
            return Ok(Answer::Allow);
        }
        let readings: Vec<_> = readings(&name).collect();
        if readings.is_empty() || readings.len() > READINGS {
            return Ok(Answer::Allow);
        }
        let cached = self.cached_sets(&request.namespace, &readings);
        Ok(
            match resolve_set(&name, &claim, cached.clone(), |_| false) {
                // `whenDeleted` is Retain: the claims are kept anyway when the StatefulSet is
                // deleted, so no claim can be leaked and no live read is needed. The claim gets no
                // owner, and only the marker, which deletes no claim without live reads.
                Some(found) if readings.len() == 1 && !deletes_with_set(&found.set) => {
                    add_owner_and_marker(&found, &claim)
                }
                // The policy of this StatefulSet requires no write. If the claim belongs to
                // another StatefulSet, the reconciler adds the owner reference later.
                Some(found) if retains_all(&found.set) => Answer::Allow,
                Some(found) if readings.len() == 1 => {
                    self.confirm(request, &name, &claim, found).await
                }
                _ => self.review_live(request, &name, &claim, &cached).await,
            },
        )
    }

    fn names_other_volume(&self, request: &Request) -> bool {
        let only = self.namespace.as_ref();
        only.is_some_and(|only| *only != request.namespace)
    }

    /// Answers the review of a claim by a live read of its StatefulSet. If that read fails, the
    /// claim gets no owner: the reconciler adds it later.
    async fn confirm(
        &self,
        request: &Request,
        name: &str,
        claim: &Claim,
        found: CachedCandidate<'_>,
    ) -> Answer {
        let set = ObjectName::new(request.namespace.as_str(), found.reading.set);
        match self.live.get(&set, request.call_budget).await {
            Ok(Some(live)) if live.makes(found.reading.template) => {
                let set = live.into();
                add_owner_and_marker(&CachedCandidate { set, ..found }, claim)
            }
            Ok(_) if !is_from_set_controller(request) => Answer::Allow,
            Ok(live) => review_live::not_created(name, found.reading, live.is_some()),
            // The StatefulSet of the watch may be deleted or recreated: with its uid, the garbage
            // collector would delete a claim that a pod of the new StatefulSet uses.
            Err(error) if self.sets.read().get(&set).is_some() => {
                tracing::warn!(
                    %set, %error,
                    "cannot read the StatefulSet from the API server; the webhook adds no owner \
                     reference to the claim"
                );
                Answer::Allow
            }
            Err(_) if !is_from_set_controller(request) => Answer::Allow,
            // The StatefulSet is deleted according to the watch. Without an owner reference, the
            // claim could leak. With a reference to the deleted StatefulSet, the garbage collector
            // would delete a claim that a new StatefulSet of that name may use. So the claim is
            // refused, and the StatefulSet controller retries. It also publishes the refusal as an
            // Event in the namespace, whose users must not read an error about the API server:
            // that is only logged.
            Err(error) => {
                tracing::warn!(
                    %set, %error,
                    "cannot read the StatefulSet from the API server; the claim is refused, \
                     because the watch reported the StatefulSet as deleted"
                );
                Answer::deny(format!(
                    "statefulset \"{}\" is deleted according to the watch, and could not be read. \
                     Its claim \"{name}\" is not created until a read succeeds",
                    found.reading.set
                ))
            }
        }
    }

    /// The StatefulSets that create claims of this name and that exist according to the watch, or
    /// were deleted less than a minute ago.
    fn cached_sets<'a>(
        &self,
        namespace: &str,
        readings: &[Reading<'a>],
    ) -> Vec<CachedCandidate<'a>> {
        let set = |name| {
            let cached = self.sets.read().get(&name);
            cached.or_else(|| self.recently_deleted.get(&name))
        };
        let named = |reading: &Reading<'a>| set(ObjectName::new(namespace, reading.set));
        let found = readings
            .iter()
            .filter_map(|each| candidate(*each, named(each)?));
        found.collect()
    }
}

/// Returns whether the request is from the service account of the StatefulSet controller, so that
/// no other controller can have created the claim.
fn is_from_set_controller(request: &Request) -> bool {
    request.user_info.username == CLAIM_CREATORS[0]
}

fn candidate(reading: Reading<'_>, set: Arc<StatefulSet>) -> Option<CachedCandidate<'_>> {
    set.makes(reading.template)
        .then_some(Candidate { reading, set })
}

/// Returns whether the policy deletes claims with the StatefulSet, so that a claim without an
/// owner reference would be leaked. False if the StatefulSet is deleted with `--cascade=orphan`.
fn deletes_with_set(set: &StatefulSet) -> bool {
    let retention = set.retention.filter(|_| !set.orphaning);
    retention.is_some_and(|retention| retention.when_deleted == Policy::Delete)
}

/// Returns whether no new claim of the StatefulSet needs an owner or a marker: the policy keeps all
/// claims, or the StatefulSet is deleted with `--cascade=orphan`.
fn retains_all(set: &StatefulSet) -> bool {
    set.orphaning || set.retention.unwrap_or_default() == Retention::default()
}

/// Adds to the new claim the owner reference and the marker that the reconciler would write. The
/// pod does not exist yet, because it is created after its claims.
fn add_owner_and_marker(found: &CachedCandidate<'_>, claim: &Claim) -> Answer {
    let (reading, set) = (found.reading, &found.set);
    let Some(retention) = set.retention.filter(|_| !set.orphaning) else {
        return Answer::Allow;
    };
    let verdict = decide(&View {
        claim,
        set_name: reading.set,
        set,
        pod_name: &pod_name(reading.set, reading.ordinal),
        retention,
        ordinal: reading.ordinal,
        place: PodSlot::Vacant,
    });
    match verdict.step {
        Step::Update(update) => Answer::Patch {
            operations: changes(claim, &update),
            what: format!(
                "record that the claim belongs to statefulset \"{}\"",
                reading.set
            ),
            warnings: Vec::new(),
        },
        Step::Leave | Step::Delete => Answer::Allow,
    }
}

#[cfg(test)]
#[path = "webhooks_tests.rs"]
mod tests;
