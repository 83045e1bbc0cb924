//! Test cases STS-* of the specification: claims with foreign owners, pods without an owner or with
//! a wrong name, labels of claim templates, and clusters where only Volume Warden writes owner
//! references.

use super::stories::{
    Step::{Claims, ClaimsNow, Create, CreateClaim, Event, Kubectl, PatchAndWait, StableClaims},
    Story, replicas,
};
use super::support::{DELETE_DELETE, DELETE_RETAIN, RETAIN_DELETE, RETAIN_RETAIN};
use crate::support::{bare, guarded};
use anyhow::{Result, bail};
use kube::{Resource, ResourceExt};
use serde_json::json;
use volume_warden_controlplane::eventually;

/// STS-18, STS-28, STS-29: on a cluster without the retention of Kubernetes, owner references are
/// added and removed by Volume Warden only: nothing changes before it is started.
#[tokio::test]
async fn every_owner_reference_is_written_by_volume_warden() -> Result<()> {
    let story = Story::new(bare().await?, "gate").await?;
    story
        .run([
            Create("web", replicas(1).policy(DELETE_DELETE)),
            Create("old", replicas(1).policy(RETAIN_RETAIN)),
        ])
        .await?;
    set_owners(&story, "data-old-0", &[("sts/old", true)]).await?;
    story
        .run([
            PatchAndWait("web", replicas(2)),
            PatchAndWait("old", replicas(2)),
            ClaimsNow("web", "0 1"),
            ClaimsNow("old", "0:set 1"),
        ])
        .await?;
    let _warden = story.sets.start_warden().await?;
    story
        .run([
            Claims("web", "0:set+mark 1:set+mark"),
            StableClaims("old", "0 1"),
        ])
        .await
}

/// Replaces the owner references of the claim. Each owner is a kubectl name such as `sts/web`, and
/// the value of both `controller` and `blockOwnerDeletion`.
async fn set_owners(story: &Story, claim: &str, owners: &[(&str, bool)]) -> Result<()> {
    let mut references = vec![];
    for &(owner, controller) in owners {
        let fields = "jsonpath={.apiVersion} {.kind} {.metadata.name} {.metadata.uid}";
        let space = &story.sets.space;
        let get = ["get", owner, "-n", &space.name, "-o", fields];
        let fields = space.cluster.kubectl(&get).await?;
        let [api, kind, name, uid] = fields.split(' ').collect::<Vec<_>>()[..] else {
            bail!("{fields}")
        };
        references.push(json!({"apiVersion": api, "kind": kind, "name": name, "uid": uid, "controller": controller, "blockOwnerDeletion": controller}));
    }
    let references = json!({"metadata": {"ownerReferences": references}});
    story.sets.space.patch_claim(claim, references).await
}

/// STS-19: to a claim that another object controls, Volume Warden adds no owner reference, and it
/// removes its own. An owner without `controller: true` does not prevent the owner reference to the
/// set, and the claim is kept as long as that owner exists.
#[tokio::test]
async fn a_foreign_controller_prevents_an_owner_reference() -> Result<()> {
    let story = Story::new(guarded().await?, "foreign").await?;
    story
        .run([
            CreateClaim("data-web-0"),
            CreateClaim("data-web-1"),
            Kubectl("create configmap other"),
        ])
        .await?;
    set_owners(&story, "data-web-0", &[("cm/other", true)]).await?;
    set_owners(&story, "data-web-1", &[("cm/other", false)]).await?;
    let steps = [
        Create("web", replicas(2).policy(DELETE_DELETE)),
        StableClaims("web", "0:ConfigMap 1:ConfigMap+set+mark"),
        Event("ConflictingController", "web", "data-web-0"),
    ];
    story.run(steps).await?;
    set_owners(
        &story,
        "data-web-0",
        &[("cm/other", true), ("sts/web", false)],
    )
    .await?;
    let steps = [
        StableClaims("web", "0:ConfigMap 1:ConfigMap+set+mark"),
        PatchAndWait("web", replicas(0)),
        StableClaims("web", "0:ConfigMap 1:ConfigMap+set+mark"),
        Kubectl("delete sts web"),
        StableClaims("web", "0:ConfigMap 1:ConfigMap+gone-mark"),
    ];
    story.run(steps).await
}

/// STS-32..35: the StatefulSet controller adopts an orphaned pod, and releases a pod whose name
/// does not match the set. The claims follow the policy by their ordinals, also the claim that only
/// the misnamed pod uses. Kubernetes does not change that claim.
#[tokio::test]
async fn claims_do_not_depend_on_the_owners_of_pods() -> Result<()> {
    for (policy, at_two_replicas, at_none) in [
        (RETAIN_RETAIN, "0 1 2", "0 1 2"),
        (RETAIN_DELETE, "0:mark 1:mark 2", "2"),
        (DELETE_RETAIN, "0:set 1:set 2:set", "0:set 1:set 2:set"),
        (DELETE_DELETE, "0:set+mark 1:set+mark 2:set", "2:set"),
    ] {
        let story = Story::new(guarded().await?, "misnamed").await?;
        let spec = replicas(2).policy(policy);
        story
            .run([CreateClaim("data-web-2"), Create("web", spec)])
            .await?;
        let owner = story.sets.sets.get("web").await?.controller_owner_ref(&());
        let meta = json!({"labels": {"app": "web"}, "ownerReferences": [owner]});
        let misnamed = json!({"metadata": meta, "spec": {"nodeName": "node-1"}});
        story
            .sets
            .space
            .create_pod("misnamed-2", "data-web-2", misnamed)
            .await?;
        let has_owner = async |pod: &str| {
            anyhow::Ok(
                !story
                    .sets
                    .space
                    .pods
                    .get(pod)
                    .await?
                    .owner_references()
                    .is_empty(),
            )
        };
        story
            .run([Kubectl(
                r#"patch pod web-1 --type=merge -p {"metadata":{"ownerReferences":null}}"#,
            )])
            .await?;
        eventually("web-1 is adopted and misnamed-2 released", async || {
            anyhow::Ok(has_owner("web-1").await? && !has_owner("misnamed-2").await?)
        })
        .await?;
        story
            .run([
                StableClaims("web", at_two_replicas),
                PatchAndWait("web", replicas(0)),
                StableClaims("web", at_none),
            ])
            .await?;
    }
    Ok(())
}

/// STS-113: the claims of each template follow the policy, whatever labels the template has. The
/// labels of the claims are those of the StatefulSet controller.
#[tokio::test]
async fn labels_and_templates_make_no_difference() -> Result<()> {
    let sets = Story::new(guarded().await?, "labels").await?.sets;
    let (db, both) = (json!({"tier": "db"}), json!({"tier": "db", "app": "other"}));
    let labels = [
        ("data", json!(null)),
        ("none", json!({})),
        ("disjoint", db),
        ("overlapping", both),
    ];
    let spec = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "absent", "resources": {"requests": {"storage": "1Gi"}}});
    let template =
        |(name, labels)| json!({"metadata": {"name": name, "labels": labels}, "spec": spec});
    let templates = json!({"spec": {"volumeClaimTemplates": labels.map(template)}});
    sets.create_with("web", 2, DELETE_DELETE, templates).await?;
    let (app, both) = (json!({"app": "web"}), json!({"app": "web", "tier": "db"}));
    for (template, labels) in [
        ("data", &app),
        ("none", &app),
        ("disjoint", &both),
        ("overlapping", &both),
    ] {
        let claim = format!("{template}-web-1");
        sets.claim_is_owned_by(&claim, &["StatefulSet/web"]).await?;
        assert_eq!(json!(sets.claim(&claim).await?.labels()), *labels);
    }
    sets.scale("web", 1).await?;
    for template in ["data", "none", "disjoint", "overlapping"] {
        sets.space
            .claim_is_gone(&format!("{template}-web-1"))
            .await?;
        sets.claim_is_owned_by(&format!("{template}-web-0"), &["StatefulSet/web"])
            .await?;
    }
    Ok(())
}
