//! The finalizer of claims, from creation to deletion, on the real control plane. Test cases PVC-*,
//! from the tests of Kubernetes.

use crate::support::{Space, claim, dry_run, guarded, on_node, pod, refusal, repository};
use anyhow::{Result, ensure};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use volume_warden_controlplane::eventually;

const PROTECTION: &str = "kubernetes.io/pvc-protection";

/// PVC-30, PVC-31. A dry run is never stored, so only admission can have added the finalizer.
#[tokio::test]
async fn admission_appends_the_finalizer_once() -> Result<()> {
    let space = Space::new(guarded().await?, "admit").await?;
    for (before, after) in [
        (json!(null), vec![PROTECTION]),
        (json!(["example.com/a"]), vec!["example.com/a", PROTECTION]),
        (
            json!([PROTECTION, "example.com/a"]),
            vec![PROTECTION, "example.com/a"],
        ),
    ] {
        let wanted = claim("new", json!({"metadata": {"finalizers": before}}))?;
        // On a busy machine the webhook may time out. The claim is then admitted unchanged.
        eventually("the webhook answers in time", async || {
            let created = space.claims.create(&dry_run(), &wanted).await?;
            let finalizers = created.metadata.finalizers.unwrap_or_default();
            ensure!(finalizers == after, "{finalizers:?}");
            anyhow::Ok(())
        })
        .await?;
    }
    ensure!(space.claims.get_opt("new").await?.is_none());
    Ok(())
}

/// PVC-01, PVC-02: a finalizer that a client removes from a claim is added again.
#[tokio::test]
async fn a_stripped_finalizer_comes_back() -> Result<()> {
    for label in ["strip-a", "strip-b"] {
        let space = Space::new(guarded().await?, label).await?;
        space.create_claim("data").await?;
        space
            .patch_claim(
                "data",
                json!({"metadata": {"finalizers": ["example.com/a"]}}),
            )
            .await?;
        space.claim_is_protected("data").await?;
        assert_eq!(
            space.finalizers("data").await?,
            ["example.com/a", PROTECTION]
        );
    }
    Ok(())
}

/// Volume Warden does not store the names of that many claims. The pod holds every claim of its
/// namespace.
#[tokio::test]
async fn a_pod_that_names_too_many_claims_holds_them() -> Result<()> {
    let space = Space::new(guarded().await?, "many").await?;
    space.create_claim("c7").await?;
    let volume = |n| json!({"name": format!("v{n}"), "persistentVolumeClaim": {"claimName": format!("c{n}")}});
    let mut changes = on_node();
    changes["spec"]["volumes"] = (0..=1000).map(volume).collect();
    let many = pod("many", "c0", changes)?;
    space.pods.create(&PostParams::default(), &many).await?;
    space.delete_claim("c7").await?;
    // In another namespace, because the pod would hold this claim, too.
    let other = Space::new(guarded().await?, "few").await?;
    other.create_claim("c7").await?;
    other.delete_claim("c7").await?;
    other.claim_is_gone("c7").await?;
    ensure!(
        space.claims.get_opt("c7").await?.is_some(),
        "claim c7 is deleted although a pod uses it"
    );
    space.delete_pod("many").await?;
    space.claim_is_gone("c7").await
}

/// PVC-04, PVC-05, PVC-09, PVC-10: claims that no pod uses, beside a claim that a pod uses.
#[tokio::test]
async fn unused_claims_are_deleted() -> Result<()> {
    let spaces = [
        Space::new(guarded().await?, "unused").await?,
        Space::new(guarded().await?, "unused").await?,
    ];
    for space in &spaces {
        space.create_claim("other").await?;
        space.create_running_pod("unrelated", "other").await?;
        for name in ["a", "b", "c"] {
            space.create_claim(name).await?;
            space.delete_claim(name).await?;
        }
    }
    for space in &spaces {
        for name in ["a", "b", "c"] {
            space.claim_is_gone(name).await?;
        }
        assert_eq!(space.finalizers("other").await?, [PROTECTION]);
    }
    Ok(())
}

/// PVC-08, PVC-14, PVC-15, PVC-11, PVC-17: in each phase the pod holds the claim. Only the deletion
/// of the pod releases it.
#[tokio::test]
async fn a_used_claim_waits_for_its_pod() -> Result<()> {
    for phase in ["Succeeded", "Failed"] {
        let space = Space::new(guarded().await?, "used").await?;
        space.create_claim("data").await?;
        space.create_running_pod("user", "data").await?;
        space.delete_claim("data").await?;
        space.claim_is_held("data").await?;
        space
            .patch_pod_status("user", json!({"message": "still running"}))
            .await?;
        space.claim_is_held("data").await?;
        space
            .patch_pod_status("user", json!({"phase": phase}))
            .await?;
        space.claim_is_held("data").await?;
        space.delete_pod("user").await?;
        space.claim_is_gone("data").await?;
    }
    Ok(())
}

/// Two pods use the claim. It is released when the second one is deleted.
#[tokio::test]
async fn a_claim_waits_for_its_last_pod() -> Result<()> {
    let space = Space::new(guarded().await?, "shared").await?;
    space.create_claim("data").await?;
    space.create_running_pod("a", "data").await?;
    space.create_running_pod("b", "data").await?;
    space.delete_claim("data").await?;
    space.delete_pod("a").await?;
    space.claim_is_held("data").await?;
    space.delete_pod("b").await?;
    space.claim_is_gone("data").await
}

/// PVC-16: a pod without a node does not use its claim.
#[tokio::test]
async fn an_unscheduled_pod_does_not_hold_a_claim() -> Result<()> {
    let space = Space::new(guarded().await?, "unscheduled").await?;
    space.create_claim("data").await?;
    space
        .create_pod(
            "waits",
            "data",
            json!({"spec": {"schedulerName": "absent"}}),
        )
        .await?;
    space.delete_claim("data").await?;
    space.claim_is_gone("data").await?;
    ensure!(space.pods.get_opt("waits").await?.is_some());
    Ok(())
}

/// The claim of an ephemeral volume is released when its pod is shut down, although a finalizer
/// keeps the pod object and the status of a container is still running. A claim that the pod names
/// under `persistentVolumeClaim` is held until the pod object is deleted.
#[tokio::test]
async fn an_ephemeral_claim_is_released_when_its_pod_is_shut_down() -> Result<()> {
    let space = Space::new(guarded().await?, "ephemeral").await?;
    space.create_claim("named").await?;
    let template = json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let volumes = json!([
        {"name": "named", "persistentVolumeClaim": {"claimName": "named"}},
        {"name": "own", "ephemeral": {"volumeClaimTemplate": template}},
    ]);
    let changes = json!({"metadata": {"finalizers": ["example.com/hold"]}, "spec": {"nodeName": "node-1", "volumes": volumes}});
    space.create_pod("p", "named", changes).await?;
    eventually("the ephemeral claim exists", async || {
        anyhow::Ok(space.claims.get_opt("p-own").await?)
    })
    .await?;
    space.claim_is_protected("p-own").await?;
    space
        .patch_pod_status("p", json!({"containerStatuses": [container("running")]}))
        .await?;
    space.delete_claim("p-own").await?;
    space.delete_claim("named").await?;
    space.claim_is_held("p-own").await?;
    space.delete_pod("p").await?;
    space.claim_is_gone("p-own").await?;
    space.claim_is_held("named").await?;
    let free = json!({"metadata": {"finalizers": null}});
    space
        .pods
        .patch("p", &PatchParams::default(), &Patch::Merge(&free))
        .await?;
    space.claim_is_gone("named").await
}

fn container(state: &str) -> serde_json::Value {
    json!({"name": "main", "image": "main", "imageID": "", "ready": true, "restartCount": 0, "state": {state: {}}})
}

/// A claim with the name of a pod's ephemeral volume, but without that pod as owner, is not held by
/// the pod.
#[tokio::test]
async fn a_claim_with_an_ephemeral_name_but_no_owner_is_not_held() -> Result<()> {
    let space = Space::new(guarded().await?, "namesake").await?;
    space.create_claim("p-own").await?;
    let template = json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let volumes = json!([{"name": "own", "ephemeral": {"volumeClaimTemplate": template}}]);
    space
        .create_pod(
            "p",
            "unused",
            json!({"spec": {"nodeName": "node-1", "volumes": volumes}}),
        )
        .await?;
    let first = space.claims.get("p-own").await?.metadata.uid;
    space.delete_claim("p-own").await?;
    // kube-controller-manager creates the claim of the ephemeral volume at once, by the same name.
    eventually("the first claim is deleted", async || {
        let now = space.claims.get_opt("p-own").await?;
        anyhow::Ok(now.and_then(|claim| claim.metadata.uid) != first)
    })
    .await
}

/// PVC-32, PVC-33: kube-scheduler does not schedule a pod whose claim is being deleted or missing.
/// The webhook refuses a pod whose claim is being deleted if a client creates it with a node, which
/// bypasses the scheduler.
#[tokio::test]
async fn pods_whose_claim_is_being_deleted_are_refused() -> Result<()> {
    let space = Space::new(guarded().await?, "late").await?;
    space.create_claim("data").await?;
    space.create_running_pod("first", "data").await?;
    space.delete_claim("data").await?;

    // A scheduler that has seen this later claim has also seen the earlier deletion.
    space.create_claim("later").await?;
    let named = |name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
    let volumes = json!({"spec": {"volumes": [named("later"), named("data")]}});
    space.create_pod("scheduled", "data", volumes).await?;
    space.create_pod("lost", "missing", json!({})).await?;
    for (pod, message) in [
        (
            "scheduled",
            "persistentvolumeclaim \"data\" is being deleted",
        ),
        ("lost", "persistentvolumeclaim \"missing\" not found"),
    ] {
        eventually("the scheduler reports the claim", async || {
            let status = space.pods.get(pod).await?.status.unwrap_or_default();
            let conditions = status.conditions.unwrap_or_default();
            let refused = |condition: &&k8s_openapi::api::core::v1::PodCondition| {
                condition.reason.as_deref() == Some("Unschedulable")
                    && condition.message.as_deref().unwrap_or("").contains(message)
            };
            ensure!(
                conditions.iter().any(|condition| refused(&condition)),
                "{conditions:?}"
            );
            Ok(())
        })
        .await?;
    }

    // The webhook decides by its watch, which delivers the deletion with a delay.
    eventually("the webhook refuses a pod with a node", async || {
        anyhow::Ok(
            space
                .pods
                .create(&dry_run(), &pod("direct", "data", on_node())?)
                .await
                .is_err(),
        )
    })
    .await?;
    let refused = refusal(space.create_pod_on_node("direct", "data").await?)?;
    ensure!(
        refused.contains("persistentvolumeclaim \"data\" is being deleted"),
        "{refused}"
    );
    ensure!(
        refused.contains("let the pod use another claim"),
        "{refused}"
    );
    space
        .pods
        .delete("scheduled", &DeleteParams::default())
        .await?;
    space.delete_pod("first").await?;
    space.claim_is_gone("data").await
}

/// A pod that is created with a node is admitted if its claim is not being deleted or does not
/// exist.
#[tokio::test]
async fn pods_with_living_claims_are_not_refused() -> Result<()> {
    let space = Space::new(guarded().await?, "living").await?;
    space.create_claim("data").await?;
    space.create_pod_on_node("direct", "data").await??;
    space.create_pod_on_node("unknown", "not-there").await??;
    Ok(())
}

/// With the optional component `pvc-protection-binding-guard`, a pod whose claim is being deleted
/// is not bound to a node: neither by `pods/binding` nor by the legacy resource `bindings`.
#[tokio::test]
async fn bindings_of_pods_whose_claim_is_being_deleted_are_refused() -> Result<()> {
    let space = Space::new(guarded().await?, "binding").await?;
    // The component also grants this permission if Volume Warden has its own CA. It is granted
    // first, because replicas are not ready until they may write the CA to the configuration.
    let permission = json!([{"op": "add", "path": "/rules/-", "value": {
        "apiGroups": ["admissionregistration.k8s.io"],
        "resources": ["validatingwebhookconfigurations"],
        "resourceNames": ["volume-warden-pvc-protection-binding-guard"],
        "verbs": ["get", "patch"],
    }}]);
    let (role, permission) = ("volume-warden-tls", permission.to_string());
    let patch = [
        "patch",
        "clusterrole",
        role,
        "--type=json",
        "-p",
        &permission,
    ];
    space.cluster.kubectl(&patch).await?;
    let component =
        repository().join("manifests/components/pvc-protection-binding-guard/webhooks.yaml");
    space
        .cluster
        .kubectl(&["apply", "-f", &component.to_string_lossy()])
        .await?;
    space.create_claim("data").await?;
    space.create_claim("living").await?;
    space.create_running_pod("user", "data").await?;
    for (pod, claim) in [("late", "data"), ("fine", "living")] {
        space
            .create_pod(pod, claim, json!({"spec": {"schedulerName": "absent"}}))
            .await?;
    }
    space.delete_claim("data").await?;
    space.claim_is_held("data").await?;
    // Volume Warden sets the caBundle of a configuration that is created later within half a
    // minute. On a busy machine the webhook may also exceed its timeout of a second, and the
    // binding is then admitted.
    for path in ["pods/late/binding", "bindings"] {
        eventually("the binding is refused", async || {
            let refused = refusal(space.bind(path, "late", &dry_run()).await)?;
            ensure!(
                refused.contains("persistentvolumeclaim \"data\" is being deleted"),
                "{refused}"
            );
            anyhow::Ok(())
        })
        .await?;
    }
    space
        .bind("pods/fine/binding", "fine", &PostParams::default())
        .await?;
    Ok(())
}

/// The deletion of a namespace completes although a pod in it uses a claim.
#[tokio::test]
async fn a_namespace_with_used_claims_can_be_deleted() -> Result<()> {
    let space = Space::new(guarded().await?, "namespace").await?;
    space.create_claim("data").await?;
    space.create_running_pod("user", "data").await?;
    space
        .cluster
        .kubectl(&["delete", "namespace", &space.name, "--timeout=180s"])
        .await?;
    ensure!(space.claims.get_opt("data").await?.is_none());
    Ok(())
}
