//! Rows STS-* of upstream's tables that the stories do not cover: every policy under both pod
//! management policies, scale-downs that are reversed or happen while Volume Warden is down, pods
//! and claims that users changed, and validation by the API server.

use super::stories::{Story, run_story};
use super::support::{DELETE_DELETE, set};
use crate::support::{BINARY, bare, guarded, refusal, repository};
use anyhow::{Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::PersistentVolumeClaim};
use kube::{Api, ResourceExt, api::PostParams};
use serde_json::json;
use volume_warden_controlplane::{Cluster, Kubernetes, Warden, eventually};

const RETAINED: [&str; 3] = ["unsaid", "Retain/Retain", "Delete/Retain"];
const SCALED: [&str; 2] = ["Retain/Delete", "Delete/Delete"];

/// Runs the steps for each of these policies under both pod management policies. `@` is the state
/// of claims in range, `~` that of claims that were never in range.
async fn run_each(label: &str, policies: &[&str], steps: &str) -> Result<()> {
    let managed =
        ["OrderedReady", "Parallel"].map(|each| steps.replace("POLICY", &format!("{each} POLICY")));
    let under = |policy| {
        managed
            .each_ref()
            .map(|steps| run_under(policy, label, steps))
    };
    try_join_all(policies.iter().copied().flat_map(under))
        .await
        .map(drop)
}

async fn run_under(policy: &str, label: &str, steps: &str) -> Result<()> {
    let claims = match policy {
        "Retain/Delete" => ":mark",
        "Delete/Delete" => ":set+mark",
        "Delete/Retain" => ":set",
        _ => "",
    };
    let never = claims.replace("+mark", "").replace(":mark", "");
    let steps = steps
        .replace("POLICY", policy)
        .replace('@', claims)
        .replace('~', &never);
    run_story(label, &steps).await
}

/// STS-01, STS-13, STS-30, STS-38, STS-40, STS-41, STS-115..118.
#[tokio::test]
async fn claims_follow_every_policy() -> Result<()> {
    let steps = "create web 3 POLICY; claims web 0@ 1@ 2@; turn web 4; claims web 0@ 1@ 2@ 3@
        kubectl wait pod/web-3 --for=jsonpath={.metadata.labels.apps\\.kubernetes\\.io/pod-index}=3
        event SuccessfulCreate web data-web-3; turn web 0; event SuccessfulDelete web web-3; rest web";
    run_each("policies", &SCALED, steps).await?;
    run_each("policies", &RETAINED, &format!("{steps} 0@ 1@ 2@ 3@")).await
}

/// S5 and S6, the same for both pod management policies: in range again while the old pod still
/// exists. S4: the claim of a pod that a user deleted is deleted with it if the set is scaled down
/// before the pod is gone.
#[tokio::test]
async fn a_scale_down_is_reversed_in_time() -> Result<()> {
    let steps = "create web 3 POLICY; claims web 0@ 1@ 2@; hold pod/web-2
        ask web 2; kubectl wait pod/web-2 --for=jsonpath={.metadata.deletionTimestamp}
        claims web 0@ 1@ 2:pod+mark; ask web 3; claims web 0@ 1@ 2@
        replacing web-2 free pod/web-2; rest web 0@ 1@ 2@
        hold pod/web-2; kubectl delete pod web-2 --wait=false; rest web 0@ 1@ 2@
        ask web 2; claims web 0@ 1@ 2:pod+mark; free pod/web-2; rest web 0@ 1@";
    run_each("back", &SCALED, steps).await
}

/// STS-42, STS-43, STS-44: pods deleted, evicted, lost, failed, succeeded, updated. Their claims
/// are not written.
#[tokio::test]
async fn no_claim_is_deleted_with_its_pod() -> Result<()> {
    for management in ["OrderedReady", "Parallel"] {
        let story = Story::new(guarded().await?, "pods").await?;
        let claims = "0:set+mark 1:set+mark 2:set+mark 3:set+mark 4:set+mark";
        story
            .run(&format!(
                "create web 5 {management} Delete/Delete; rest web {claims}"
            ))
            .await?;
        let audit = story.sets.space.cluster.audit();
        let mark = audit.mark()?;
        let steps = "replacing web-1 kubectl delete pod web-1; replacing web-0 evict web-0
            replacing web-0,web-2,web-4 kubectl delete pod web-0 web-2 web-4 --force
            replacing web-3 kubectl patch pod web-3 --subresource=status -p {\"status\":{\"phase\":\"Failed\"}}
            replacing web-1 kubectl patch pod web-1 --subresource=status -p {\"status\":{\"phase\":\"Succeeded\"}}
            replacing web-0,web-1,web-2,web-3,web-4 kubectl rollout restart sts web; rest web";
        story.run(&format!("{steps} {claims}")).await?;
        let calls = audit.since(mark)?.by_user_agent("volume-warden/").writes();
        let here = |name: &str, space: &str| {
            name.starts_with("data-web-") && space == story.sets.space.name
        };
        ensure!(
            !calls.iter().any(|call| here(&call.name, &call.namespace)),
            "{calls:?}"
        );
    }
    Ok(())
}

/// Scaled down while Volume Warden is down: claims with the mark were in range and are deleted,
/// the others are kept.
#[tokio::test]
async fn a_scale_down_while_volume_warden_is_down() -> Result<()> {
    let story = Story::new(bare().await?, "unseen").await?;
    let warden = story.sets.own_warden().await?;
    story
        .run("create web 3 Delete/Delete; claims web 0:set+mark 1:set+mark 2:set+mark")
        .await?;
    warden.process().kill()?;
    let steps = "turn web 1; now web 0:set+mark 1:set+mark 2:set+mark
        create late 2 Retain/Delete; turn late 1; now late 0 1";
    story.run(steps).await?;
    let _warden = story.sets.own_warden().await?;
    let steps =
        "rest web 0:set+mark; rest late 0:mark 1; event ScaledDownUnmarked late data-late-1";
    story.run(steps).await
}

/// STS-55: the range begins at `spec.ordinals.start`, and moves with it.
#[tokio::test]
async fn ordinals_begin_at_the_start_ordinal() -> Result<()> {
    let steps = "create web 3 POLICY from=2; rest web 2@ 3@ 4@
        turn web 2 from=3; rest web 3@ 4@; turn web 2 from=0; rest web 0@ 1@";
    run_each("start", &SCALED, steps).await
}

/// STS-17: claims that users created beforehand get reference and mark, and are deleted only after
/// they were in range.
#[tokio::test]
async fn claims_made_beforehand_wait_for_their_ordinal() -> Result<()> {
    let steps = "claim data-web-0; claim data-web-1; claim data-web-2; create web 2 POLICY
        rest web 0@ 1@ 2~; event ScaledDownUnmarked web data-web-2; turn web 1; rest web 0@ 2~
        turn web 3; claims web 0@ *1@ 2@; turn web 2; rest web 0@ 1@";
    run_each("beforehand", &SCALED, steps).await
}

/// STS-04, STS-36, STS-37: a claim that is being deleted blocks the creation of its pod. The claim
/// is reported and not changed.
#[tokio::test]
async fn a_stale_claim_is_waited_for() -> Result<()> {
    let steps = "create web 3 POLICY; claims web 0@ 1@ 2@; hold pod/web-2; hold pvc/data-web-2
        ask web 2; claims web 0@ 1@ 2:pod+mark; free pod/web-2; claims web 0@ 1@ 2:gone-pod+mark+Terminating
        ask web 3; event PodBlockedByClaim web data-web-2; rest web 0@ 1@ 2:gone-pod+mark+Terminating
        kubectl wait sts/web --for=jsonpath={.status.replicas}=2
        free pvc/data-web-2; turn web 3; claims web 0@ 1@ *2@";
    run_each("stale", &SCALED, steps).await
}

/// STS-51: the deleted claim of a pending pod is recreated with its reference and mark.
#[tokio::test]
async fn a_lost_claim_of_a_pending_pod_is_recreated() -> Result<()> {
    let story = Story::new(guarded().await?, "pending").await?;
    let nowhere =
        json!({"spec": {"template": {"spec": {"nodeName": null, "schedulerName": "absent"}}}});
    let web = set("web", 1, DELETE_DELETE, nowhere)?;
    story.sets.sets.create(&PostParams::default(), &web).await?;
    story
        .run("rest web 0:set+mark; kubectl delete pvc data-web-0")
        .await?;
    eventually("the claim is recreated", async || {
        // Only an event of the set or its pods triggers the StatefulSet controller.
        let awake = json!({"metadata": {"annotations": {"example.com/awake": fastrand::u64(..).to_string()}}});
        story.sets.patch("web", awake).await?;
        story.sets.claim("data-web-0").await.map(drop)
    })
    .await?;
    story.run("rest web *0:set+mark").await
}

/// STS-119, STS-120, STS-123: validation of policies by the API server, and the effects of
/// changing and removing a policy.
#[tokio::test]
async fn policies_are_validated_changed_and_removed() -> Result<()> {
    let story = Story::new(guarded().await?, "validation").await?;
    for (policy, wrong) in [(("Retain", "invalid"), 1), (("invalid", "invalid"), 2)] {
        let wanted = set("web", 1, policy, json!({}))?;
        let created = story
            .sets
            .sets
            .create(&PostParams::default(), &wanted)
            .await;
        let refusal = refusal(created)?;
        let found = refusal.matches("Unsupported value: \"invalid\"").count();
        assert_eq!(found, wrong, "{refusal}");
    }
    let steps = "create web 1 Retain/Retain; rest web 0; turn web Delete/Delete; claims web 0:set+mark
        turn web unsaid; rest web 0
        kubectl wait sts/web --for=jsonpath={.spec.persistentVolumeClaimRetentionPolicy.whenScaled}=Retain";
    story.run(steps).await
}

/// STS-121, STS-122: where the API server drops the policy, Volume Warden writes nothing and logs
/// it once.
#[tokio::test]
async fn without_the_field_nothing_is_done() -> Result<()> {
    let cluster = Cluster::without_in_tree()
        .name("dropping")
        .nodes(1)
        // The oldest that can emulate such an API server.
        .kubernetes(Kubernetes::V1_34)
        .apiserver_arg("--emulated-version=1.31");
    let cluster = cluster
        .apiserver_arg("--feature-gates=StatefulSetAutoDeletePVC=false")
        .start()
        .await?;
    cluster
        .apply_kustomization(repository().join("manifests"))
        .await?;
    let warden = Warden::builder(&cluster, BINARY).start().await?;
    let sets: Api<StatefulSet> = Api::namespaced(cluster.client(), "default");
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(cluster.client(), "default");
    for name in ["one", "two"] {
        let wanted = set(name, 1, DELETE_DELETE, json!({}))?;
        let spec = sets
            .create(&PostParams::default(), &wanted)
            .await?
            .spec
            .unwrap_or_default();
        ensure!(
            spec.persistent_volume_claim_retention_policy.is_none(),
            "the policy is not dropped"
        );
        let claim = format!("data-{name}-0");
        let protected = async || anyhow::Ok(!claims.get(&claim).await?.finalizers().is_empty());
        eventually("the claim was seen", protected).await?;
        cluster.kubectl(&["delete", "sts", name]).await?;
    }
    let found = claims.list(&Default::default()).await?.items;
    let untouched = |claim: &PersistentVolumeClaim| {
        claim.owner_references().is_empty() && claim.annotations().is_empty()
    };
    ensure!(found.len() == 2 && found.iter().all(untouched), "{found:?}");
    let words = "drops spec.persistentVolumeClaimRetentionPolicy";
    let logged = || warden.process().log().matches(words).count();
    // Sets are delivered by another watch than claims.
    eventually("the missing field is logged", async || logged() > 0).await?;
    assert_eq!(logged(), 1);
    cluster.stop().await;
    Ok(())
}
