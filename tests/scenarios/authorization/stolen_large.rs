//! The policies are evaluated for objects of maximum size. A policy whose evaluation costs too much
//! refuses the write, and a finalizer would never be removed.

use super::stolen_token::{StolenToken, Write, claims_path, patch};
use crate::{
    pvc_trash::support::is_in_phase,
    support::{Space, bare, claim, volume},
};
use anyhow::Result;
use kube::api::PostParams;
use serde_json::{Map, Value, json};

/// Metadata with this finalizer in the middle of 5000 others, 2000 owners and 8000 annotations.
fn large(finalizer: &str) -> Value {
    let mut finalizers: Vec<_> = (0..5000).map(|n| format!("example.com/f{n}")).collect();
    finalizers.insert(2500, finalizer.to_owned());
    let owners = (0..2000).map(|n| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": format!("c{n}"), "uid": format!("u{n}")}));
    let annotations = (0..8000).map(|n| (format!("a{n}"), json!("b")));
    json!({
        "finalizers": finalizers, "ownerReferences": owners.collect::<Vec<_>>(),
        "annotations": annotations.collect::<Map<_, _>>(),
    })
}

fn without_finalizer(path: &str) -> Write {
    patch(
        path,
        json!([{"op": "remove", "path": "/metadata/finalizers/2500"}]),
    )
}

#[tokio::test]
async fn the_policies_do_not_keep_the_finalizer_of_a_very_large_claim() -> Result<()> {
    let space = Space::new(bare().await?, "stolen-large").await?;
    let metadata = large("kubernetes.io/pvc-protection");
    let claim = claim("large", json!({"metadata": metadata}))?;
    space.claims.create(&PostParams::default(), &claim).await?;
    let write = without_finalizer(&format!("{}/large", claims_path(&space)));
    let token = StolenToken::new(&space).await?;
    token.all_are_permitted(vec![write]).await
}

/// A tenant may write a finalizer several times, and one patch removes them all.
#[tokio::test]
async fn the_policies_do_not_keep_a_finalizer_that_is_repeated() -> Result<()> {
    let space = Space::new(bare().await?, "stolen-repeated").await?;
    let protection = "kubernetes.io/pvc-protection";
    let metadata = json!({
        "finalizers": [protection, protection, "example.com/f", protection, protection],
    });
    let claim = claim("repeated", json!({"metadata": metadata}))?;
    space.claims.create(&PostParams::default(), &claim).await?;
    let path = format!("{}/repeated", claims_path(&space));
    let remove_all =
        json!([{"op": "add", "path": "/metadata/finalizers", "value": ["example.com/f"]}]);
    let remove_foreign = json!([
        {"op": "add", "path": "/metadata/finalizers", "value": [protection, protection]},
    ]);
    let token = StolenToken::new(&space).await?;
    token
        .all_are_permitted(vec![patch(&path, remove_all)])
        .await?;
    let sentence = "may only add and remove the finalizer";
    token
        .all_are_refused(vec![(patch(&path, remove_foreign), sentence)])
        .await
}

#[tokio::test]
async fn the_policies_keep_neither_the_finalizer_nor_the_data_of_a_very_large_volume() -> Result<()>
{
    let space = Space::new(bare().await?, "stolen-large-volume").await?;
    let mut metadata = large("kubernetes.io/pv-protection");
    // The volume is in the trash.
    let record = format!(
        r#"{{"policy":"Delete","windowSeconds":3600,"finalizers":["example.com/f0","example.com/provisioner"],"claim":{{"namespace":"{}","name":"data","uid":"gone"}},"deletedAt":"2026-01-01T00:00:00Z"}}"#,
        space.name
    );
    metadata["annotations"]["volume-warden.dev/trash"] = json!(record);
    let kept = metadata["finalizers"].clone();
    let claim = json!({"namespace": space.name, "name": "data", "uid": "gone"});
    let changes = json!({"metadata": metadata, "spec": {"claimRef": claim}});
    let volume = volume(&space.name, changes)?;
    space
        .volumes
        .create(&PostParams::default(), &volume)
        .await?;
    is_in_phase(&space, &space.name, "Released").await?;
    let path = format!("/api/v1/persistentvolumes/{}", space.name);
    let policy =
        json!({"op": "add", "path": "/spec/persistentVolumeReclaimPolicy", "value": "Delete"});
    let mut restored = kept.as_array().cloned().unwrap_or_default();
    restored.push(json!("example.com/provisioner"));
    let restore = json!({"op": "add", "path": "/metadata/finalizers", "value": restored});
    let writes = vec![
        without_finalizer(&path),
        patch(&path, json!([policy])),
        patch(&path, json!([policy, restore])),
    ];
    let token = StolenToken::new(&space).await?;
    token.all_are_permitted(writes).await
}
