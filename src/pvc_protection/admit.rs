//! The doors at admission: the finalizer at birth, and the guards against late users.

use super::rule::{FinishedPods, uses};
use crate::{
    admission::{Answer, Hook, Request, Review, Rule},
    cluster::Feed,
    objects::{Claim, ObjectName, Pod, claim::ClaimWire, finalizers::PVC_PROTECTION, pod::PodWire},
};
use std::sync::Arc;

/// The webhooks of this component. `exempt` namespaces are never refused anything.
pub fn hooks(claims: &Arc<Feed<Claim>>, pods: &Arc<Feed<Pod>>, exempt: &[String]) -> Vec<Hook> {
    let guard = Arc::new(Guard {
        claims: claims.clone(),
        pods: pods.clone(),
        exempt: exempt.to_vec(),
    });
    let guard_bindings = guard.clone();
    vec![
        Hook {
            path: "/pvc-protection/claims",
            rules: &[Rule {
                operation: "CREATE",
                resource: "persistentvolumeclaims",
                subresource: "",
            }],
            review: Review::from_memory(protect),
        },
        Hook {
            path: "/pvc-protection/pods",
            rules: &[Rule {
                operation: "CREATE",
                resource: "pods",
                subresource: "",
            }],
            review: Review::from_memory(move |request| guard.created_pod(request)),
        },
        Hook {
            path: "/pvc-protection/bindings",
            // The legacy resource `bindings` does the same as `pods/binding`, and would be a way around.
            rules: &[
                Rule {
                    operation: "CREATE",
                    resource: "pods",
                    subresource: "binding",
                },
                Rule {
                    operation: "CREATE",
                    resource: "bindings",
                    subresource: "",
                },
            ],
            review: Review::from_memory(move |request| guard_bindings.binding(request)),
        },
    ]
}

/// A new claim carries the finalizer from birth.
pub fn protect(request: &Request) -> Answer {
    let claim = match request.object::<ClaimWire>() {
        Ok(wire) => Claim::from(wire),
        Err(unreadable) => return unreadable,
    };
    Answer::with_finalizer(claim.standing(), &claim.finalizers, PVC_PROTECTION)
}

/// Refuses what would start to use a claim that is on its way out. Best effort: it looks at what the watches told.
struct Guard {
    claims: Arc<Feed<Claim>>,
    pods: Arc<Feed<Pod>>,
    exempt: Vec<String>,
}

impl Guard {
    /// A pod that names its node passes by the scheduler, which would have refused it.
    fn created_pod(&self, request: &Request) -> Answer {
        let pod = match request.object::<PodWire>() {
            Ok(pod) => pod,
            Err(unreadable) => return unreadable,
        };
        if !pod.is_scheduled() || pod.is_mirror() || self.is_exempt(request) {
            return Answer::Allow;
        }
        if !self.claims.is_synced() {
            return Answer::Unavailable("the watch of claims has no complete list yet");
        }
        // A pod without uid owns no claim yet: only the claims it names count, which `uses` sees to.
        self.refuse_deleting_claims(&request.namespace, &Pod::from(pod))
    }

    fn binding(&self, request: &Request) -> Answer {
        let binding = match request.object::<BindingWire>() {
            Ok(binding) => binding,
            Err(unreadable) => return unreadable,
        };
        if self.is_exempt(request) {
            return Answer::Allow;
        }
        if !self.claims.is_synced() || !self.pods.is_synced() {
            return Answer::Unavailable("the watches of claims and pods have no complete list yet");
        }
        let name = ObjectName::new(
            request.namespace.as_str(),
            binding.metadata.name.unwrap_or_default(),
        );
        // The lock on the pods is not held while the claims are looked at.
        let pod = self.pods.read().last_told(&name);
        match pod {
            // About to be scheduled is as good as scheduled.
            Some(pod) => self.refuse_deleting_claims(
                &request.namespace,
                &Pod {
                    scheduled: true,
                    ..Pod::clone(&pod)
                },
            ),
            None => Answer::Allow,
        }
    }

    fn refuse_deleting_claims(&self, namespace: &str, pod: &Pod) -> Answer {
        let claims = self.claims.read();
        let deleting = pod.claims().find(|claim| {
            let name = ObjectName::new(namespace, (*claim).clone());
            claims
                .last_told(&name)
                .is_some_and(|known| known.deleting && uses(pod, claim, &known, FinishedPods::Hold))
        });
        match deleting {
            Some(claim) => Answer::deny(format!(
                "persistentvolumeclaim \"{claim}\" is being deleted. Create the pod again once the claim is gone and has been created \
                 anew, or let the pod use another claim."
            )),
            None => Answer::Allow,
        }
    }

    fn is_exempt(&self, request: &Request) -> bool {
        self.exempt.contains(&request.namespace)
    }
}

/// The part of a `v1` Binding that is read.
#[derive(serde::Deserialize)]
struct BindingWire {
    metadata: kube::api::ObjectMeta,
}
