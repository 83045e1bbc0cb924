//! Rows STS-* of upstream's tables that are not told in the stories: every policy under both pod managements, scale-downs taken back or
//! seen by nobody, pods and claims that other hands touched, and the API's own part.

use super::stories::{Story, tell};
use super::support::{DELETE_DELETE, set};
use crate::support::{BINARY, bare, guarded, refusal, repository};
use anyhow::{Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::PersistentVolumeClaim};
use kube::{Api, ResourceExt, api::PostParams};
use serde_json::json;
use volume_warden_controlplane::{Cluster, Warden, eventually};

const RETAINED: [&str; 3] = ["unsaid", "Retain/Retain", "Delete/Retain"];
const SCALED: [&str; 2] = ["Retain/Delete", "Delete/Delete"];

/// For each of these policies under both pod managements. `@` is what claims are while they are in range, `~` what those are that
/// never were.
async fn tell_each(label: &str, policies: &[&str], steps: &str) -> Result<()> {
    let managed =
        ["OrderedReady", "Parallel"].map(|each| steps.replace("POLICY", &format!("{each} POLICY")));
    let under = |policy| {
        managed
            .each_ref()
            .map(|steps| tell_under(policy, label, steps))
    };
    try_join_all(policies.iter().copied().flat_map(under))
        .await
        .map(drop)
}

async fn tell_under(policy: &str, label: &str, steps: &str) -> Result<()> {
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
    tell(label, &steps).await
}

/// STS-01, STS-13, STS-30, STS-38, STS-40, STS-41, STS-115..118.
#[tokio::test]
async fn claims_follow_every_policy() -> Result<()> {
    let steps = "create web 3 POLICY; claims web 0@ 1@ 2@; turn web 4; claims web 0@ 1@ 2@ 3@
        kubectl wait pod/web-3 --for=jsonpath={.metadata.labels.apps\\.kubernetes\\.io/pod-index}=3
        told SuccessfulCreate web data-web-3; turn web 0; told SuccessfulDelete web web-3; rest web";
    tell_each("policies", &SCALED, steps).await?;
    tell_each("policies", &RETAINED, &format!("{steps} 0@ 1@ 2@ 3@")).await
}

/// S5 and S6, the same for both pod managements: in range again while the old pod is still there. S4: a pod that somebody deleted
/// takes its claim along if it is scaled away before it is gone.
#[tokio::test]
async fn a_scale_down_is_taken_back_in_time() -> Result<()> {
    let steps = "create web 3 POLICY; claims web 0@ 1@ 2@; hold pod/web-2
        ask web 2; kubectl wait pod/web-2 --for=jsonpath={.metadata.deletionTimestamp}
        claims web 0@ 1@ 2:pod+mark; ask web 3; claims web 0@ 1@ 2@
        replacing web-2 free pod/web-2; rest web 0@ 1@ 2@
        hold pod/web-2; kubectl delete pod web-2 --wait=false; rest web 0@ 1@ 2@
        ask web 2; claims web 0@ 1@ 2:pod+mark; free pod/web-2; rest web 0@ 1@";
    tell_each("back", &SCALED, steps).await
}

/// STS-42, STS-43, STS-44: pods deleted, evicted, lost, failed, succeeded, updated. Nothing is even written to their claims.
#[tokio::test]
async fn no_pod_takes_its_claim_along() -> Result<()> {
    for management in ["OrderedReady", "Parallel"] {
        let story = Story::new(guarded().await?, "pods").await?;
        let claims = "0:set+mark 1:set+mark 2:set+mark 3:set+mark 4:set+mark";
        story
            .tell(&format!(
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
        story.tell(&format!("{steps} {claims}")).await?;
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

/// Scaled down while nobody looked: what carries the mark was in range and goes, the rest is kept.
#[tokio::test]
async fn a_scale_down_that_nobody_saw() -> Result<()> {
    let story = Story::new(bare().await?, "unseen").await?;
    let warden = story.sets.own_warden().await?;
    story
        .tell("create web 3 Delete/Delete; claims web 0:set+mark 1:set+mark 2:set+mark")
        .await?;
    warden.process().kill()?;
    let steps = "turn web 1; now web 0:set+mark 1:set+mark 2:set+mark
        create late 2 Retain/Delete; turn late 1; now late 0 1";
    story.tell(steps).await?;
    let _warden = story.sets.own_warden().await?;
    let steps = "rest web 0:set+mark; rest late 0:mark 1; told ScaledDownUnmarked late data-late-1";
    story.tell(steps).await
}

/// STS-55: what is in range begins at `spec.ordinals.start`, and moves with it.
#[tokio::test]
async fn ordinals_begin_where_they_are_told() -> Result<()> {
    let steps = "create web 3 POLICY from=2; rest web 2@ 3@ 4@
        turn web 2 from=3; rest web 3@ 4@; turn web 2 from=0; rest web 0@ 1@";
    tell_each("start", &SCALED, steps).await
}

/// STS-17: claims that people made beforehand get what is theirs, and are deleted only once they were in range.
#[tokio::test]
async fn claims_made_beforehand_wait_for_their_ordinal() -> Result<()> {
    let steps = "claim data-web-0; claim data-web-1; claim data-web-2; create web 2 POLICY
        rest web 0@ 1@ 2~; told ScaledDownUnmarked web data-web-2; turn web 1; rest web 0@ 2~
        turn web 3; claims web 0@ *1@ 2@; turn web 2; rest web 0@ 1@";
    tell_each("beforehand", &SCALED, steps).await
}

/// STS-04, STS-36, STS-37: a claim that waits to go keeps its pod from coming. It is told of and not touched.
#[tokio::test]
async fn a_stale_claim_is_waited_for() -> Result<()> {
    let steps = "create web 3 POLICY; claims web 0@ 1@ 2@; hold pod/web-2; hold pvc/data-web-2
        ask web 2; claims web 0@ 1@ 2:pod+mark; free pod/web-2; claims web 0@ 1@ 2:gone-pod+mark+Terminating
        ask web 3; told PodBlockedByClaim web data-web-2; rest web 0@ 1@ 2:gone-pod+mark+Terminating
        kubectl wait sts/web --for=jsonpath={.status.replicas}=2
        free pvc/data-web-2; turn web 3; claims web 0@ 1@ *2@";
    tell_each("stale", &SCALED, steps).await
}

/// STS-51: the claim of a pending pod is made anew when it is lost, and has its reference and mark.
#[tokio::test]
async fn a_lost_claim_of_a_pending_pod_comes_back() -> Result<()> {
    let story = Story::new(guarded().await?, "pending").await?;
    let nowhere =
        json!({"spec": {"template": {"spec": {"nodeName": null, "schedulerName": "nobody"}}}});
    let web = set("web", 1, DELETE_DELETE, nowhere)?;
    story.sets.sets.create(&PostParams::default(), &web).await?;
    story
        .tell("rest web 0:set+mark; kubectl delete pvc data-web-0")
        .await?;
    eventually("the claim is there again", async || {
        // Nothing but an event of the set or its pods makes the StatefulSet controller look.
        let awake = json!({"metadata": {"annotations": {"example.com/awake": fastrand::u64(..).to_string()}}});
        story.sets.patch("web", awake).await?;
        story.sets.claim("data-web-0").await.map(drop)
    })
    .await?;
    story.tell("rest web *0:set+mark").await
}

/// STS-119, STS-120, STS-123: what the API server makes of policies, and what follows when one is changed and taken away.
#[tokio::test]
async fn policies_are_checked_changed_and_taken_away() -> Result<()> {
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
    story.tell(steps).await
}

/// STS-121, STS-122: where the API server drops the policy nothing is done, and that is said once.
#[tokio::test]
async fn without_the_field_nothing_is_done() -> Result<()> {
    let cluster = Cluster::ours()
        .name("dropping")
        .nodes(1)
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
            "it is not dropped"
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
    let said = || warden.process().log().matches(words).count();
    // It is another watch that tells of sets.
    eventually("it is said", async || said() > 0).await?;
    assert_eq!(said(), 1);
    cluster.stop().await;
    Ok(())
}
