//! Carries out the decisions of the pvc-provisioner reconciler about claims.

use super::{
    ClaimRequest, NAME, Notice, PvcProvisionerReconciler,
    claim_request::Creator,
    reasons,
    reconcile::MAX_AGE,
    rule::{Decision, QUIET, Step},
    template::ClaimFields,
    view::{User, View},
};
use crate::{
    cluster::{
        Action, Applied, Basis, Caller, Creation, Proof, ReconcileError, Reconciled, Requeue,
        Target, is_lasting_refusal,
    },
    objects::{Claim, Kind, ObjectName, claim::AWAITING_POD, owner_references, patch::remove},
};
use json_patch::PatchOperation;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use std::{ops::ControlFlow, sync::Arc, time::Duration};
use tokio::time::Instant;

/// Minimum pause after the API server refused to create a claim, unless the claim or a pod that
/// requests it changes before. It usually refuses the same claim again until an object changes that
/// Volume Warden does not watch, such as a quota.
const REFUSED: Duration = Duration::from_secs(30);

/// The evaluation of a pending claim once it has not changed for [`QUIET`].
fn once_quiet(view: &View<'_>) -> Requeue {
    let left = QUIET.saturating_sub(view.wait.unchanged);
    let reason = "waiting until no other controller is about to write the claim";
    Requeue::After(left, reason.into())
}

impl PvcProvisionerReconciler {
    /// Carries out a decision that leaves the claim as it is; this may publish an Event. For
    /// [`Decision::Act`], returns its value.
    pub(super) fn follow<Act>(
        &self,
        name: &ObjectName,
        view: &View<'_>,
        decision: Decision<'_, Act>,
    ) -> ControlFlow<Requeue, Act> {
        match decision {
            Decision::Act(what) => return ControlFlow::Continue(what),
            Decision::Later(left) => {
                let reason = "waiting for the pod that the claim was created for";
                return ControlFlow::Break(Requeue::After(left, reason.into()));
            }
            Decision::Refuse(reason) => self.refuse(name, view, reason),
            Decision::Await(user) => {
                if let Some(claim) = view.claim {
                    self.record_pod(name, claim, user);
                }
                return ControlFlow::Break(once_quiet(view));
            }
            Decision::Leave(reason) => {
                tracing::debug!(component = NAME, object = %name, reason, "no action");
                self.notices.no_obstacle(name);
                if reason == reasons::CLAIM_PENDING {
                    return ControlFlow::Break(once_quiet(view));
                }
            }
        }
        ControlFlow::Break(Requeue::OnEvent)
    }

    /// Carries out a step that live reads have justified. `no_users` is the proof of the LIST of
    /// pods on which the deletion of a claim rests; without it the claim is not deleted.
    pub(super) async fn act(
        &self,
        name: &ObjectName,
        claim: Option<&Arc<Claim>>,
        view: &View<'_>,
        step: Step<'_>,
        no_users: Option<Proof>,
    ) -> Reconciled {
        match (step, claim) {
            (Step::Create(user), _) => self.create(name, view, user).await,
            (Step::RefuseRequester, _) => {
                self.refuse(name, view, reasons::REQUESTER_UNKNOWN);
                Ok(Requeue::OnEvent)
            }
            (Step::SetOwner(user), Some(claim)) => self.set_owner(name, claim, user).await,
            (Step::RemoveMarker(reason), Some(claim)) => {
                let operations = vec![without_mark()];
                let action = Action::disown(operations.clone(), operations, Basis::Object);
                let applied = self.write(name, claim, action, reason);
                applied.await.into_reconciled()
            }
            (Step::DeleteOrphan, Some(claim)) => {
                let Some(proof) = no_users else {
                    return Ok(Requeue::OnEvent);
                };
                self.delete_orphan(name, claim, proof).await
            }
            // Without a claim there is nothing to do: the rule decides these steps only for a claim
            // that exists.
            (Step::SetOwner(_) | Step::RemoveMarker(_) | Step::DeleteOrphan, None) => {
                Ok(Requeue::OnEvent)
            }
        }
    }

    /// Deletes the claim, which no pod named when the pods were listed. A pod that the watch shows
    /// when it is the deletion's turn may be newer than that LIST, and may write to the volume
    /// already.
    async fn delete_orphan(
        &self,
        name: &ObjectName,
        claim: &Arc<Claim>,
        proof: Proof,
    ) -> Reconciled {
        let unreferenced = || self.caches.pods.read().is_unreferenced(name);
        if !unreferenced() {
            return Err(ReconcileError::new(
                "the watch shows a pod that names the claim",
            ));
        }
        let (target, action) = (target(name, claim), Action::delete(proof));
        let applied =
            self.apply
                .perform_if(NAME, &target, action, reasons::ORPHANED, &unreferenced);
        self.written(name, claim, applied.await).into_reconciled()
    }

    async fn create(&self, name: &ObjectName, view: &View<'_>, user: &User) -> Reconciled {
        let Some(claim_request) = claim_request(name, user) else {
            return Ok(Requeue::OnEvent);
        };
        let manifest = claim_request.template.manifest(&ClaimFields {
            namespace: &name.namespace,
            name: &name.name,
            controller_id: self.options.controller_id.as_str(),
            owner: Some(self.owner(user)),
            awaiting_since: None,
        });
        let creation = Creation {
            kind: Kind::PersistentVolumeClaim,
            name,
            manifest: &manifest,
        };
        let caller = Caller::Reconciler(Instant::now() + MAX_AGE);
        let created = self
            .apply
            .create(NAME, creation, caller, reasons::REQUESTED);
        match created.await {
            Applied::Done => {
                self.notices.provisioned(name, user, None);
                Ok(Requeue::OnEvent)
            }
            Applied::Failed(error) => Err(self.failed(name, view, &error)),
            Applied::Stale => Err(ReconcileError::new(
                "no claim was created: it exists already, the API server reported a conflict, or \
                 the pod was read too long ago",
            )),
            other => other.into_reconciled(),
        }
    }

    fn failed(&self, name: &ObjectName, view: &View<'_>, error: &kube::Error) -> ReconcileError {
        let notices = view.candidates().filter_map(|user| {
            let claim_request = claim_request(name, user)?;
            let notice = Notice::failed(&claim_request, error, "and will be tried again");
            Some((user, notice))
        });
        self.notices.obstacle(name, notices);
        let pause = if is_lasting_refusal(error) {
            REFUSED
        } else {
            Duration::ZERO
        };
        ReconcileError::after(pause, error.to_string())
    }

    fn refuse(&self, name: &ObjectName, view: &View<'_>, reason: &'static str) {
        let (claim, namespace) = (&name.name, &name.namespace);
        let is_exempt = self.exempt.iter().any(|exempt| **exempt == **namespace);
        let creator = Creator::of(self.options.authorizes(), !is_exempt);
        let notice = match (reason, creator) {
            (reasons::CLAIM_TERMINATING, _) => Notice::stale(claim, creator),
            (_, Creator::User) => Notice::unreviewed(claim, namespace),
            _ => Notice::requester_unknown(claim),
        };
        let notices = view.candidates().map(|user| (user, notice.clone()));
        self.notices.obstacle(name, notices);
    }

    /// Records that the pod of the claim exists, and publishes the Event that the claim was
    /// created, once per pod.
    fn record_pod(&self, name: &ObjectName, claim: &Claim, user: &User) {
        if self.waiting.record_pod(name, claim, &user.uid) {
            self.notices.provisioned(name, user, Some(&claim.uid));
        }
    }

    /// Makes the pod the owner of the claim and removes the marker. The owner reference contains
    /// the pod's uid: if the pod is already deleted, the garbage collector deletes the claim.
    async fn set_owner(&self, name: &ObjectName, claim: &Arc<Claim>, user: &User) -> Reconciled {
        let mut operations = owner_references::rewrite(&claim.rare.owners, &[self.owner(user)]);
        operations.push(without_mark());
        let action = Action::own(operations, Basis::Object).of_existing();
        let applied = self.write(name, claim, action, reasons::OWNER_ADDED).await;
        if applied.written() {
            self.record_pod(name, claim, user);
        }
        applied.into_reconciled()
    }

    async fn write(
        &self,
        name: &ObjectName,
        claim: &Arc<Claim>,
        action: Action,
        reason: &'static str,
    ) -> Applied {
        let target = target(name, claim);
        let applied = self.apply.perform(NAME, &target, action, reason).await;
        self.written(name, claim, applied)
    }

    fn written(&self, name: &ObjectName, claim: &Arc<Claim>, applied: Applied) -> Applied {
        if applied.written() {
            self.caches.claims.mark_stale(name, claim);
        }
        applied
    }

    fn owner(&self, user: &User) -> OwnerReference {
        OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: user.name.to_string(),
            uid: user.uid.to_string(),
            controller: Some(true),
            block_owner_deletion: Some(self.options.block_owner_deletion),
        }
    }
}

fn target<'a>(name: &'a ObjectName, claim: &'a Claim) -> Target<'a> {
    Target {
        finalizers: &claim.finalizers,
        ..Target::of(name, claim)
    }
}

/// The pod's request for the claim. A pod that waits for the claim has one.
fn claim_request(claim: &ObjectName, user: &User) -> Option<ClaimRequest> {
    let (volume, template) = (user.requested_volume.as_ref()?, user.template.as_ref()?);
    Some(ClaimRequest {
        volume: volume.clone(),
        claim: claim.name.clone(),
        template: template.clone(),
    })
}

fn without_mark() -> PatchOperation {
    remove(&["annotations", AWAITING_POD])
}

#[cfg(test)]
#[path = "act_tests.rs"]
mod tests;
