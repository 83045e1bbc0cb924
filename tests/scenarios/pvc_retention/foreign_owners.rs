//! Rows STS-* of upstream's tables: foreign owners, labels and pods of a set, and references on
//! clusters where only Volume Warden writes them.

use super::stories::{
    Step::{Claims, Create, CreateClaim, Event, Kubectl, Now, Rest, Turn},
    Story, replicas,
};
use super::support::{DELETE_DELETE, DELETE_RETAIN, RETAIN_DELETE, RETAIN_RETAIN};
use crate::support::{bare, guarded};
use anyhow::{Result, bail};
use kube::{Resource, ResourceExt};
use serde_json::json;
use volume_warden_controlplane::eventually;

/// STS-18, STS-28, STS-29: on these clusters only Volume Warden writes and removes references.
#[tokio::test]
async fn every_reference_is_written_by_volume_warden() -> Result<()> {
    let story = Story::new(bare().await?, "gate").await?;
    story
        .run([
            Create("web", replicas(1).policy(DELETE_DELETE)),
            Create("old", replicas(1).policy(RETAIN_RETAIN)),
        ])
        .await?;
    own(&story, "data-old-0", &[("sts/old", true)]).await?;
    story
        .run([
            Turn("web", replicas(2)),
            Turn("old", replicas(2)),
            Now("web", "0 1"),
            Now("old", "0:set 1"),
        ])
        .await?;
    let _warden = story.sets.own_warden().await?;
    story
        .run([Claims("web", "0:set+mark 1:set+mark"), Rest("old", "0 1")])
        .await
}

/// Gives the claim these owners, each as a controller that blocks deletion or not.
async fn own(story: &Story, claim: &str, owners: &[(&str, bool)]) -> Result<()> {
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

/// STS-19: with a foreign controller Volume Warden writes no reference and removes its own. Any
/// other owner is no obstacle, and keeps the claim for as long as that owner exists.
#[tokio::test]
async fn a_foreign_controller_prevents_a_reference() -> Result<()> {
    let story = Story::new(guarded().await?, "foreign").await?;
    story
        .run([
            CreateClaim("data-web-0"),
            CreateClaim("data-web-1"),
            Kubectl("create configmap other"),
        ])
        .await?;
    own(&story, "data-web-0", &[("cm/other", true)]).await?;
    own(&story, "data-web-1", &[("cm/other", false)]).await?;
    let steps = [
        Create("web", replicas(2).policy(DELETE_DELETE)),
        Rest("web", "0:ConfigMap 1:ConfigMap+set+mark"),
        Event("ConflictingController", "web", "data-web-0"),
    ];
    story.run(steps).await?;
    own(
        &story,
        "data-web-0",
        &[("cm/other", true), ("sts/web", false)],
    )
    .await?;
    let steps = [
        Rest("web", "0:ConfigMap 1:ConfigMap+set+mark"),
        Turn("web", replicas(0)),
        Rest("web", "0:ConfigMap 1:ConfigMap+set+mark"),
        Kubectl("delete sts web"),
        Rest("web", "0:ConfigMap 1:ConfigMap+gone-mark"),
    ];
    story.run(steps).await
}

/// STS-32..35: an orphaned pod is adopted, a misnamed one released. The claims follow their
/// ordinals, also the claim that only the misnamed pod uses; in-tree does not change that one.
#[tokio::test]
async fn claims_do_not_depend_on_the_owners_of_pods() -> Result<()> {
    for (policy, two, none) in [
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
        let owned = async |pod: &str| {
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
        eventually("adopted and released", async || {
            anyhow::Ok(owned("web-1").await? && !owned("misnamed-2").await?)
        })
        .await?;
        story
            .run([
                Rest("web", two),
                Turn("web", replicas(0)),
                Rest("web", none),
            ])
            .await?;
    }
    Ok(())
}

/// STS-113: only the StatefulSet controller sets labels; each template has its claims.
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
