//! Pods that are refused by another check.

use super::{
    outage_fixture::OutageFixture,
    posted::{Posted, asked, asked_for, post},
};
use crate::{
    pvc_provisioner::{
        refusals::Quota,
        support::{Askers, ID, LABEL, MARK, TEMPLATE, annotations, asking, is_made},
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
async fn a_pod_that_is_refused_before_leaves_no_claim() -> Result<()> {
    let askers = Askers::new(guarded().await?, "unfit").await?;
    let host = json!({"spec": {"hostNetwork": true}});
    enforce(&askers, "baseline", &host, true).await?;
    let sometimes = json!({"spec": {"restartPolicy": "Sometimes"}});
    let named = json!({"spec": {"hostname": "refused"}});
    let policy = Policy::new(&askers, &named).await?;
    for (changes, code) in [(&host, 403), (&sometimes, 422), (&named, 422)] {
        for _ in 0..3 {
            let pod = asking("pod", "data", changes.clone())?;
            let posted = post(&askers.space, &pod, "").await?;
            ensure!(
                posted.code == code && posted.warnings.is_empty(),
                "{posted:?}"
            );
        }
    }
    // A claim would have been created before the response.
    ensure!(askers.claims().await?.is_empty());
    policy.end().await?;
    enforce(&askers, "privileged", &host, false).await?;
    has_its_claim(&askers, &asked(&askers, host, "").await?).await
}

/// Waits until a pod with these changes is refused, or admitted: the API server learns of labels
/// by a watch of its own.
async fn enforce(askers: &Askers, level: &str, changes: &Value, refused: bool) -> Result<()> {
    let space = &askers.space;
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

/// A ValidatingAdmissionPolicy that refuses the pods of a namespace with the hostname `refused`.
struct Policy {
    name: String,
    policies: Api<ValidatingAdmissionPolicy>,
    bindings: Api<ValidatingAdmissionPolicyBinding>,
}

impl Policy {
    /// Creates the policy and waits until the API server refuses a pod with these changes.
    async fn new(askers: &Askers, changes: &Value) -> Result<Self> {
        let (space, client) = (&askers.space, askers.space.cluster.client());
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
        let named = |spec| json!({"metadata": {"name": &space.name}, "spec": spec});
        let parameters = PostParams::default();
        let created = serde_json::from_value(named(spec))?;
        policy.policies.create(&parameters, &created).await?;
        let created = serde_json::from_value(named(binding))?;
        policy.bindings.create(&parameters, &created).await?;
        let probe = pod("probe", "probe", changes.clone())?;
        eventually("the policy is enforced", async || {
            let answer = space.pods.create(&dry_run(), &probe).await;
            is_refused(answer, "ValidatingAdmissionPolicy")
        })
        .await?;
        Ok(policy)
    }

    async fn end(self) -> Result<()> {
        let parameters = DeleteParams::default();
        self.bindings.delete(&self.name, &parameters).await?;
        self.policies.delete(&self.name, &parameters).await?;
        Ok(())
    }
}

async fn has_its_claim(askers: &Askers, posted: &Posted) -> Result<()> {
    ensure!(
        posted.code == 201 && posted.warnings.is_empty(),
        "{posted:?}"
    );
    let pod: Pod = posted.object()?;
    askers.belongs(&pod.name_any(), &pod).await.map(drop)
}

/// The claim of a pod that quota refused: it was reviewed before.
async fn in_vain(askers: &Askers) -> Result<PersistentVolumeClaim> {
    let (posted, claim) = asked_for(askers).await?;
    ensure!(
        posted.code == 403 && posted.body.contains("exceeded quota"),
        "{posted:?}"
    );
    is_made(&claim)?;
    let awaits = claim.annotations().contains_key(MARK) && claim.owner_references().is_empty();
    ensure!(awaits, "{:?}", claim.metadata);
    Ok(claim)
}

/// The webhook reviews a pod before quota refuses it: its claim waits for the pod and is collected
/// after the grace period. No other claim is collected.
#[tokio::test]
async fn a_pod_that_quota_refuses_leaves_a_claim_for_a_while() -> Result<()> {
    // Longer than a reconcile of the claim takes.
    let fixture = OutageFixture::new("quota", &["--orphan-grace=15"]).await?;
    let askers = &fixture.askers;
    let pod = askers.ask("kept", "kept", json!({})).await?;
    let kept = askers.belongs("kept", &pod).await?;
    let labelled = json!({"metadata": {"labels": {LABEL: ID}}});
    let labelled = askers.create_claim("labelled", labelled).await?;
    let quota = Quota::new(askers, json!({"pods": "1"})).await?;
    let claim = in_vain(askers).await?;
    askers.space.claim_is_gone(&claim.name_any()).await?;
    eventually("the metric no longer counts it", async || {
        // Claims of other scenarios still wait for their pods.
        let claims = Api::<PersistentVolumeClaim>::all(askers.space.cluster.client());
        let claims = claims.list_metadata(&ListParams::default()).await?;
        let marked = claims
            .iter()
            .filter(|claim| claim.annotations().contains_key(MARK));
        let metric = format!("volume_warden_claims_awaiting_pod {}", marked.count());
        let metrics = fixture.warden.metrics().await?;
        let mut lines = metrics.lines().filter(|line| line.contains("awaiting"));
        ensure!(lines.any(|line| line == metric), "{metric}");
        Ok(())
    })
    .await?;
    quota.end().await?;
    askers.settled().await?;
    for before in [kept, labelled] {
        let now = askers.claim(&before.name_any()).await?;
        ensure!(
            now.metadata.deletion_timestamp.is_none() && now.uid() == before.uid(),
            "{now:?}"
        );
    }
    Ok(())
}

/// A pod recreated within the grace period gets the claim.
#[tokio::test]
async fn a_recreated_pod_gets_its_claim() -> Result<()> {
    let askers = Askers::new(guarded().await?, "back").await?;
    let quota = Quota::new(&askers, json!({"pods": "0"})).await?;
    let claim = in_vain(&askers).await?;
    quota.end().await?;
    let name = claim.name_any();
    let pod = askers.ask(&name, &name, json!({})).await?;
    assert_eq!(askers.belongs(&name, &pod).await?.uid(), claim.uid());
    askers.has_event(&name, "PVCProvisioned", "created").await?;
    Ok(())
}

/// `--strict-templates`: a pod that would get a warning is refused with a full sentence.
#[tokio::test]
async fn strict_templates_refuse_the_pod() -> Result<()> {
    let fixture = OutageFixture::new("strict", &["--strict-templates"]).await?;
    let askers = &fixture.askers;
    let unknown = TEMPLATE.replace("requests", "request");
    for (wrong, part) in [
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
            let posted = asked(askers, annotations(&[wrong]), query).await?;
            ensure!(
                posted.code == 422 && posted.body.contains(part),
                "{posted:?}"
            );
        }
    }
    ensure!(askers.claims().await?.is_empty());
    has_its_claim(askers, &asked(askers, json!({}), "").await?).await
}
