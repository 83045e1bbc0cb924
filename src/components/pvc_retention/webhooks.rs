//! The webhook at admission: a claim that the StatefulSet controller creates has its owner from birth, and is not created at all for a
//! set that is gone.
//!
//! A claim without an owner would be leaked by a set that is deleted before the reconciler comes by; and the controller, working from
//! what it last heard, creates claims even after their set is gone.

mod ask;

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

/// Who creates the claims of sets: the controller's own service account, or that of all controllers where kube-controller-manager
/// runs without one for each.
const MAKERS: [&str; 2] = [
    "system:serviceaccount:kube-system:statefulset-controller",
    "system:kube-controller-manager",
];
/// The StatefulSet controller may still create claims for a set that went so long ago, having not heard the end of it.
const REMEMBERED: Duration = Duration::from_secs(60);

pub(super) const CREATE_CLAIM: &[Rule] = &[Rule {
    operation: "CREATE",
    resource: "persistentvolumeclaims",
    subresource: "",
}];

/// By the StatefulSet controller, or by some controller in the name of all of them.
pub(super) fn is_made_for_a_set(request: &Request) -> bool {
    MAKERS.contains(&&*request.user_info.username)
}

/// The webhook for claims that the StatefulSet controller creates. `namespace` is the only one that is looked after, where there is
/// one.
pub fn hook(
    sets: &Arc<Feed<StatefulSet>>,
    live: &Arc<LiveGet<StatefulSet>>,
    namespace: Option<&str>,
) -> Hook {
    let recently_deleted = Arc::new(RecentlyDeleted::new(REMEMBERED));
    let memory = recently_deleted.clone();
    sets.listen(move |change| {
        if let (Some(old), None) = (change.old, change.new) {
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
        review: Review::Asking(Arc::new(move |request| {
            let webhook = webhook.clone();
            Box::pin(async move { webhook.review(&request).await })
        })),
    }
}

struct ClaimWebhook {
    sets: Arc<Feed<StatefulSet>>,
    live: Arc<LiveGet<StatefulSet>>,
    recently_deleted: Arc<RecentlyDeleted<ObjectName, Arc<StatefulSet>>>,
    namespace: Option<String>,
}

type Found<'a> = Candidate<'a, Arc<StatefulSet>>;

impl ClaimWebhook {
    async fn review(&self, request: &Request) -> Reviewed {
        if !is_made_for_a_set(request) || self.is_elsewhere(request) {
            return Ok(Answer::Allow);
        }
        let claim = request.object::<ClaimWire>()?;
        if !self.sets.is_synced() {
            return Err(Unavailable::new(
                "the watch of StatefulSets has no complete list yet",
            ));
        }
        let name = claim.metadata.name.clone().unwrap_or_default();
        let claim = Claim::from(claim);
        if claim.controller().is_some() {
            // Another controller's, which acts in the name of kube-controller-manager: an ephemeral volume's, for instance.
            return Ok(Answer::Allow);
        }
        let readings: Vec<_> = readings(&name).collect();
        if readings.is_empty() || readings.len() > READINGS {
            return Ok(Answer::Allow);
        }
        let caches = self.told(&request.namespace, &readings);
        Ok(
            match resolve_set(&name, &claim, caches.clone(), |_| false) {
                // Nothing can be leaked, so nobody has to be asked.
                Some(told) if readings.len() == 1 && !deletes_with_set(&told.set) => {
                    stamp(&told, &claim)
                }
                // Nothing is written, so it does not matter whether the claim is another set's.
                Some(told) if retains_all(&told.set) => Answer::Allow,
                Some(told) if readings.len() == 1 => {
                    self.confirm(request, &name, &claim, told).await
                }
                _ => self.ask(request, &name, &claim, &caches).await,
            },
        )
    }

    fn is_elsewhere(&self, request: &Request) -> bool {
        let only = self.namespace.as_ref();
        only.is_some_and(|only| *only != request.namespace)
    }

    /// As the API server knows the set right now.
    async fn confirm(
        &self,
        request: &Request,
        name: &str,
        claim: &Claim,
        told: Found<'_>,
    ) -> Answer {
        let set = ObjectName::new(request.namespace.as_str(), told.reading.set);
        match self.live.get(&set, request.call_budget).await {
            Ok(Some(live)) if live.makes(told.reading.template) => {
                let set = live.into();
                stamp(&Found { set, ..told }, claim)
            }
            Ok(_) if !made_by_it(request) => Answer::Allow,
            Ok(_) => Answer::deny(format!(
                "statefulset \"{}\" is gone, so its claim \"{name}\" is not created: nothing would delete it",
                told.reading.set
            )),
            Err(error) if self.sets.read().get(&set).is_some() => {
                tracing::warn!(%set, %error, "not read live; the claim is stamped as the watch told");
                stamp(&told, claim)
            }
            Err(_) if !made_by_it(request) => Answer::Allow,
            // Gone, as far as is known: without a stamp it would be leaked, and if a set of that name is new, it would lose its claim
            // by that stamp. The controller tries again.
            Err(error) => Answer::deny(format!(
                "statefulset \"{}\" is gone as far as is known, and could not be read: {error}. Its claim \"{name}\" is not created \
                 before that is known for sure",
                told.reading.set
            )),
        }
    }

    /// The sets that make claims of this name, by the watch or by what went less than a minute ago.
    fn told<'a>(&self, namespace: &str, readings: &[Reading<'a>]) -> Vec<Found<'a>> {
        let set = |name| {
            let caches = self.sets.read().get(&name);
            caches.or_else(|| self.recently_deleted.get(&name))
        };
        let named = |reading: &Reading<'a>| set(ObjectName::new(namespace, reading.set));
        let found = readings
            .iter()
            .filter_map(|each| candidate(*each, named(each)?));
        found.collect()
    }
}

/// By the StatefulSet controller, and by nobody else of kube-controller-manager.
fn made_by_it(request: &Request) -> bool {
    request.user_info.username == MAKERS[0]
}

fn candidate(reading: Reading<'_>, set: Arc<StatefulSet>) -> Option<Found<'_>> {
    set.makes(reading.template)
        .then_some(Candidate { reading, set })
}

/// A claim without a stamp would be leaked by it.
fn deletes_with_set(set: &StatefulSet) -> bool {
    let retention = set.retention.filter(|_| !set.orphaning);
    retention.is_some_and(|retention| retention.when_deleted == Policy::Delete)
}

/// Nothing is written on its claims.
fn retains_all(set: &StatefulSet) -> bool {
    set.orphaning || set.retention.unwrap_or_default() == Retention::default()
}

/// What the reconciler would write, from birth. The pod is created after its claims.
fn stamp(found: &Found<'_>, claim: &Claim) -> Answer {
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
        },
        Step::Leave | Step::Delete => Answer::Allow,
    }
}

#[cfg(test)]
#[path = "webhooks_tests.rs"]
mod tests;
