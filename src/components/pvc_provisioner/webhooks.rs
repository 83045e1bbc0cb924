//! The webhook that creates the claims of an annotated pod before the pod is stored.
//!
//! It is a validating webhook although it validates little, because the API server calls validating
//! webhooks almost last. The pod is then as it will be stored, and a pod that API validation, Pod
//! Security or a ValidatingAdmissionPolicy refuses never reaches the webhook. A quota, or another
//! validating webhook, which runs at the same time, can still refuse the pod; Volume Warden then
//! deletes the claim as an orphan. `attempts` limits how often that happens, except with
//! `--authorize-requester=pod-creator` and with `--strict-templates`.

use super::{
    Attempts, Caches, ClaimRequest, NAME, Notice, Options, Requesters, attempts::Controller,
    claim_request::Creator, failure::is_the_templates_fault, findings::Findings,
    parse::parse_with_yields, reasons, rule::awaits_pod, template::ClaimFields,
};
use crate::{
    admission::{Answer, Hook, Request, Review, Reviewed, Rule},
    clock::Clock,
    cluster::{Applied, Apply, Caller, Creation, is_refused},
    objects::{ClaimRequests, Kind, ObjectName, owner_references, pod::PodWire},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// The webhook for annotated pods.
pub struct PodWebhook {
    /// The watches that pvc-provisioner reads.
    pub caches: Caches,
    /// Writes to the API server.
    pub apply: Arc<Apply>,
    /// The clock for the time in the marker of a claim that awaits its pod.
    pub clock: Clock,
    /// Checks whether the user who creates the pod may create claims; none if no check is required.
    pub requesters: Option<Requesters>,
    /// Delays further claims for a controller, such as a ReplicaSet, whose pods are refused after
    /// their claims were created.
    pub attempts: Arc<Attempts>,
    /// The options of pvc-provisioner.
    pub options: Arc<Options>,
    /// The only namespace whose pods are handled; none for all namespaces.
    pub namespace: Option<String>,
    /// Namespaces whose pods are not reviewed, as in the webhook configuration. The reconciler
    /// creates the claims of these pods, except with `--authorize-requester=pod-creator`.
    pub exempt: Vec<String>,
}

/// Creates the webhook for annotated pods.
pub fn hook(webhook: PodWebhook) -> Hook {
    let webhook = Arc::new(webhook);
    Hook {
        path: "/pvc-provisioner/pods",
        rules: &[Rule("CREATE", "pods")],
        timeout: Duration::from_secs(2),
        review: Review::with_calls(&webhook, |webhook, request| async move {
            webhook.review(&request).await
        }),
    }
}

impl PodWebhook {
    fn covers(&self, namespace: &str) -> bool {
        let is_only = self.namespace.as_ref().is_none_or(|only| only == namespace);
        is_only && !self.exempt.iter().any(|exempt| exempt == namespace)
    }

    async fn review(&self, request: &Request) -> Reviewed {
        let pod = request.object::<PodWire>()?;
        let Some(claim_requests) =
            ClaimRequests::of(&pod).filter(|_| self.covers(&request.namespace))
        else {
            return Ok(Answer::Allow);
        };
        let mut findings = Findings::default();
        let claim_requests = self.parse(&claim_requests, &mut findings).await;
        let refused = self.options.strict_templates && findings.invalid;
        if request.dry_run == Some(true) {
            findings.invalid(claim_requests.iter().flat_map(unknown_fields));
        } else if !refused && !claim_requests.is_empty() {
            let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
            let controller = owner_references::controller(owners);
            self.create_missing(request, &claim_requests, controller, &mut findings)
                .await;
        }
        Ok(findings.answer(self.options.strict_templates))
    }

    async fn parse(
        &self,
        claim_requests: &ClaimRequests,
        findings: &mut Findings,
    ) -> Vec<ClaimRequest> {
        let (valid, invalid) = parse_with_yields(claim_requests, &self.caches.policy).await;
        findings.invalid(invalid);
        valid
    }

    /// Creates the claims that do not exist yet.
    async fn create_missing(
        &self,
        request: &Request,
        claim_requests: &[ClaimRequest],
        controller: Option<&OwnerReference>,
        findings: &mut Findings,
    ) {
        let until = Instant::now() + request.call_budget;
        let named = claim_requests.iter().map(|claim_request| {
            let claim = claim_request.claim.clone();
            let name = ObjectName::new(request.namespace.as_str(), claim);
            (name, claim_request)
        });
        let missing: Vec<_> = named
            .filter(|(name, _)| self.is_missing(name, findings))
            .collect();
        if missing.is_empty() {
            return;
        }
        if let Some(requesters) = &self.requesters
            && let Err(notice) = requesters.check(request).await
        {
            findings.notices.push(notice);
            return;
        }
        // Admission creates claims for refused pods without a limit if the reconciler creates none
        // later, because requesters are checked, or if the API server has to judge the templates of
        // each pod.
        let limited = self.requesters.is_none() && !self.options.strict_templates;
        let owner = controller.filter(|_| limited);
        let controller = owner.map(|owner| Controller::new(&request.namespace, &owner.uid));
        if let (Some(owner), Some(controller)) = (owner, &controller)
            && !self.attempts.permit(controller)
        {
            findings
                .notices
                .push(Notice::delayed(&owner.kind, &owner.name));
            return;
        }
        for (index, (name, claim_request)) in missing.iter().enumerate() {
            let retry_until = share(until, missing.len() - index);
            let caller = Caller::Review { until, retry_until };
            let created = self.create(name, claim_request, caller, findings).await;
            if let Some(controller) = controller.as_ref().filter(|_| created) {
                self.attempts.created(controller, name);
            }
        }
    }

    /// Returns whether the claim has to be created. The absence of the claim needs no confirmation,
    /// because the API server answers with a conflict if the claim exists. If a claim that exists
    /// was created for this pod, the reconciler sets the owner.
    fn is_missing(&self, name: &ObjectName, findings: &mut Findings) -> bool {
        let Some(claim) = self.caches.claims.read().get(name) else {
            return true;
        };
        let authorizes = self.options.authorizes();
        if claim.deleting {
            let creator = Creator::of(authorizes, true);
            findings.notices.push(Notice::stale(&name.name, creator));
        } else if authorizes && awaits_pod(&claim, &self.options.controller_id) {
            findings.notices.push(Notice::left_behind(&name.name));
        }
        false
    }

    /// Creates the claim, and returns whether it did not exist before.
    async fn create(
        &self,
        name: &ObjectName,
        claim_request: &ClaimRequest,
        caller: Caller,
        findings: &mut Findings,
    ) -> bool {
        let since = self
            .clock
            .timestamp()
            .strftime("%Y-%m-%dT%H:%M:%SZ")
            .to_string();
        let manifest = claim_request.template.manifest(&ClaimFields {
            namespace: &name.namespace,
            name: &name.name,
            controller_id: self.options.controller_id.as_str(),
            owner: None,
            awaiting_since: Some(&since),
        });
        let creation = Creation {
            kind: Kind::PersistentVolumeClaim,
            name,
            manifest: &manifest,
        };
        let created = self
            .apply
            .create(NAME, creation, caller, reasons::REQUESTED);
        let created = created.await;
        let is_new = matches!(created, Applied::Done);
        match created {
            Applied::Withheld => findings.notices.push(Notice::withheld(&name.name)),
            Applied::Failed(error) => self.failed(claim_request, &error, findings),
            Applied::Done | Applied::Stale | Applied::NotLeading => {}
        }
        is_new
    }

    fn failed(&self, claim_request: &ClaimRequest, error: &kube::Error, findings: &mut Findings) {
        let invalid = is_the_templates_fault(error);
        let then = match self.requesters {
            _ if invalid && self.options.strict_templates => "so the pod is refused",
            Some(_) if is_refused(error) => "re-create the pod once that is fixed",
            Some(_) => "re-create the pod if the claim does not exist",
            None => "and will be tried again",
        };
        let notice = Notice::failed(claim_request, error, then);
        if invalid {
            findings.invalid([notice]);
        } else {
            findings.notices.push(notice);
        }
    }
}

/// Until when a conflict about the next of `count` claims is retried, so that each of the others
/// still gets as much time.
fn share(until: Instant, count: usize) -> Instant {
    let now = Instant::now();
    let left = until.saturating_duration_since(now);
    now + left / u32::try_from(count.max(1)).unwrap_or(u32::MAX)
}

fn unknown_fields(claim_request: &ClaimRequest) -> impl Iterator<Item = Notice> {
    let fields = claim_request.template.unknown_fields().iter();
    fields.map(|field| Notice::unknown_field(&claim_request.volume, field))
}

#[cfg(test)]
#[path = "webhooks_tests.rs"]
mod tests;
