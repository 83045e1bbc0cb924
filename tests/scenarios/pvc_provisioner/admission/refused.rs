//! Pods that the API server refuses before or after the webhook reviews them, and
//! `--strict-templates`.

use super::{
    outage_fixture::OutageFixture,
    posted::{PostResponse, post, post_and_get_claim, post_requesting_pod},
};
use crate::{
    pvc_provisioner::{
        refusals::Quota,
        support::{
            AWAITING_POD, CONTROLLER_ID, MANAGED_BY, PodSpace, TEMPLATE, annotations,
            has_label_and_finalizer, requesting_pod,
        },
    },
    support::{dry_run, guarded, is_refused, pod},
};
use anyhow::{Result, ensure};
use k8s_openapi::api::{
    admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
    core::v1::{PersistentVolumeClaim, Pod},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::{Value, json};
use volume_warden_controlplane::eventually;

/// A pod that Pod Security, a ValidatingAdmissionPolicy or API validation refuses never reaches the
/// webhook, and leaves no claim.
#[tokio::test]
async fn a_pod_that_is_refused_before_the_webhook_leaves_no_claim() -> Result<()> {
    let pod_space = PodSpace::new(guarded().await?, "unfit").await?;
    let host_network = json!({"spec": {"hostNetwork": true}});
    enforce(&pod_space, "baseline", &host_network, true).await?;
    let invalid = json!({"spec": {"restartPolicy": "Sometimes"}});
    let hostname = json!({"spec": {"hostname": "refused"}});
    let policy = Policy::new(&pod_space, &hostname).await?;
    for (changes, code) in [(&host_network, 403), (&invalid, 422), (&hostname, 422)] {
        for _ in 0..3 {
            let pod = requesting_pod("pod", "data", changes.clone())?;
            let response = post(&pod_space.space, &pod, "").await?;
            ensure!(
                response.code == code && response.warnings.is_empty(),
                "{response:?}"
            );
        }
    }
    // If the webhook had been called, the claim would exist before the response.
    ensure!(pod_space.claim_names().await?.is_empty());
    policy.delete().await?;
    enforce(&pod_space, "privileged", &host_network, false).await?;
    has_its_claim(
        &pod_space,
        &post_requesting_pod(&pod_space, host_network, "").await?,
    )
    .await
}

/// Sets the Pod Security level of the namespace, and waits until a pod with these changes is
/// refused or admitted: the API server reads labels of namespaces from a watch, with a delay.
async fn enforce(pod_space: &PodSpace, level: &str, changes: &Value, refused: bool) -> Result<()> {
    let space = &pod_space.space;
    let label = format!("pod-security.kubernetes.io/enforce={level}");
    let label = ["label", "--overwrite", "namespace", &space.name, &label];
    space.cluster.kubectl(&label).await?;
    let probe = pod("probe", "probe", changes.clone())?;
    eventually(&format!("{level} is enforced"), async || {
        let answer = space.pods.create(&dry_run(), &probe).await;
        anyhow::Ok(is_refused(answer, "PodSecurity")? == refused)
    })
    .await
}

/// A ValidatingAdmissionPolicy that refuses pods with the hostname `refused` in one namespace.
struct Policy {
    name: String,
    policies: Api<ValidatingAdmissionPolicy>,
    bindings: Api<ValidatingAdmissionPolicyBinding>,
}

impl Policy {
    /// Creates the policy, and waits until the API server refuses a pod with these changes.
    async fn new(pod_space: &PodSpace, changes: &Value) -> Result<Self> {
        let (space, client) = (&pod_space.space, pod_space.space.cluster.client());
        let policy = Self {
            name: space.name.clone(),
            policies: Api::all(client.clone()),
            bindings: Api::all(client),
        };
        let pods = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]});
        let spec = json!({
            "matchConstraints": {"resourceRules": [pods]},
            "validations": [{"expression": "object.spec.?hostname.orValue('') != 'refused'"}],
        });
        let namespace = json!({"matchLabels": {"kubernetes.io/metadata.name": &space.name}});
        let binding = json!({
            "policyName": &space.name, "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": namespace},
        });
        let object = |spec| json!({"metadata": {"name": &space.name}, "spec": spec});
        let parameters = PostParams::default();
        let created = serde_json::from_value(object(spec))?;
        policy.policies.create(&parameters, &created).await?;
        let created = serde_json::from_value(object(binding))?;
        policy.bindings.create(&parameters, &created).await?;
        let probe = pod("probe", "probe", changes.clone())?;
        eventually("the policy is enforced", async || {
            let answer = space.pods.create(&dry_run(), &probe).await;
            is_refused(answer, "ValidatingAdmissionPolicy")
        })
        .await?;
        Ok(policy)
    }

    async fn delete(self) -> Result<()> {
        let parameters = DeleteParams::default();
        self.bindings.delete(&self.name, &parameters).await?;
        self.policies.delete(&self.name, &parameters).await?;
        Ok(())
    }
}

/// Fails unless the pod was admitted without a warning, and becomes the owner of its claim.
async fn has_its_claim(pod_space: &PodSpace, response: &PostResponse) -> Result<()> {
    ensure!(
        response.code == 201 && response.warnings.is_empty(),
        "{response:?}"
    );
    let pod: Pod = response.object()?;
    pod_space.belongs(&pod.name_any(), &pod).await.map(drop)
}

/// Posts a pod that a quota refuses after the webhook reviewed it, and returns the claim that the
/// webhook created.
async fn claim_of_refused_pod(pod_space: &PodSpace) -> Result<PersistentVolumeClaim> {
    let (response, claim) = post_and_get_claim(pod_space).await?;
    ensure!(
        response.code == 403 && response.body.contains("exceeded quota"),
        "{response:?}"
    );
    has_label_and_finalizer(&claim)?;
    let is_waiting =
        claim.annotations().contains_key(AWAITING_POD) && claim.owner_references().is_empty();
    ensure!(is_waiting, "{:?}", claim.metadata);
    Ok(claim)
}

/// The webhook reviews a pod before a quota refuses the pod: its claim awaits the pod and is
/// deleted after the grace period. Claims that have an owner or no marker are kept.
#[tokio::test]
async fn a_pod_that_quota_refuses_leaves_a_claim_for_a_while() -> Result<()> {
    // The grace period is longer than a reconcile of the claim takes.
    let fixture = OutageFixture::new("quota", &["--orphan-grace=15"]).await?;
    let pod_space = &fixture.pod_space;
    let pod = pod_space.request_claim("kept", "kept", json!({})).await?;
    let kept = pod_space.belongs("kept", &pod).await?;
    let labelled = json!({"metadata": {"labels": {MANAGED_BY: CONTROLLER_ID}}});
    let labelled = pod_space.create_claim("labelled", labelled).await?;
    let quota = Quota::new(pod_space, json!({"pods": "1"})).await?;
    let claim = claim_of_refused_pod(pod_space).await?;
    pod_space.space.claim_is_gone(&claim.name_any()).await?;
    eventually(
        "the metric no longer counts the deleted claim",
        async || {
            // Claims of other scenarios still await their pods.
            let claims = Api::<PersistentVolumeClaim>::all(pod_space.space.cluster.client());
            let claims = claims.list_metadata(&ListParams::default()).await?;
            let waiting = claims
                .iter()
                .filter(|claim| claim.annotations().contains_key(AWAITING_POD));
            let metric = format!("volume_warden_claims_awaiting_pod {}", waiting.count());
            let metrics = fixture.warden.metrics().await?;
            let mut lines = metrics.lines().filter(|line| line.contains("awaiting"));
            ensure!(lines.any(|line| line == metric), "{metric}");
            Ok(())
        },
    )
    .await?;
    quota.delete().await?;
    pod_space.wait_until_processed().await?;
    for before in [kept, labelled] {
        let now = pod_space.claim(&before.name_any()).await?;
        ensure!(
            now.metadata.deletion_timestamp.is_none() && now.uid() == before.uid(),
            "{now:?}"
        );
    }
    Ok(())
}

/// A pod that a quota refused and that is recreated within the grace period gets the claim.
#[tokio::test]
async fn a_recreated_pod_gets_its_claim() -> Result<()> {
    let pod_space = PodSpace::new(guarded().await?, "back").await?;
    let quota = Quota::new(&pod_space, json!({"pods": "0"})).await?;
    let claim = claim_of_refused_pod(&pod_space).await?;
    quota.delete().await?;
    let name = claim.name_any();
    let pod = pod_space.request_claim(&name, &name, json!({})).await?;
    assert_eq!(pod_space.belongs(&name, &pod).await?.uid(), claim.uid());
    pod_space
        .has_event(&name, "PVCProvisioned", "created")
        .await?;
    Ok(())
}

/// `--strict-templates`: instead of a warning, the pod is refused with the same text.
#[tokio::test]
async fn strict_templates_refuse_the_pod() -> Result<()> {
    let fixture = OutageFixture::new("strict", &["--strict-templates"]).await?;
    let pod_space = &fixture.pod_space;
    let unknown = TEMPLATE.replace("requests", "request");
    for (change, part) in [
        (
            ("data.pvc", Some("a: [")),
            "the template of volume \\\"data\\\" cannot be used: line 1",
        ),
        (("data.pvc", None), "with its template is missing"),
        (("data.enabled", Some("yes")), "neither true nor false"),
        (
            ("data.pvc", Some(&*unknown)),
            "unknown field \\\"spec.resources.request\\\"",
        ),
    ] {
        for query in ["", "dryRun=All"] {
            let response = post_requesting_pod(pod_space, annotations(&[change]), query).await?;
            ensure!(
                response.code == 422 && response.body.contains(part),
                "{response:?}"
            );
        }
    }
    ensure!(pod_space.claim_names().await?.is_empty());
    has_its_claim(
        pod_space,
        &post_requesting_pod(pod_space, json!({}), "").await?,
    )
    .await
}
