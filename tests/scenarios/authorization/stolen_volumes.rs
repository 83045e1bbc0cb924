//! Which writes of volumes a stolen token of Volume Warden's service account permits.

use super::stolen_token::{StolenToken, owner, patch};
use crate::support::{Space, bare, volume};
use anyhow::{Result, ensure};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use volume_warden_controlplane::eventually;

#[tokio::test]
async fn a_stolen_token_changes_no_volume_but_as_volume_warden_does() -> Result<()> {
    let space = Space::new(bare().await?, "stolen-volumes").await?;
    let post = PostParams::default();
    let name = |what: &str| format!("{}-{what}", space.name);
    let claim_of = |uid: Option<&str>| json!({"spec": {"claimRef": {"namespace": space.name, "name": "gone", "uid": uid}}});
    let bound_by = json!({"metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes", "team": "a"}}});
    let mut released = claim_of(Some("gone"));
    json_patch::merge(&mut released, &bound_by);
    let record = |value: String| json!({"metadata": {"annotations": {"volume-warden.dev/claim-namespace": value}}});
    let recorded = |changes: Value| {
        let mut all = record(format!("{}/n/gone", space.name));
        json_patch::merge(&mut all, &changes);
        all
    };
    let mut csi = claim_of(None);
    csi["spec"]["hostPath"] = Value::Null;
    csi["spec"]["csi"] = json!({"driver": "example.com", "volumeHandle": "v"});
    let protection = "kubernetes.io/pv-protection";
    let finalizers = |list: &[&str]| json!({"metadata": {"finalizers": list}});
    for (what, changes) in [
        ("reserved", claim_of(None)),
        ("released", released),
        ("handed", recorded(claim_of(None))),
        ("csi", csi),
        ("ending", finalizers(&[protection])),
        ("held", finalizers(&["example.com/hold", protection])),
    ] {
        let volume = volume(&name(what), changes)?;
        space.volumes.create(&post, &volume).await?;
    }
    for what in ["ending", "held"] {
        let delete = DeleteParams::default();
        space.volumes.delete(&name(what), &delete).await?;
    }
    eventually("the volume is Released", async || {
        let volume = space.volumes.get(&name("released")).await?;
        let phase = volume.status.and_then(|status| status.phase);
        ensure!(phase.as_deref() == Some("Released"), "{phase:?}");
        Ok(())
    })
    .await?;
    let path = |what: &str| format!("/api/v1/persistentvolumes/{}", name(what));
    let (reserved, released) = (path("reserved"), path("released"));
    let parked = async |what: &str| -> Result<Value> {
        let uid = space.volumes.get(&name(what)).await?.metadata.uid;
        let claim = format!("parked-{}", uid.unwrap_or_default());
        let claim = json!({"namespace": "volume-warden", "name": claim, "uid": null});
        Ok(json!({"spec": {"claimRef": claim}}))
    };
    // The cluster's administrator parks this volume, as Volume Warden does.
    let kept = volume(&name("kept"), recorded(claim_of(None)))?;
    space.volumes.create(&post, &kept).await?;
    let park = parked("kept").await?;
    let merge = (PatchParams::default(), Patch::Merge(&park));
    space
        .volumes
        .patch(&name("kept"), &merge.0, &merge.1)
        .await?;
    eventually("the volumes are Available", async || {
        for what in ["kept", "handed"] {
            let status = space.volumes.get(&name(what)).await?.status;
            let phase = status.and_then(|status| status.phase);
            ensure!(phase.as_deref() == Some("Available"), "{what}: {phase:?}");
        }
        Ok(())
    })
    .await?;
    let (kept, handed) = (path("kept"), path("handed"));
    let reserved_for = |namespace: &str, uid: Option<&str>| {
        let claim = json!({"namespace": namespace, "name": "new", "uid": uid});
        json!({"spec": {"claimRef": claim}})
    };
    let own_namespace = space.name.as_str();
    let forged = |value: &str| {
        let mut all = reserved_for("other", None);
        json_patch::merge(&mut all, &record(value.to_owned()));
        all
    };
    let token = StolenToken::new(&space).await?;
    let release = "may only release a volume";
    let labels = "may only change its own labels on volumes";
    let annotations = "may only change its own annotations on volumes";
    let reserve = "may only reserve a parked volume for a claim of its recorded namespace";
    let recording = "may only record the namespace of a volume's present claim";
    let finalizer = "may only add and remove the finalizer kubernetes.io/pv-protection";
    let only_claim = "may only change the claimRef";
    let with_label = |list: &[&str]| {
        let mut both = finalizers(list);
        both["metadata"]["labels"] = json!({"a": "b"});
        both
    };
    let mut refused = vec![
        // The volume stays, so what else is changed counts.
        (
            patch(&path("held"), with_label(&["example.com/hold"])),
            labels,
        ),
        (patch(&path("ending"), with_label(&[protection])), labels),
        (patch(&reserved, with_label(&[])), labels),
        (
            patch(
                &released,
                json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}}),
            ),
            only_claim,
        ),
        (
            patch(
                &format!("{reserved}/status"),
                json!({"status": {"phase": "Released"}}),
            ),
            only_claim,
        ),
        (
            patch(&reserved, json!({"spec": {"claimRef": null}})),
            reserve,
        ),
        (patch(&reserved, parked("reserved").await?), reserve),
        (patch(&kept, json!({"spec": {"claimRef": null}})), reserve),
        (patch(&kept, reserved_for("other", None)), reserve),
        (
            patch(&kept, reserved_for(own_namespace, Some("u"))),
            reserve,
        ),
        (patch(&kept, forged("other/n/u")), reserve),
        (patch(&handed, reserved_for(own_namespace, None)), reserve),
        (patch(&handed, reserved_for("other", None)), reserve),
        (patch(&kept, record("other/n/gone".to_owned())), recording),
        (
            patch(&released, record("other/n/gone".to_owned())),
            recording,
        ),
        (
            patch(&released, record(format!("{own_namespace}/n/other"))),
            recording,
        ),
        (patch(&released, parked("kept").await?), release),
        (
            patch(
                &released,
                json!({"spec": {"claimRef": {"namespace": "other", "uid": null}}}),
            ),
            release,
        ),
        (
            patch(&released, json!({"spec": {"claimRef": {"uid": "other"}}})),
            release,
        ),
        (
            patch(&released, json!({"metadata": {"labels": {"a": "b"}}})),
            labels,
        ),
        (
            patch(
                &released,
                json!({"metadata": {"annotations": {"team": "b"}}}),
            ),
            annotations,
        ),
        (
            patch(&released, json!({"metadata": {"annotations": {"a": "b"}}})),
            annotations,
        ),
        (
            patch(
                &released,
                json!({"metadata": {"finalizers": ["example.com/never"]}}),
            ),
            finalizer,
        ),
        (
            patch(&released, owner("ConfigMap", "c")),
            "may not change the owners of volumes",
        ),
    ];
    let zone = json!({"key": "zone", "operator": "In", "values": ["a"]});
    for (field, value) in [
        ("storageClassName", json!("gold")),
        ("volumeAttributesClassName", json!("gold")),
        ("capacity", json!({"storage": "9Gi"})),
        ("accessModes", json!(["ReadWriteMany"])),
        ("mountOptions", json!(["suid"])),
        (
            "nodeAffinity",
            json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}}),
        ),
        (
            "csi",
            json!({"controllerExpandSecretRef": {"namespace": "other", "name": "s"}}),
        ),
    ] {
        let write = patch(&path("csi"), json!({"spec": {field: value}}));
        refused.push((write, only_claim));
    }
    // Volume Warden has no permission to write the status.
    token.grant("patch", "persistentvolumes/status").await?;
    token.all_are_refused(refused).await?;
    let permitted = vec![
        // The volume is gone with its last finalizer, so nothing else is compared.
        patch(&path("ending"), with_label(&[])),
        patch(&path("held"), finalizers(&["example.com/hold"])),
        patch(&released, json!({"spec": {"claimRef": null}})),
        patch(&released, parked("released").await?),
        patch(&released, record(format!("{own_namespace}/n/gone"))),
        patch(&kept, reserved_for(own_namespace, None)),
        patch(&handed, parked("handed").await?),
        patch(
            &handed,
            json!({"metadata": {"annotations": {"volume-warden.dev/claim-namespace": null}}}),
        ),
        patch(
            &released,
            json!({"spec": {"claimRef": {"uid": null}}, "metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": null}}}),
        ),
        patch(
            &released,
            json!({"metadata": {"labels": {"reclaimable-pv-releaser.kubernetes.io/managed-by": "id"}}}),
        ),
        patch(
            &reserved,
            json!({"metadata": {"finalizers": ["kubernetes.io/pv-protection"]}}),
        ),
        patch(&reserved, json!({"metadata": {"finalizers": []}})),
    ];
    token.all_are_permitted(permitted).await
}
