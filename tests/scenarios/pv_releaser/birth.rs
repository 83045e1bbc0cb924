//! Volumes from birth: the webhook labels them, and claims of two seconds get their own back all the same.

use super::{
    directories::is_free,
    support::{DEFAULT_ID, Estate, LABEL, PROVISIONER, orphans},
};
use crate::support::{bare, dry_run, failed_open, guarded, volume};
use anyhow::{Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::PersistentVolume;
use kube::{ResourceExt, api::ListParams};
use serde_json::{Value, json};
use std::time::Duration;
use volume_warden_controlplane::{Call, Calls, eventually};

const PROTECTED: [&str; 1] = ["kubernetes.io/pv-protection"];

impl Estate {
    /// The volume of the claim, as it would be stored if it were created now.
    async fn at_admission(&self, claim: &str, changes: Value) -> Result<PersistentVolume> {
        let uid = self.space.claims.get(claim).await?.metadata.uid;
        let claim_ref = json!({"namespace": self.space.name, "name": claim, "uid": uid});
        let mut wanted = json!({"spec": {"claimRef": claim_ref}});
        json_patch::merge(&mut wanted, &changes);
        let wanted = volume(&self.pv(claim), wanted)?;
        Ok(self.space.volumes.create(&dry_run(), &wanted).await?)
    }

    /// As [`Self::at_admission`], and again only if the API server, by its counter, continued
    /// without the answer of a webhook of volumes.
    async fn reviewed(&self, claim: &str, changes: &Value) -> Result<PersistentVolume> {
        let cluster = &self.space.cluster;
        let born = eventually("the volume is reviewed in time", async || {
            let before = failed_open(cluster, "volumes.").await?;
            let born = self.at_admission(claim, changes.clone()).await?;
            let reviewed = born.finalizers() == PROTECTED;
            let in_time = reviewed || failed_open(cluster, "volumes.").await? == before;
            anyhow::Ok(in_time.then_some(born))
        })
        .await?;
        ensure!(born.finalizers() == PROTECTED, "{:?}", born.finalizers());
        Ok(born)
    }
}

fn label(volume: &PersistentVolume) -> Option<&str> {
    volume.labels().get(LABEL).map(String::as_str)
}

/// PR-01..07 at admission. With the label comes the finalizer, for which the API server does not
/// ask a second time.
#[tokio::test]
async fn a_volume_is_labelled_from_birth() -> Result<()> {
    let estate = Estate::new(guarded().await?, "birth").await?;
    for (name, labels) in [
        ("unlabelled", json!({"app": "web"})),
        ("foreign", json!({PROVISIONER: DEFAULT_ID, LABEL: "other"})),
        ("own", json!({PROVISIONER: DEFAULT_ID})),
    ] {
        estate.claim(name, labels).await?;
    }
    eventually("the watch has delivered the claim", async || {
        let born = estate.reviewed("own", &json!({})).await?;
        anyhow::Ok(label(&born) == Some(DEFAULT_ID))
    })
    .await?;
    // Claims that were created before are known as well now, so the first answer counts.
    for (claim, what, changes) in [
        (
            "own",
            "it has other labels",
            json!({"metadata": {"labels": {"app": "web"}}}),
        ),
        ("unlabelled", "its claim is not managed", json!({})),
        ("foreign", "its claim is not only its own", json!({})),
        (
            "own",
            "it is deleted with its claim",
            json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}}),
        ),
        (
            "own",
            "it is only reserved",
            json!({"spec": {"claimRef": {"uid": null}}}),
        ),
        (
            "own",
            "it is of an earlier claim",
            json!({"spec": {"claimRef": {"uid": "earlier"}}}),
        ),
        (
            "own",
            "it is another controller's",
            json!({"metadata": {"labels": {LABEL: "other"}}}),
        ),
    ] {
        let labels = &changes["metadata"]["labels"];
        let kept = labels[LABEL].as_str();
        let given = labels["app"].is_string().then_some(DEFAULT_ID);
        let born = estate.reviewed(claim, &changes).await?;
        ensure!(
            label(&born) == kept.or(given),
            "{what}: {:?}",
            born.labels()
        );
    }
    Ok(())
}

/// PR-20, with the webhook.
#[tokio::test]
async fn volumes_of_short_lived_claims_come_back() -> Result<()> {
    let estate = Estate::new(guarded().await?, "short").await?;
    come_back(&estate, DEFAULT_ID).await
}

/// PR-20, without.
#[tokio::test]
async fn volumes_of_short_lived_claims_come_back_without_the_webhook() -> Result<()> {
    let estate = Estate::new(bare().await?, "short-bare").await?;
    let warden = estate.warden(estate.id()).start().await?;
    come_back(&estate, estate.id()).await?;
    assert_eq!(orphans(&warden).await?, 0);
    Ok(())
}

/// Claims are provisioned by kube-controller-manager, and are gone after up to two seconds.
async fn come_back(estate: &Estate, id: &str) -> Result<()> {
    let audit = estate.space.cluster.audit();
    let began = audit.mark()?;
    estate.create_class(estate.id(), "Immediate").await?;
    let lives = [0, 20, 50, 100, 300, 2000].map(Duration::from_millis);
    let lives = lives.iter().enumerate().map(|(index, life)| async move {
        let name = format!("short{index}");
        let labels = json!({PROVISIONER: id});
        estate.claim_any(&name, labels).await?;
        // Nothing is waited for here: how long the claim lives is the load.
        tokio::time::sleep(*life).await;
        estate.space.delete_claim(&name).await
    });
    try_join_all(lives).await?;
    // What was made for the others was asked for before this one.
    estate.claim_any("last", json!({PROVISIONER: id})).await?;
    eventually("the last claim is bound", async || {
        let status = estate.space.claims.get("last").await?.status;
        anyhow::Ok(status.and_then(|status| status.phase).as_deref() == Some("Bound"))
    })
    .await?;
    estate.space.delete_claim("last").await?;
    // Nothing proves the namespace of a claim that was gone before its volume: that is reported.
    let of_class = eventually("all volumes are free or reported", async || {
        let volumes = estate.volumes_of(estate.id()).await?;
        let mut free = 0;
        for volume in &volumes {
            let fields = format!(
                "involvedObject.name={},reason=ErrReleasePV",
                volume.name_any()
            );
            let reported = estate
                .events
                .list(&ListParams::default().fields(&fields))
                .await?;
            free += usize::from(is_free(volume));
            let settled = is_free(volume) || is_spare(volume) || !reported.items.is_empty();
            ensure!(settled, "{volume:?}");
        }
        ensure!(free > 0, "none is free");
        anyhow::Ok(Some(volumes))
    });
    let volumes = of_class.await?;
    let calls = audit.since(began)?;
    for volume in &volumes {
        let settled = is_free(volume) || is_spare(volume);
        let lost = !settled && is_created_in_life(&calls, &estate.space.name, volume);
        ensure!(!lost, "its claim existed: {volume:?}");
        estate.throw_away(volume).await?;
    }
    Ok(())
}

/// Whether the API server created the volume before it deleted the claim to which it belongs.
fn is_created_in_life(calls: &Calls, namespace: &str, volume: &PersistentVolume) -> bool {
    let claim_ref = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.claim_ref.as_ref());
    let claim = claim_ref.and_then(|claim| claim.name.as_deref());
    let created = |call: &Call| {
        (&*call.verb, &*call.resource) == ("create", "persistentvolumes")
            && call.name == volume.name_any()
    };
    let deleted = |call: &Call| {
        (&*call.verb, &*call.resource) == ("delete", "persistentvolumeclaims")
            && call.namespace == namespace
            && Some(&*call.name) == claim
    };
    let deletion = calls.iter().position(deleted);
    calls
        .iter()
        .take(deletion.unwrap_or(calls.len()))
        .any(created)
}

/// Made for a claim that is bound to a reserved volume: kube-controller-manager's watch of volumes
/// was later than that of claims. It has taken the claim from the volume, which was never used.
fn is_spare(volume: &PersistentVolume) -> bool {
    let spec = volume.spec.as_ref();
    let status = volume.status.as_ref();
    let available = status.and_then(|status| status.phase.as_deref()) == Some("Available");
    available && spec.is_some_and(|spec| spec.claim_ref.is_none())
}
