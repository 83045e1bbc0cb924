//! The drain uses exactly the permissions that its role grants.

use crate::{
    drain::support::{ACCOUNT, DrainFixture},
    pvc_trash::support::{TRASH, is_in_phase},
    support::{
        claim,
        granted::{granted, used},
        volume,
    },
};
use anyhow::{Result, ensure};
use k8s_openapi::api::{
    admissionregistration::v1::ValidatingWebhookConfiguration, core::v1::ConfigMap,
};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use volume_warden_controlplane::Rule;

/// The name of the lists of deleted claims.
const LIST: &str = "volume-warden-trash";

/// A claimRef, and the annotation with a record of the trash, which begins with the policy.
fn with_record(drain_fixture: &DrainFixture, claim: &str, uid: &str) -> Value {
    let claim = json!({"namespace": drain_fixture.space.name, "name": claim, "uid": uid});
    let record = format!(
        "{{\"policy\":\"Delete\",\"windowSeconds\":3600,\"deletedAt\":\"2026-01-01T00:00:00Z\",\"claim\":{claim}}}"
    );
    json!({
        "metadata": {"annotations": {TRASH: record}},
        "spec": {"claimRef": claim, "storageClassName": ""},
    })
}

/// Creates a Bound volume with a record and a copy, whose policy the drain restores, and a volume
/// in the trash. Creates a list of deleted claims, and sets the condition Unused of the Bound
/// claim.
async fn create_objects(drain_fixture: &DrainFixture) -> Result<()> {
    let (space, post) = (&drain_fixture.space, PostParams::default());
    let name = format!("pv-{}", space.name);
    let bound = claim(
        "bound",
        json!({"spec": {"storageClassName": "", "volumeName": name}}),
    )?;
    let bound = space.claims.create(&post, &bound).await?.metadata;
    drain_fixture
        .create_volume(with_record(
            drain_fixture,
            "bound",
            &bound.uid.unwrap_or_default(),
        ))
        .await?;
    let deleted = format!("{name}-deleted");
    let trashed = volume(&deleted, with_record(drain_fixture, "deleted", "gone"))?;
    space.volumes.create(&post, &trashed).await?;
    is_in_phase(space, &name, "Bound").await?;
    let uid = space
        .volumes
        .get(&name)
        .await?
        .metadata
        .uid
        .unwrap_or_default();
    let copy = json!({"metadata": {"name": format!("volume-warden-trash-{uid}")}});
    let copies: Api<ConfigMap> = Api::namespaced(space.cluster.client(), "volume-warden");
    copies.create(&post, &serde_json::from_value(copy)?).await?;
    let list =
        json!({"metadata": {"name": LIST, "labels": {"volume-warden.dev/trash-list": "true"}}});
    let lists: Api<ConfigMap> = Api::namespaced(space.cluster.client(), &space.name);
    lists.create(&post, &serde_json::from_value(list)?).await?;
    let applied = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "status": {"conditions": [
        {"type": "Unused", "status": "True"}]}});
    let (apply, applied) = (PatchParams::apply("volume-warden"), Patch::Apply(applied));
    space.claims.patch_status("bound", &apply, &applied).await?;
    is_in_phase(space, &deleted, "Released").await
}

/// Runs three drains: of one namespace, with a refused write, and with a purge of the trash.
#[tokio::test]
async fn the_drain_uses_its_rights() -> Result<()> {
    let drain_fixture = DrainFixture::new("drain-permissions").await?;
    let cluster = &drain_fixture.space.cluster;
    // Deletes the Leases of earlier drains.
    let leases = ["delete", "leases", "--all", "-n", "volume-warden"];
    cluster.kubectl(&leases).await?;
    create_objects(&drain_fixture).await?;
    drain_fixture.create_claim("held", json!({})).await?;
    // The configuration of a component that is not installed by default.
    let guard = json!({"metadata": {"name": "volume-warden-pvc-protection-binding-guard"}});
    let guard: ValidatingWebhookConfiguration = serde_json::from_value(guard)?;
    let configurations = Api::all(cluster.client());
    configurations
        .create(&PostParams::default(), &guard)
        .await?;
    let of_namespace = drain_fixture
        .drain(&["--in-tree=off", "--namespace=default"])
        .await?;
    ensure!(of_namespace.code == Some(0), "{of_namespace:?}");
    let refused = Rule::on("PATCH").path_contains("/held");
    let refused = refused.respond(403, "Forbidden", "refused by the test");
    let rule = drain_fixture.interposer.add(refused);
    let failed = drain_fixture.drain(&["--in-tree=off"]).await?;
    ensure!(failed.code == Some(1), "{failed:?}");
    drop(rule);
    let all = drain_fixture
        .drain(&["--in-tree=off", "--purge-trash"])
        .await?;
    ensure!(all.code == Some(0), "{all:?}");
    let copies: Api<ConfigMap> = Api::namespaced(cluster.client(), "volume-warden");
    let left = copies.list(&ListParams::default()).await?;
    let prefix = "volume-warden-trash-";
    let mut left = left.iter().filter_map(|copy| copy.metadata.name.as_deref());
    ensure!(!left.any(|name| name.starts_with(prefix)), "a copy is left");
    let lists: Api<ConfigMap> = Api::namespaced(cluster.client(), &drain_fixture.space.name);
    let list = lists.get_opt(LIST).await?;
    ensure!(list.is_none(), "{list:?}");

    let calls = drain_fixture.calls()?;
    let granted = granted(cluster, "volume-warden", "volume-warden-drain").await?;
    ensure!(granted.len() >= 10, "{granted:?}");
    let used = used(&calls);
    let unused: Vec<_> = granted.difference(&used).collect();
    ensure!(unused.is_empty(), "{ACCOUNT} does not use {unused:?}");
    let forbidden: Vec<_> = calls.iter().filter(|call| call.code == 403).collect();
    ensure!(
        forbidden.is_empty(),
        "{ACCOUNT} lacks permissions: {forbidden:?}"
    );
    Ok(())
}
