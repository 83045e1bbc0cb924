//! Tenants who try to get the released volume of another tenant. Only a claim of the namespace of
//! the deleted claim gets it.

use super::support::{DEFAULT_ID, LABEL, PROVISIONER, VolumeSpace};
use crate::support::{Space, bare, claim, create_namespace, guarded, is_soak, rbac};
use anyhow::{Context, Result, ensure};
use http::Request;
use k8s_openapi::api::core::v1::PersistentVolume;
use kube::{ResourceExt, client::Body};
use serde_json::{Value, json};
use volume_warden_controlplane::eventually;

/// The namespace of Volume Warden.
const SYSTEM_NAMESPACE: &str = "volume-warden";

/// How many claims each of two tenants creates: 24, or 500 with `VOLUME_WARDEN_SOAK=1`.
fn attempts() -> u64 {
    if is_soak() { 500 } else { 24 }
}

fn pick<T: Clone>(random: &mut fastrand::Rng, choices: &[T]) -> T {
    let index = random.usize(..choices.len());
    choices[index].clone()
}

/// A claim with a random choice of the fields by which a tenant may try to get the volume.
fn hostile_claim(seed: u64, class: &str, volume: &PersistentVolume) -> Value {
    let random = &mut fastrand::Rng::with_seed(seed);
    let uid = volume.uid().unwrap_or_default();
    let labels = [
        json!({LABEL: DEFAULT_ID}),
        json!({PROVISIONER: DEFAULT_ID}),
        json!({"volume-warden.dev/release-scope": "cluster"}),
    ];
    let annotations = [
        json!({"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}),
        json!({"volume-warden.dev/release-scope": "cluster"}),
        json!(null),
    ];
    let owner =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "kube-root-ca.crt", "uid": uid}]);
    let name = pick(
        random,
        &["data".to_owned(), format!("parked-{uid}"), String::new()],
    );
    let changes = json!({
        "metadata": {
            "labels": pick(random, &labels), "annotations": pick(random, &annotations),
            "ownerReferences": pick(random, &[json!(null), owner]),
        },
        "spec": {
            "storageClassName": pick(random, &[class, class, ""]),
            "volumeName": pick(random, &[json!(null), json!(volume.name_any())]),
            "selector": pick(random, &[json!(null), json!(null), json!({"matchLabels": {"pool": "a"}})]),
        },
    });
    let name = if name.is_empty() {
        format!("claim-{seed}")
    } else {
        name
    };
    let mut claim = json!(claim(&name, json!({})).expect("a claim"));
    json_patch::merge(&mut claim, &changes);
    claim
}

/// Creates a claim as the tenant for each seed. An earlier claim of the same name is deleted
/// before. Returns the number of created claims.
async fn attack(
    space: &Space,
    seeds: std::ops::Range<u64>,
    volume: &PersistentVolume,
) -> Result<u64> {
    let class = volume.spec.clone().and_then(|spec| spec.storage_class_name);
    let mut created = 0;
    for seed in seeds {
        let claim = hostile_claim(seed, &class.clone().unwrap_or_default(), volume);
        let name = claim["metadata"]["name"].as_str().unwrap_or_default();
        if space.claims.get_opt(name).await?.is_some() {
            // The garbage collector may have deleted it, with its owner.
            let _ = space.claims.delete(name, &Default::default()).await;
            space.claim_is_gone(name).await?;
        }
        let path = format!("/api/v1/namespaces/{}/persistentvolumeclaims", space.name);
        let request = Request::post(path)
            .header("content-type", "application/json")
            .header("impersonate-user", "tenant")
            .body(Body::from(serde_json::to_vec(&claim)?))?;
        let response = space.cluster.client().send(request).await?;
        let code = response.status().as_u16();
        // The ValidatingAdmissionPolicy refuses the annotations if the webhook was too late.
        ensure!([201, 403].contains(&code), "seed {seed}: {code}");
        created += u64::from(code == 201);
    }
    Ok(created)
}

/// The namespace in the claimRef of the volume, or an empty string, and the uid in it.
fn claimant(volume: &PersistentVolume) -> (String, Option<String>) {
    let reference = volume
        .spec
        .clone()
        .unwrap_or_default()
        .claim_ref
        .unwrap_or_default();
    (reference.namespace.unwrap_or_default(), reference.uid)
}

impl VolumeSpace {
    /// Waits until the claim is bound. Returns the name of its volume.
    async fn bound_to(&self, name: &str) -> Result<String> {
        eventually(&format!("claim {name} is bound"), async || {
            let claim = self.space.claims.get(name).await?;
            let status = claim.status.unwrap_or_default();
            ensure!(status.phase.as_deref() == Some("Bound"), "{status:?}");
            anyhow::Ok(claim.spec.and_then(|spec| spec.volume_name))
        })
        .await
    }

    /// Deletes the claim, and waits until its volume is parked.
    async fn delete_and_park(&self, name: &str, volume: &PersistentVolume) -> Result<()> {
        self.has_recorded_namespace(volume).await?;
        self.space.delete_claim(name).await?;
        self.volume_is_parked(volume).await
    }

    /// Waits until the record on the volume has the namespace and the uid of its claim.
    pub async fn has_recorded_namespace(&self, volume: &PersistentVolume) -> Result<()> {
        eventually("the namespace of the claim is recorded", async || {
            let volume = self.space.volumes.get(&volume.name_any()).await?;
            let record = volume
                .annotations()
                .get("volume-warden.dev/claim-namespace")
                .cloned();
            let (namespace, uid) = claimant(&volume);
            let record = record.context("no record")?;
            let uid = uid.context("no claim")?;
            ensure!(
                record.starts_with(&namespace) && record.ends_with(&uid),
                "{record}"
            );
            Ok(())
        })
        .await
    }

    async fn volume_is_parked(&self, volume: &PersistentVolume) -> Result<()> {
        eventually("the volume is parked", async || {
            let volume = self.space.volumes.get(&volume.name_any()).await?;
            ensure!(
                claimant(&volume) == (SYSTEM_NAMESPACE.to_owned(), None),
                "{:?}",
                volume.spec
            );
            let status = volume.status.unwrap_or_default();
            ensure!(status.phase.as_deref() == Some("Available"), "{status:?}");
            Ok(())
        })
        .await
    }

    /// Checks that no claim of the namespace is bound to the volume. Before that, it waits until a
    /// later claim is bound to a volume that is reserved for it.
    async fn no_claim_has(&self, space: &Space, volume: &PersistentVolume) -> Result<()> {
        let reserved = json!({"spec": {"claimRef": {"namespace": space.name, "name": "later"}}});
        self.create(&space.name, reserved).await?;
        let later = json!({"storageClassName": self.id(), "volumeName": self.pv(&space.name)});
        let later = claim("later", json!({"spec": later}))?;
        space.claims.create(&Default::default(), &later).await?;
        eventually("a later claim is bound", async || {
            let status = space.claims.get("later").await?.status;
            anyhow::Ok(status.and_then(|status| status.phase).as_deref() == Some("Bound"))
        })
        .await?;
        let found = self.space.volumes.get(&volume.name_any()).await?;
        ensure!(
            claimant(&found) == (SYSTEM_NAMESPACE.to_owned(), None),
            "{:?}",
            found.spec
        );
        for claim in space.claims.list(&Default::default()).await? {
            let status = claim.status.clone().unwrap_or_default();
            let named = claim.spec.clone().and_then(|spec| spec.volume_name);
            let has = status.phase.as_deref() == Some("Bound") && named == Some(volume.name_any());
            ensure!(!has, "{claim:?}");
        }
        Ok(())
    }
}

/// A tenant in another namespace does not get the volume, and neither does a tenant in a recreated
/// namespace of the same name. The StorageClass does not exist, so that no volume is provisioned:
/// kube-controller-manager could provision one for the last claim if its watch of volumes were
/// later than that of claims.
#[tokio::test]
async fn a_released_volume_is_for_its_namespace_only() -> Result<()> {
    let volume_space = VolumeSpace::new(guarded().await?, "crossing").await?;
    let other = Space::new(volume_space.space.cluster.clone(), "crossing-other").await?;
    rbac::grant_edit(&other, "tenant").await?;
    let managed = json!({PROVISIONER: DEFAULT_ID});
    volume_space.pair("data", managed.clone()).await?;
    let volume = volume_space.get("data").await?;
    volume_space.delete_and_park("data", &volume).await?;

    let attempts = attempts();
    let created = attack(&other, 0..attempts, &volume).await?;
    ensure!(created > attempts / 2, "{created} claims");
    volume_space.no_claim_has(&other, &volume).await?;

    // A claim of the namespace of the deleted claim gets it.
    volume_space.claim_any("again", managed).await?;
    assert_eq!(volume_space.bound_to("again").await?, volume.name_any());
    volume_space.delete_and_park("again", &volume).await?;

    let (name, client) = (
        volume_space.id().to_owned(),
        volume_space.space.cluster.client(),
    );
    volume_space
        .space
        .cluster
        .kubectl(&["delete", "namespace", &name])
        .await?;
    create_namespace(&client, &name).await?;
    rbac::grant_edit(&volume_space.space, "tenant").await?;
    let created = attack(&volume_space.space, attempts..2 * attempts, &volume).await?;
    ensure!(created > attempts / 2, "{created} claims");
    volume_space
        .no_claim_has(&volume_space.space, &volume)
        .await
}

/// The administrator labels the volume with the release scope `cluster`, so a claim of another
/// namespace gets it.
#[tokio::test]
async fn a_volume_with_the_release_scope_cluster_is_for_any_claim() -> Result<()> {
    let volume_space = VolumeSpace::new(guarded().await?, "crossing-free").await?;
    let other = Space::new(volume_space.space.cluster.clone(), "crossing-taker").await?;
    volume_space
        .pair("data", json!({PROVISIONER: DEFAULT_ID}))
        .await?;
    let volume = volume_space.get("data").await?;
    let label = json!({"metadata": {"labels": {"volume-warden.dev/release-scope": "cluster"}}});
    let (patch, name) = (kube::api::Patch::Merge(&label), volume.name_any());
    volume_space
        .space
        .volumes
        .patch(&name, &Default::default(), &patch)
        .await?;
    volume_space.space.delete_claim("data").await?;
    eventually("the volume is available to any claim", async || {
        let volume = volume_space.space.volumes.get(&name).await?;
        let status = volume.status.as_ref();
        let phase = status.and_then(|status| status.phase.as_deref());
        let free = claimant(&volume) == (String::new(), None);
        anyhow::Ok(free && phase == Some("Available"))
    })
    .await?;
    let taker = claim(
        "data",
        json!({"spec": {"storageClassName": volume_space.id()}}),
    )?;
    other.claims.create(&Default::default(), &taker).await?;
    eventually("the other tenant has the volume", async || {
        let volume = volume_space.space.volumes.get(&name).await?;
        anyhow::Ok(claimant(&volume).0 == other.name)
    })
    .await
}

/// Without webhooks, the reconciler reserves the volume for a claim that waits.
#[tokio::test]
async fn a_claim_that_admission_missed_gets_the_volume_of_its_namespace() -> Result<()> {
    let volume_space = VolumeSpace::new(bare().await?, "missed").await?;
    let other = Space::new(volume_space.space.cluster.clone(), "missed-other").await?;
    let scope = "--release-scope=namespace";
    let _warden = volume_space
        .warden(volume_space.id())
        .arg(scope)
        .start()
        .await?;
    volume_space
        .pair("data", json!({PROVISIONER: volume_space.id()}))
        .await?;
    volume_space
        .has_recorded_namespace(&volume_space.get("data").await?)
        .await?;
    volume_space.space.delete_claim("data").await?;
    volume_space.is_parked("data", SYSTEM_NAMESPACE).await?;
    let foreign = json!({"spec": {"storageClassName": volume_space.id()}});
    let foreign = claim("data", foreign)?;
    other.claims.create(&Default::default(), &foreign).await?;
    volume_space.claim_any("next", json!({})).await?;
    volume_space.has_phase("data", "Bound").await?;
    let (namespace, _) = claimant(&volume_space.get("data").await?);
    assert_eq!(namespace, volume_space.space.name);
    Ok(())
}
