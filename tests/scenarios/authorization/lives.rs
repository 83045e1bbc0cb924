//! The lives of the components. Nothing here is about how well they do it: that is reported elsewhere.

use super::tenant::{Tenant, cluster, enforcing, protected};
use crate::{
    pv_releaser::support::{Estate, PROVISIONER},
    pvc_expiry::{EXPIRE_UNUSED, EXPIRES_WITHIN, announced, hasten},
    pvc_provisioner::support::{Askers, awaiting},
    pvc_retention::support::{DELETE_DELETE, DELETE_RETAIN, MARK, SetSpace, set},
    pvc_trash::{
        copies::has_copy_with,
        support::{PURGE, Shelf, TOUCHED, TRASH, WINDOW, uid_of_claim},
    },
    support::{Space, claim, is_refused, volume},
    trash_list::lists,
};
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::fs;
use volume_warden_controlplane::{eventually, eventually_within};
use volume_warden_storageos::{Endpoint, Fault, PASSWORD, StorageOs, USER};

#[tokio::test]
async fn pvc_protection_uses_its_rights() -> Result<()> {
    let components = [
        "self-signed",
        "pvc-protection",
        "pvc-protection-binding-guard",
    ];
    let tenant = Tenant::on(protected().await?, &components).await?;
    tenant.repairs_its_certificate().await?;
    let space = Space::new(tenant.cluster.clone(), "rights-claims").await?;
    let warden = tenant.builder().serving().start().await?;
    // No part of the name of another test's claim: what is refused is found by it.
    let name = "guarded-alone";
    let _refused = tenant.refuse_twice(&format!("persistentvolumeclaims/{name}"));
    space.create_claim(name).await?;
    space.claim_is_protected(name).await?;
    space.delete_claim(name).await?;
    space.claim_is_gone(name).await?;
    // A bound claim gets the condition Unused.
    let class = json!({"spec": {"storageClassName": space.name}});
    let bound = claim("bound", class.clone())?;
    space.claims.create(&PostParams::default(), &bound).await?;
    let disk = volume(&format!("pv-{}", space.name), class)?;
    space.volumes.create(&PostParams::default(), &disk).await?;
    // Before a pod is refused, its claim is read live.
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    let parameters = PostParams::default();
    let claims = &space.claims;
    claims.create(&parameters, &claim("held", held)?).await?;
    space.delete_claim("held").await?;
    eventually("a pod that uses the deleted claim is refused", async || {
        let created = space.create_pod_on_node("late", "held").await?;
        if created.is_ok() {
            space.delete_pod("late").await?;
        }
        is_refused(created, "is being deleted")
    })
    .await?;
    let released = json!({"metadata": {"finalizers": null}});
    space.patch_claim("held", released).await?;
    tenant.used_all(warden).await
}

#[tokio::test]
async fn pv_protection_uses_its_rights() -> Result<()> {
    let components = ["self-signed", "pv-protection"];
    let tenant = Tenant::on(protected().await?, &components).await?;
    tenant.repairs_its_certificate().await?;
    let warden = tenant.builder().serving().start().await?;
    let space = Space::new(tenant.cluster.clone(), "rights-volumes").await?;
    let volumes = &space.volumes;
    let name = "protected-alone";
    let _refused = tenant.refuse_twice(&format!("persistentvolumes/{name}"));
    let (post, delete) = (PostParams::default(), DeleteParams::default());
    volumes.create(&post, &volume(name, json!({}))?).await?;
    eventually("the volume is protected", async || {
        anyhow::Ok(volumes.get(name).await?.metadata.finalizers.is_some())
    })
    .await?;
    volumes.delete(name, &delete).await?;
    eventually("the volume is gone", async || {
        anyhow::Ok(volumes.get_opt(name).await?.is_none())
    })
    .await?;
    // Before a binding is refused, the claim is read live.
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    volumes.create(&post, &volume("held-alone", held)?).await?;
    volumes.delete("held-alone", &delete).await?;
    let claim = json!({"namespace": space.name, "name": "absent", "uid": "absent"});
    let bound = Patch::Merge(json!({"spec": {"claimRef": claim}}));
    let free = Patch::Merge(json!({"spec": {"claimRef": null}}));
    eventually("a deleted volume is not bound", async || {
        let parameters = PatchParams::default();
        let written = volumes.patch("held-alone", &parameters, &bound).await;
        if written.is_ok() {
            volumes.patch("held-alone", &parameters, &free).await?;
        }
        is_refused(written, "is being deleted")
    })
    .await?;
    let released = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let parameters = PatchParams::default();
    volumes.patch("held-alone", &parameters, &released).await?;
    tenant.used_all(warden).await
}

#[tokio::test]
async fn pvc_retention_uses_its_rights() -> Result<()> {
    let tenant = Tenant::new(&["self-signed", "pvc-retention"]).await?;
    tenant.repairs_its_certificate().await?;
    let warden = tenant.builder().start().await?;
    let sets = SetSpace::new(tenant.cluster.clone(), "rights-sets").await?;
    let _refused = tenant.refuse_twice("persistentvolumeclaims/data-web-0");
    let web = sets.create("web", 1, DELETE_DELETE).await?;
    sets.claim_is_owned_by("data-web-0", &["StatefulSet/web"])
        .await?;
    // As of an ordinal that was scaled away while no Volume Warden ran.
    let mark = json!({"metadata": {"annotations": {MARK: web.metadata.uid}}});
    let left = claim("data-web-7", mark)?;
    let claims = &sets.space.claims;
    claims.create(&PostParams::default(), &left).await?;
    sets.space.claim_is_gone("data-web-7").await?;
    tenant.used_all(warden).await
}

/// The rights of `owner-references` are asked for by an admission plugin, when Volume Warden writes
/// owner references, so no call of its own reports them. With them these writes succeed, and
/// without the one for StatefulSets such a write is refused. The references of `pvc-retention` to pods
/// do not block, so they need no right; those of `pvc-provisioner` are tested with it.
#[tokio::test]
async fn owner_references_use_their_rights() -> Result<()> {
    let components = ["self-signed", "pvc-retention", "owner-references"];
    let tenant = Tenant::on(enforcing().await?, &components).await?;
    let warden = tenant.builder().start().await?;
    let sets = SetSpace::new(tenant.cluster.clone(), "rights-owners").await?;
    sets.create("web", 1, DELETE_DELETE).await?;
    sets.claim_is_owned_by("data-web-0", &["StatefulSet/web"])
        .await?;
    warden.stop().await?;

    // Held, so that its claim is given to it before it is gone.
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    let patch = PatchParams::default();
    sets.space
        .pods
        .patch("web-0", &patch, &Patch::Merge(held))
        .await?;
    tenant
        .loses("statefulsets/finalizers", "owner-references")
        .await?;
    tenant.loses("pods/finalizers", "owner-references").await?;
    let _warden = tenant.builder().start().await?;
    let late = set("late", 1, DELETE_RETAIN, json!({}))?;
    sets.sets.create(&PostParams::default(), &late).await?;
    sets.scale("web", 0).await?;
    eventually("the owner of data-late-0 is refused", async || {
        let events = sets
            .space
            .events_with("FailedUpdateOwnerReferences")
            .await?;
        let reported = events
            .iter()
            .filter(|event| event.involved_object.name.as_deref() == Some("data-late-0"));
        let mut notes = reported.filter_map(|event| event.message.as_deref());
        ensure!(
            notes.any(|note| note.contains("cannot set blockOwnerDeletion")),
            "{events:?}"
        );
        Ok(())
    })
    .await?;
    sets.claim_is_owned_by("data-web-0", &["Pod/web-0"]).await
}

#[tokio::test]
async fn pvc_provisioner_uses_its_rights() -> Result<()> {
    let components = [
        "self-signed",
        "pvc-provisioner",
        "pvc-provisioner-authorize-requester",
    ];
    let mut tenant = Tenant::new(&components).await?;
    tenant.repairs_its_certificate().await?;
    let askers = Askers::new(tenant.cluster.clone(), "rights-pods").await?;
    // A life at admission, where it asks about those who create pods.
    let warden = tenant.builder().serving().start().await?;
    let made = eventually("pods are reviewed", async || {
        let pod = askers.ask("reviewed", "reviewed", json!({})).await?;
        let there = askers.space.claims.get_opt("reviewed").await?;
        if there.is_none() {
            askers.space.delete_pod("reviewed").await?;
        }
        anyhow::Ok(there.map(|_| pod))
    })
    .await?;
    askers.belongs("reviewed", &made).await?;
    warden.stop().await?;
    // And one in the background, where it does not.
    tenant
        .arguments
        .retain(|argument| !argument.contains("authorize"));
    // The claim and its pod are there before it is: a claim that waits longer than that for its pod goes.
    let _refused = tenant.refuse_twice("persistentvolumeclaims/given");
    let mut awaiting_its_pod = awaiting();
    awaiting_its_pod["metadata"]["finalizers"] = json!(["kubernetes.io/pvc-protection"]);
    askers.create_claim("given", awaiting_its_pod).await?;
    let given = askers.ask("given", "given", json!({})).await?;
    let warden = tenant.builder().arg("--orphan-grace=1").start().await?;
    askers.belongs("given", &given).await?;
    let pod = askers.ask("made", "made", json!({})).await?;
    askers.belongs("made", &pod).await?;
    askers.create_claim("orphan", awaiting()).await?;
    askers.space.claim_is_gone("orphan").await?;
    tenant.used_all(warden).await
}

#[tokio::test]
async fn pv_releaser_uses_its_rights() -> Result<()> {
    let tenant = Tenant::new(&["self-signed", "pv-releaser"]).await?;
    tenant.repairs_its_certificate().await?;
    let estate = Estate::new(cluster().await?, "rights-estate").await?;
    let id = format!("--controller-id={}", estate.id());
    let builder = tenant.builder().arg(id).arg("--release-scope=namespace");
    let warden = builder.start().await?;
    let _refused = tenant.refuse_twice(&format!("persistentvolumes/{}", estate.pv("data")));
    estate
        .pair("data", json!({PROVISIONER: estate.id()}))
        .await?;
    estate.is_labelled("data", estate.id()).await?;
    estate.space.delete_claim("data").await?;
    estate.is_parked("data", &tenant.namespace).await?;
    tenant.used_all(warden).await
}

/// In a cluster without the pv-protection of another test, which would add its finalizer.
#[tokio::test]
async fn pvc_trash_uses_its_rights() -> Result<()> {
    let tenant = Tenant::on(enforcing().await?, &["self-signed", "pvc-trash"]).await?;
    tenant.repairs_its_certificate().await?;
    let shelf = Shelf::new(tenant.cluster.clone(), "rights-trash", "1h").await?;
    let volume = shelf.bound("data", json!({})).await?.name_any();
    let _refused = tenant.refuse_twice(&format!("persistentvolumes/{volume}"));
    let warden = tenant.builder().start().await?;
    let enabled = shelf.is_enabled(&volume).await?;
    let namespace = &tenant.namespace;
    has_copy_with(
        &shelf.space,
        namespace,
        &enabled,
        "\\\"windowSeconds\\\":3600",
    )
    .await?;
    shelf.set_window(Some("2h")).await?;
    has_copy_with(
        &shelf.space,
        namespace,
        &enabled,
        "\\\"windowSeconds\\\":7200",
    )
    .await?;
    let deleted = shelf.delete("data", &enabled).await?;
    let purge = json!({"metadata": {"annotations": {PURGE: uid_of_claim(&deleted)}}});
    let (volumes, patch) = (&shelf.space.volumes, PatchParams::default());
    volumes.patch(&volume, &patch, &Patch::Merge(purge)).await?;
    shelf.is_purged(&deleted).await?;
    // A volume is reserved for a claim that is too large for it.
    let large = shelf.create_large("large").await?;
    shelf.reserve("small", &large).await?;
    eventually("the claim is touched", async || {
        let claim = shelf.space.claims.get("large").await?;
        ensure!(claim.annotations().contains_key(TOUCHED));
        Ok(())
    })
    .await?;
    tenant.used_all(warden).await
}

#[tokio::test]
async fn pvc_expiry_uses_its_rights() -> Result<()> {
    let tenant = Tenant::new(&["pvc-expiry"]).await?;
    // Nothing else runs that would write the record of the volume and the condition of the claim.
    let annotations = json!({WINDOW: "1h", EXPIRE_UNUSED: "1s"});
    let class = json!({"metadata": {"annotations": annotations}});
    let shelf = Shelf::with_class(tenant.cluster.clone(), "rights-expiry", class).await?;
    let volume = shelf.bound("data", json!({})).await?;
    let record = json!({"policy": "Delete", "windowSeconds": 3600, "claim": {
        "namespace": shelf.space.name, "name": "data", "uid": uid_of_claim(&volume)}});
    let recorded = json!({"metadata": {"annotations": {TRASH: record.to_string()}},
        "spec": {"persistentVolumeReclaimPolicy": "Retain"}});
    let (volumes, patch) = (&shelf.space.volumes, PatchParams::default());
    volumes
        .patch(&volume.name_any(), &patch, &Patch::Merge(recorded))
        .await?;
    let unused = json!({"type": "Unused", "status": "True", "reason": "NoPodsUsingPVC",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let status = Patch::Merge(json!({"status": {"conditions": [unused]}}));
    let claims = &shelf.space.claims;
    claims.patch_status("data", &patch, &status).await?;
    let _refused = tenant.refuse_twice("persistentvolumeclaims/data");
    let warden = tenant.builder().start().await?;
    announced(&shelf, "data").await?;
    hasten(&shelf, "data").await?;
    eventually_within(EXPIRES_WITHIN, "the claim expires", async || {
        ensure!(claims.get_opt("data").await?.is_none());
        Ok(())
    })
    .await?;
    tenant.used_all(warden).await
}

#[tokio::test]
async fn trash_list_uses_its_rights() -> Result<()> {
    let tenant = Tenant::new(&["trash-list"]).await?;
    let shelf = Shelf::new(tenant.cluster.clone(), "rights-list", "1h").await?;
    let space = &shelf.space;
    let namespaces: Api<Namespace> = Api::all(tenant.cluster.client());
    let namespace = namespaces.get(&space.name).await?;
    // Nothing else runs that would write the records of the volumes.
    let volumes = ["first", "second"].map(|claim| {
        let reference = json!({"namespace": space.name, "name": claim, "uid": "gone"});
        let record = json!({
            "policy": "Delete", "windowSeconds": 3600, "deletedAt": "2026-01-01T00:00:00Z",
            "claim": {"namespace": space.name, "name": claim, "uid": "gone",
                "namespaceUid": namespace.metadata.uid},
        });
        let changes = json!({"metadata": {"annotations": {TRASH: record.to_string()}},
            "spec": {"claimRef": reference, "storageClassName": space.name}});
        (format!("{}-{claim}", space.name), changes)
    });
    let warden = tenant.builder().start().await?;
    let post = PostParams::default();
    for (number, (name, changes)) in volumes.iter().enumerate() {
        let _refused = (number == 1).then(|| tenant.refuse_twice("configmaps/volume-warden-trash"));
        let volume = volume(name, changes.clone())?;
        space.volumes.create(&post, &volume).await?;
        let says = |list: &Value| list["volumes"].as_array().map(Vec::len) == Some(number + 1);
        lists(space, "each claim", says).await?;
    }
    for (name, _) in &volumes {
        let delete = DeleteParams::default();
        space.volumes.delete(name, &delete).await?;
    }
    let maps: Api<ConfigMap> = Api::namespaced(tenant.cluster.client(), &space.name);
    eventually("the list is deleted", async || {
        ensure!(maps.get_opt("volume-warden-trash").await?.is_none());
        Ok(())
    })
    .await?;
    tenant.used_all(warden).await
}

#[tokio::test]
async fn namespace_gc_uses_its_rights() -> Result<()> {
    let tenant = Tenant::new(&["namespace-gc", "namespace-gc-seen"]).await?;
    let (storage, secrets) = (StorageOs::start()?, tempfile::tempdir()?);
    fs::write(secrets.path().join("username"), USER)?;
    fs::write(secrets.path().join("password"), PASSWORD)?;
    let warden = tenant
        .builder()
        .arg("--storage-backend=storageos")
        .arg(format!("--storageos-endpoint={}", storage.endpoint()))
        .arg(format!(
            "--storageos-secret-path={}",
            secrets.path().display()
        ))
        .arg("--insecure-http")
        // In a pod it is a variable.
        .arg("--gc-scope=seen")
        .arg("--namespace-delete-gc-delay=0")
        .arg("--namespace-delete-gc-interval=1s")
        .arg("--gc-confirm-after=0")
        .start()
        .await?;
    let namespaces: Api<Namespace> = Api::all(tenant.cluster.client());
    for name in ["rights-shop", "rights-yard"] {
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        namespaces
            .create(&PostParams::default(), &namespace)
            .await?;
        eventually(&format!("{name} is remembered"), async || {
            let seen = [
                "get",
                "configmap",
                "volume-warden-seen-namespaces",
                "-n",
                &tenant.namespace,
                "-o",
                "json",
            ];
            anyhow::Ok(tenant.cluster.kubectl(&seen).await?.contains(name))
        })
        .await?;
        storage.create(name);
        storage.fault(Endpoint::Delete, Fault::error(503, "the store is away"), 1);
        namespaces.delete(name, &DeleteParams::default()).await?;
        eventually(&format!("{name} is removed"), async || {
            !storage.names().contains(&name.to_owned())
        })
        .await?;
    }
    tenant.used_all(warden).await
}
