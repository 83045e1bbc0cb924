//! Publishes notices about claims as Events on the pod that requests them, once per cause.

use super::{Caches, Notice, parse::parse_with_yields, rule::has_valid_marker, view::User};
use crate::{
    cluster::{Apply, EventContent, EventDeduplicator, Regarding, Target},
    objects::{CompactText, Kind, ObjectName, Pod},
};
use k8s_openapi::api::core::v1::ObjectReference;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A cause of a notice on a pod: the uid of the pod, and the notice's reason, its volume, and its
/// sentence without digits. The numbers that the API server reports, such as how much of a quota is
/// used, change while the cause stays.
type Cause = (Box<str>, &'static str, Option<Box<str>>, String);

type Published<C> = EventDeduplicator<ObjectName, C>;

/// Publishes notices as Events on the pod. A notice about an obstacle or about the pod's
/// annotations is not repeated while its cause holds.
pub struct Notices {
    apply: Arc<Apply>,
    /// Published notices about claims that cannot be created, by the claim's name.
    claims: Arc<Published<Cause>>,
    /// Published notices about a pod's annotations and about requested claims that the pod does not
    /// own, by the pod's name.
    pods: Arc<Published<Notice>>,
}

impl Notices {
    /// Creates the notices, which `apply` publishes.
    pub fn new(apply: Arc<Apply>) -> Self {
        Self {
            apply,
            claims: Arc::default(),
            pods: Arc::default(),
        }
    }

    /// Publishes on each of these pods why the claim that they request cannot be created, unless
    /// the previous notice on the pod about the claim was the same.
    pub fn obstacle<'a>(
        &self,
        claim: &ObjectName,
        notices: impl IntoIterator<Item = (&'a User, Notice)>,
    ) {
        let notices = notices.into_iter();
        let notices: BTreeMap<_, _> = notices
            .map(|(user, notice)| (cause(user, &notice), (user, notice)))
            .collect();
        // The claim does not exist or is being deleted, so its uid does not matter.
        let causes = notices.keys().cloned().collect();
        let new_causes = self
            .claims
            .new_causes(claim, CompactText::default(), causes);
        for (cause, (user, notice)) in notices {
            if new_causes.contains(&cause) {
                let postpone = self.claims.postponing(claim, &cause);
                let related = reference(claim, None);
                self.publish(pod_of(claim, user), notice, Some(related), postpone);
            }
        }
    }

    /// Forgets which notices about the claim were published, because no pod waits for its creation
    /// any more. A later obstacle is then published again.
    pub fn no_obstacle(&self, claim: &ObjectName) {
        self.claims.forget(claim);
    }

    /// Publishes that the claim was created for the pod. `uid` is the uid of the claim, if known.
    pub fn provisioned(&self, claim: &ObjectName, user: &User, uid: Option<&CompactText>) {
        self.no_obstacle(claim);
        let volume = user.requested_volume.as_deref().unwrap_or_default();
        let notice = Notice::provisioned(&claim.name, volume);
        let related = reference(claim, uid);
        self.publish(pod_of(claim, user), notice, Some(related), || {});
    }

    /// Publishes the errors in the pod's annotations, and which of the requested claims the pod
    /// does not own. If the pod does not exist, has no annotation of pvc-provisioner, is not
    /// Pending or is being deleted, publishes nothing and forgets which notices about it were
    /// published.
    pub async fn of_pod(&self, name: &ObjectName, pod: Option<&Pod>, caches: &Caches) {
        let waiting = pod.and_then(|pod| {
            let claim_requests = pod
                .claim_requests
                .as_deref()
                .filter(|claim_requests| claim_requests.waiting())?;
            Some((pod, claim_requests))
        });
        let Some((pod, claim_requests)) = waiting else {
            self.pods.forget(name);
            return;
        };
        let (claim_requests, mut notices) = parse_with_yields(claim_requests, &caches.policy).await;
        let claims = claim_requests
            .iter()
            .map(|claim_request| &claim_request.claim);
        notices.extend(claims.filter_map(|claim| {
            let claim = ObjectName::new(name.namespace.clone(), claim.clone());
            shared(&claim, pod, caches)
        }));
        let causes = notices.into_iter().collect();
        let new_causes = self.pods.new_causes(name, &pod.uid, causes);
        for notice in BTreeSet::from_iter(new_causes) {
            let postpone = self.pods.postponing(name, &notice);
            self.publish(regarding(name.clone(), &pod.uid), notice, None, postpone);
        }
    }

    /// Forgets which notices were published about pods and claims for which `pod` and `claim`
    /// return false.
    pub fn retain(&self, pod: impl Fn(&ObjectName) -> bool, claim: impl Fn(&ObjectName) -> bool) {
        self.pods.retain(pod);
        self.claims.retain(claim);
    }

    fn publish(
        &self,
        regarding: Regarding,
        notice: Notice,
        related: Option<ObjectReference>,
        otherwise: impl FnOnce() + Send + 'static,
    ) {
        let event_content = EventContent {
            reason: notice.reason,
            action: notice.reason,
            warning: notice.is_warning(),
            note: notice.sentence,
            related,
        };
        self.apply
            .publish_event_or(regarding, event_content, otherwise);
    }
}

fn cause(user: &User, notice: &Notice) -> Cause {
    let words = notice
        .sentence
        .chars()
        .filter(|char| !char.is_ascii_digit());
    let words = words.collect();
    (
        user.uid.clone(),
        notice.reason,
        notice.volume.clone(),
        words,
    )
}

/// The notice that the claim exists and the pod does not own it. None for a claim with a valid
/// marker and no owner, because the pod may still become its owner, and for a claim that is being
/// deleted.
fn shared(name: &ObjectName, pod: &Pod, caches: &Caches) -> Option<Notice> {
    let claim = caches.claim(name).ok()??;
    let own = claim.rare.owners.iter().any(|owner| pod.uid == owner.uid);
    let awaits = has_valid_marker(&claim) && claim.rare.owners.is_empty();
    let shared = !own && !awaits && !claim.deleting;
    shared.then(|| Notice::shared(&name.name, &claim.rare.owners))
}

fn pod_of(claim: &ObjectName, user: &User) -> Regarding {
    let name = ObjectName::new(claim.namespace.clone(), &*user.name);
    regarding(name, &user.uid)
}

fn regarding(name: ObjectName, uid: impl Into<CompactText>) -> Regarding {
    Regarding {
        kind: Kind::Pod,
        name,
        uid: uid.into(),
    }
}

fn reference(claim: &ObjectName, uid: Option<&CompactText>) -> ObjectReference {
    let uid = uid.cloned().unwrap_or_default();
    Target::new(Kind::PersistentVolumeClaim, claim, uid).reference()
}

#[cfg(test)]
#[path = "notices_tests.rs"]
mod tests;
