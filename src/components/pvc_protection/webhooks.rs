//! The webhooks of pvc-protection: they add the finalizer to a new claim, and refuse pods that
//! would start to use a claim that is being deleted.

use crate::{
    admission::{Answer, Hook, Request, Review, Reviewed, Rule, Unavailable},
    causes::{FinishedPods, uses},
    cluster::{Feed, LiveGet},
    objects::{Claim, ObjectName, Pod, claim::ClaimWire, finalizers::PVC_PROTECTION, pod::PodWire},
};
use futures::future::join_all;
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// Maximum number of claims of one pod that are read live: as many as `pvc-provisioner` creates for
/// a pod. One that is being deleted suffices to refuse the pod.
const MAX_READ: usize = 32;

/// What the creator of a refused pod can do.
const RECREATE: &str =
    "Recreate the pod after the claim is deleted and recreated, or let the pod use another claim.";
/// What a user can do about a pod whose binding to a node is refused.
const RETRIED: &str =
    "The scheduler retries the binding. To start the pod now, let it use another claim.";

/// The webhooks of pvc-protection. No pod is refused in the namespaces of `exempt`.
pub fn hooks(
    claims: &Arc<Feed<Claim>>,
    live: &Arc<LiveGet<Claim>>,
    pods: &Arc<Feed<Pod>>,
    exempt: &[String],
) -> Vec<Hook> {
    let guard = Arc::new(Guard {
        claims: claims.clone(),
        live: live.clone(),
        pods: pods.clone(),
        exempt: exempt.to_vec(),
    });
    vec![
        Hook {
            path: "/pvc-protection/claims",
            rules: &[Rule("CREATE", "persistentvolumeclaims")],
            timeout: Duration::from_secs(2),
            review: Review::from_memory(protect),
        },
        Hook {
            path: "/pvc-protection/pods",
            rules: &[Rule("CREATE", "pods")],
            timeout: Duration::from_secs(1),
            review: Review::with_calls(&guard, |guard, request| async move {
                guard.created_pod(&request).await
            }),
        },
        Hook {
            path: "/pvc-protection/bindings",
            // The legacy resource `bindings` does the same as `pods/binding` and would bypass the
            // guard.
            rules: &[Rule("CREATE", "pods/binding"), Rule("CREATE", "bindings")],
            timeout: Duration::from_secs(1),
            review: Review::with_calls(&guard, |guard, request| async move {
                guard.binding(&request).await
            }),
        },
    ]
}

/// Adds the finalizer to a new claim.
pub fn protect(request: &Request) -> Reviewed {
    let claim = Claim::from(request.object::<ClaimWire>()?);
    let state = claim.finalizer_state();
    Ok(Answer::with_finalizer(
        state,
        &claim.finalizers,
        PVC_PROTECTION,
    ))
}

/// Refuses pods that would start to use a claim that is being deleted, as a best effort. The guard
/// selects claims by the watches, and refuses a pod only if a live read of the claim confirms it:
/// a late watch must not keep a pod from a recreated claim. If the watch is late, or the read
/// fails, the pod is allowed.
struct Guard {
    claims: Arc<Feed<Claim>>,
    live: Arc<LiveGet<Claim>>,
    pods: Arc<Feed<Pod>>,
    exempt: Vec<String>,
}

impl Guard {
    /// Refuses a new pod that names its node, if a claim of the pod is being deleted. Such a pod
    /// bypasses the scheduler, which does not schedule a pod with such a claim. Mirror pods, and
    /// pods in exempt namespaces, are allowed.
    async fn created_pod(&self, request: &Request) -> Reviewed {
        let pod = request.object::<PodWire>()?;
        if !pod.is_scheduled() || pod.is_mirror() || self.is_exempt(request) {
            return Ok(Answer::Allow);
        }
        if !self.claims.is_synced() {
            return Err(Unavailable::unsynced("claims"));
        }
        // A new pod has no uid, so it owns no claim yet. Therefore `uses` counts only the claims
        // that the pod names, and not those of its ephemeral volumes.
        let pod = Pod::from(pod);
        Ok(self.refuse_deleting_claims(request, &pod, RECREATE).await)
    }

    async fn binding(&self, request: &Request) -> Reviewed {
        let binding = request.object::<BindingWire>()?;
        if self.is_exempt(request) {
            return Ok(Answer::Allow);
        }
        if !self.claims.is_synced() || !self.pods.is_synced() {
            return Err(Unavailable::unsynced("claims or of pods"));
        }
        let PodReference { name, uid } = binding.metadata;
        let name = ObjectName::new(request.namespace.as_str(), name.unwrap_or_default());
        // The pod is copied, so that the lock on the pods is released before the claims are locked.
        let pod = self.pods.read().get(&name);
        // The scheduler names the uid. The watch may still have an earlier pod of this name, which
        // may have had other claims.
        let uid = uid.filter(|uid| !uid.is_empty());
        let pod = pod.filter(|pod| uid.is_none_or(|uid| pod.uid == *uid));
        let Some(pod) = pod else {
            return Ok(Answer::Allow);
        };
        // A pod that is being bound to a node counts as scheduled: `uses` ignores pods without a
        // node.
        let pod = Pod {
            scheduled: true,
            ..Pod::clone(&pod)
        };
        Ok(self.refuse_deleting_claims(request, &pod, RETRIED).await)
    }

    /// Refuses the request if a claim of the pod is being deleted. The refusal ends with `next`,
    /// what the user can do.
    async fn refuse_deleting_claims(&self, request: &Request, pod: &Pod, next: &str) -> Answer {
        let suspects = self.suspects(&request.namespace, pod);
        // The claims are read concurrently, because the call budget is limited.
        let reads = suspects.iter().map(async |claim| {
            // If the claim could not be read, the pod is not refused.
            let live = self
                .live
                .get(claim, request.call_budget)
                .await
                .ok()
                .flatten();
            live.is_some_and(|live| blocks_pod(&live, pod, &claim.name))
        });
        let reads = join_all(reads).await;
        let mut in_the_way = suspects.iter().zip(reads).filter(|(_, is)| *is);
        let Some((claim, _)) = in_the_way.next() else {
            return Answer::Allow;
        };
        Answer::deny(format!(
            "persistentvolumeclaim \"{}\" is being deleted, so no further pod may start to use it. \
             {next}",
            claim.name
        ))
    }

    /// The claims of the pod that are being deleted according to the watch, at most [`MAX_READ`].
    /// Each is looked up once: a pod may name one claim in thousands of volumes.
    fn suspects(&self, namespace: &str, pod: &Pod) -> Vec<ObjectName> {
        let names: BTreeSet<_> = pod.claims().collect();
        let names = names
            .into_iter()
            .map(|claim| ObjectName::new(namespace, claim.clone()));
        let claims = self.claims.read();
        let deleting = names.filter(|name| {
            let known = claims.get(name);
            known.is_some_and(|known| blocks_pod(&known, pod, &name.name))
        });
        deleting.take(MAX_READ).collect()
    }

    fn is_exempt(&self, request: &Request) -> bool {
        self.exempt.contains(&request.namespace)
    }
}

fn blocks_pod(claim: &Claim, pod: &Pod, name: &str) -> bool {
    claim.deleting && uses(pod, name, claim, FinishedPods::Hold)
}

/// The fields of a `v1` Binding that are read. The API server does not replace its other metadata,
/// so the creator may have written a time there that cannot be parsed.
#[derive(serde::Deserialize)]
struct BindingWire {
    metadata: PodReference,
}

/// The pod that is bound to a node.
#[derive(serde::Deserialize)]
struct PodReference {
    name: Option<String>,
    uid: Option<String>,
}
