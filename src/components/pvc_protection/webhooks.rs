//! The doors at admission: the finalizer at birth, and the guards against late users.

use crate::{
    admission::{Answer, Hook, Request, Review, Reviewed, Rule, Unavailable},
    causes::{FinishedPods, uses},
    cluster::{Feed, LiveGet},
    objects::{Claim, ObjectName, Pod, claim::ClaimWire, finalizers::PVC_PROTECTION, pod::PodWire},
};
use futures::future::join_all;
use std::{sync::Arc, time::Duration};

/// The webhooks of this component. `exempt` namespaces are never refused anything.
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
    let guard_bindings = guard.clone();
    vec![
        Hook {
            path: "/pvc-protection/claims",
            rules: &[Rule {
                operation: "CREATE",
                resource: "persistentvolumeclaims",
                subresource: "",
            }],
            timeout: Duration::from_secs(2),
            review: Review::from_memory(protect),
        },
        Hook {
            path: "/pvc-protection/pods",
            rules: &[Rule {
                operation: "CREATE",
                resource: "pods",
                subresource: "",
            }],
            timeout: Duration::from_secs(1),
            review: Review::Asking(Arc::new(move |request| {
                let guard = guard.clone();
                Box::pin(async move { guard.created_pod(&request).await })
            })),
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
            timeout: Duration::from_secs(1),
            review: Review::Asking(Arc::new(move |request| {
                let guard = guard_bindings.clone();
                Box::pin(async move { guard.binding(&request).await })
            })),
        },
    ]
}

/// A new claim carries the finalizer from birth.
pub fn protect(request: &Request) -> Reviewed {
    let claim = Claim::from(request.object::<ClaimWire>()?);
    let state = claim.finalizer_state();
    Ok(Answer::with_finalizer(
        state,
        &claim.finalizers,
        PVC_PROTECTION,
    ))
}

/// Refuses what would start to use a claim that is on its way out. Best effort: it looks at what the watches told, and refuses only
/// what a live read confirms. A watch that is late must not keep a pod from the claim that came after.
struct Guard {
    claims: Arc<Feed<Claim>>,
    live: Arc<LiveGet<Claim>>,
    pods: Arc<Feed<Pod>>,
    exempt: Vec<String>,
}

impl Guard {
    /// A pod that names its node passes by the scheduler, which would have refused it.
    async fn created_pod(&self, request: &Request) -> Reviewed {
        let pod = request.object::<PodWire>()?;
        if !pod.is_scheduled() || pod.is_mirror() || self.is_exempt(request) {
            return Ok(Answer::Allow);
        }
        if !self.claims.is_synced() {
            return Err(Unavailable::new(
                "the watch of claims has no complete list yet",
            ));
        }
        // A pod without uid owns no claim yet: only the claims it names count, which `uses` sees to.
        Ok(self.refuse_deleting_claims(request, &Pod::from(pod)).await)
    }

    async fn binding(&self, request: &Request) -> Reviewed {
        let binding = request.object::<BindingWire>()?;
        if self.is_exempt(request) {
            return Ok(Answer::Allow);
        }
        if !self.claims.is_synced() || !self.pods.is_synced() {
            return Err(Unavailable::new(
                "the watches of claims and pods have no complete list yet",
            ));
        }
        let name = ObjectName::new(
            request.namespace.as_str(),
            binding.metadata.name.unwrap_or_default(),
        );
        // The lock on the pods is not held while the claims are looked at.
        let pod = self.pods.read().get(&name);
        let Some(pod) = pod else {
            return Ok(Answer::Allow);
        };
        // About to be scheduled is as good as scheduled.
        let pod = Pod {
            scheduled: true,
            ..Pod::clone(&pod)
        };
        Ok(self.refuse_deleting_claims(request, &pod).await)
    }

    async fn refuse_deleting_claims(&self, request: &Request, pod: &Pod) -> Answer {
        let suspects = self.suspects(&request.namespace, pod);
        // All at once, for there is only so much time.
        let looks = suspects.iter().map(async |claim| {
            // What could not be read is not refused either.
            let live = self
                .live
                .get(claim, request.call_budget)
                .await
                .ok()
                .flatten();
            live.is_some_and(|live| is_in_the_way(&live, pod, &claim.name))
        });
        let looks = join_all(looks).await;
        let mut in_the_way = suspects.iter().zip(looks).filter(|(_, is)| *is);
        let Some((claim, _)) = in_the_way.next() else {
            return Answer::Allow;
        };
        Answer::deny(format!(
            "persistentvolumeclaim \"{}\" is being deleted. Create the pod again once the claim is gone and has been created \
             anew, or let the pod use another claim.",
            claim.name
        ))
    }

    /// The claims of the pod that are being deleted, as far as the watch told.
    fn suspects(&self, namespace: &str, pod: &Pod) -> Vec<ObjectName> {
        let claims = self.claims.read();
        let names = pod
            .claims()
            .map(|claim| ObjectName::new(namespace, claim.clone()));
        let deleting = names.filter(|name| {
            let known = claims.get(name);
            known.is_some_and(|known| is_in_the_way(&known, pod, &name.name))
        });
        deleting.collect()
    }

    fn is_exempt(&self, request: &Request) -> bool {
        self.exempt.contains(&request.namespace)
    }
}

fn is_in_the_way(claim: &Claim, pod: &Pod, name: &str) -> bool {
    claim.deleting && uses(pod, name, claim, FinishedPods::Hold)
}

/// The part of a `v1` Binding that is read.
#[derive(serde::Deserialize)]
struct BindingWire {
    metadata: kube::api::ObjectMeta,
}
