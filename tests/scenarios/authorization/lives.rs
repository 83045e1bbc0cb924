//! Each component performs all of its actions, so that it uses all of its permissions. Other
//! scenarios test the results of these actions.

use super::installation::{Installation, cluster, enforcing, protected};
use crate::{
    pv_releaser::support::{PROVISIONER, VolumeSpace},
    pvc_expiry::{EXPIRE_UNUSED, EXPIRES_WITHIN, announced, hasten},
    pvc_provisioner::support::{PodSpace, awaiting},
    pvc_retention::support::{DELETE_DELETE, DELETE_RETAIN, MARK, SetSpace, set},
    pvc_trash::{
        copies::has_copy_with,
        support::{PURGE, TOUCHED, TRASH, TrashSpace, WINDOW, uid_of_claim},
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
    let installation = Installation::on(protected().await?, &components).await?;
    installation.repair_certificate().await?;
    let space = Space::new(installation.cluster.clone(), "permissions-claims").await?;
    let warden = installation.builder().serving().start().await?;
    // Must not be a part of the name of another test's claim: `refuse_twice` refuses each write
    // whose path contains it.
    let name = "guarded-alone";
    let _refused = installation.refuse_twice(&format!("persistentvolumeclaims/{name}"));
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
    // Before it refuses a pod, Volume Warden reads the claim from the API server.
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
    installation.used_all(warden).await
}

#[tokio::test]
async fn pv_protection_uses_its_rights() -> Result<()> {
    let components = ["self-signed", "pv-protection"];
    let installation = Installation::on(protected().await?, &components).await?;
    installation.repair_certificate().await?;
    let warden = installation.builder().serving().start().await?;
    let space = Space::new(installation.cluster.clone(), "permissions-volumes").await?;
    let volumes = &space.volumes;
    let name = "protected-alone";
    let _refused = installation.refuse_twice(&format!("persistentvolumes/{name}"));
    let (post, delete) = (PostParams::default(), DeleteParams::default());
    volumes.create(&post, &volume(name, json!({}))?).await?;
    eventually("the volume is protected", async || {
        anyhow::Ok(volumes.get(name).await?.metadata.finalizers.is_some())
    })
    .await?;
    volumes.delete(name, &delete).await?;
    eventually("the volume is deleted", async || {
        anyhow::Ok(volumes.get_opt(name).await?.is_none())
    })
    .await?;
    // Before it refuses a binding, Volume Warden reads the claim from the API server.
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
    installation.used_all(warden).await
}

#[tokio::test]
async fn pvc_retention_uses_its_rights() -> Result<()> {
    let installation = Installation::new(&["self-signed", "pvc-retention"]).await?;
    installation.repair_certificate().await?;
    let warden = installation.builder().start().await?;
    let sets = SetSpace::new(installation.cluster.clone(), "permissions-sets").await?;
    let _refused = installation.refuse_twice("persistentvolumeclaims/data-web-0");
    let web = sets.create("web", 1, DELETE_DELETE).await?;
    sets.claim_is_owned_by("data-web-0", &["StatefulSet/web"])
        .await?;
    // As the claim of an ordinal that was scaled down while no Volume Warden ran.
    let mark = json!({"metadata": {"annotations": {MARK: web.metadata.uid}}});
    let scaled_down = claim("data-web-7", mark)?;
    let claims = &sets.space.claims;
    claims.create(&PostParams::default(), &scaled_down).await?;
    sets.space.claim_is_gone("data-web-7").await?;
    installation.used_all(warden).await
}

/// An admission plugin checks the permissions of `owner-references` when Volume Warden writes owner
/// references, so no request in the audit log uses them. With these permissions the writes succeed,
/// and without the permission for StatefulSets such a write is refused. The references of
/// `pvc-retention` to pods do not set `blockOwnerDeletion`, so they need no permission. The
/// references of `pvc-provisioner` are tested with that component.
#[tokio::test]
async fn owner_references_use_their_rights() -> Result<()> {
    let components = ["self-signed", "pvc-retention", "owner-references"];
    let installation = Installation::on(enforcing().await?, &components).await?;
    let warden = installation.builder().start().await?;
    let sets = SetSpace::new(installation.cluster.clone(), "permissions-owners").await?;
    sets.create("web", 1, DELETE_DELETE).await?;
    sets.claim_is_owned_by("data-web-0", &["StatefulSet/web"])
        .await?;
    warden.stop().await?;

    // A finalizer holds the pod, so that its claim gets the pod as its owner before the pod is
    // deleted.
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    let patch = PatchParams::default();
    sets.space
        .pods
        .patch("web-0", &patch, &Patch::Merge(held))
        .await?;
    installation
        .loses("statefulsets/finalizers", "owner-references")
        .await?;
    installation
        .loses("pods/finalizers", "owner-references")
        .await?;
    let _warden = installation.builder().start().await?;
    let late = set("late", 1, DELETE_RETAIN, json!({}))?;
    sets.sets.create(&PostParams::default(), &late).await?;
    sets.scale("web", 0).await?;
    eventually(
        "the owner reference of data-late-0 is refused",
        async || {
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
        },
    )
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
    let mut installation = Installation::new(&components).await?;
    installation.repair_certificate().await?;
    let pod_space = PodSpace::new(installation.cluster.clone(), "permissions-pods").await?;
    // First with admission, where Volume Warden checks the permissions of the users who create
    // pods.
    let warden = installation.builder().serving().start().await?;
    let reviewed = eventually("pods are reviewed", async || {
        let pod = pod_space
            .request_claim("reviewed", "reviewed", json!({}))
            .await?;
        let created = pod_space.space.claims.get_opt("reviewed").await?;
        if created.is_none() {
            pod_space.space.delete_pod("reviewed").await?;
        }
        anyhow::Ok(created.map(|_| pod))
    })
    .await?;
    pod_space.belongs("reviewed", &reviewed).await?;
    warden.stop().await?;
    // Then without admission, where it does not check them.
    installation
        .arguments
        .retain(|argument| !argument.contains("authorize"));
    // The claim and its pod exist before Volume Warden starts: it deletes a claim that waits longer
    // than `--orphan-grace` for its pod.
    let _refused = installation.refuse_twice("persistentvolumeclaims/given");
    let mut awaiting_pod = awaiting();
    awaiting_pod["metadata"]["finalizers"] = json!(["kubernetes.io/pvc-protection"]);
    pod_space.create_claim("given", awaiting_pod).await?;
    let given = pod_space.request_claim("given", "given", json!({})).await?;
    let warden = installation
        .builder()
        .arg("--orphan-grace=1")
        .start()
        .await?;
    pod_space.belongs("given", &given).await?;
    let pod = pod_space.request_claim("made", "made", json!({})).await?;
    pod_space.belongs("made", &pod).await?;
    pod_space.create_claim("orphan", awaiting()).await?;
    pod_space.space.claim_is_gone("orphan").await?;
    installation.used_all(warden).await
}

#[tokio::test]
async fn pv_releaser_uses_its_rights() -> Result<()> {
    let installation = Installation::new(&["self-signed", "pv-releaser"]).await?;
    installation.repair_certificate().await?;
    let volume_space = VolumeSpace::new(cluster().await?, "permissions-volumes").await?;
    let id = format!("--controller-id={}", volume_space.id());
    let builder = installation
        .builder()
        .arg(id)
        .arg("--release-scope=namespace");
    let warden = builder.start().await?;
    let _refused =
        installation.refuse_twice(&format!("persistentvolumes/{}", volume_space.pv("data")));
    volume_space
        .pair("data", json!({PROVISIONER: volume_space.id()}))
        .await?;
    volume_space.is_labelled("data", volume_space.id()).await?;
    volume_space.space.delete_claim("data").await?;
    volume_space
        .is_parked("data", &installation.namespace)
        .await?;
    installation.used_all(warden).await
}

/// Uses a cluster without the pv-protection of another test, which would add its finalizer.
#[tokio::test]
async fn pvc_trash_uses_its_rights() -> Result<()> {
    let installation = Installation::on(enforcing().await?, &["self-signed", "pvc-trash"]).await?;
    installation.repair_certificate().await?;
    let trash_space =
        TrashSpace::new(installation.cluster.clone(), "permissions-trash", "1h").await?;
    let volume = trash_space.bound("data", json!({})).await?.name_any();
    let _refused = installation.refuse_twice(&format!("persistentvolumes/{volume}"));
    let warden = installation.builder().start().await?;
    let enabled = trash_space.is_enabled(&volume).await?;
    let namespace = &installation.namespace;
    has_copy_with(
        &trash_space.space,
        namespace,
        &enabled,
        "\\\"windowSeconds\\\":3600",
    )
    .await?;
    trash_space.set_window(Some("2h")).await?;
    has_copy_with(
        &trash_space.space,
        namespace,
        &enabled,
        "\\\"windowSeconds\\\":7200",
    )
    .await?;
    let deleted = trash_space.delete("data", &enabled).await?;
    let purge = json!({"metadata": {"annotations": {PURGE: uid_of_claim(&deleted)}}});
    let (volumes, patch) = (&trash_space.space.volumes, PatchParams::default());
    volumes.patch(&volume, &patch, &Patch::Merge(purge)).await?;
    trash_space.is_purged(&deleted).await?;
    // A volume is reserved for a claim that is too large for it.
    let large = trash_space.create_large_claim("large").await?;
    trash_space.create_reserved("small", &large).await?;
    eventually(
        "the claim has the annotation undelete-touched",
        async || {
            let claim = trash_space.space.claims.get("large").await?;
            ensure!(claim.annotations().contains_key(TOUCHED));
            Ok(())
        },
    )
    .await?;
    installation.used_all(warden).await
}

#[tokio::test]
async fn pvc_expiry_uses_its_rights() -> Result<()> {
    let installation = Installation::new(&["pvc-expiry"]).await?;
    // No other component runs that would write the record of the volume and the condition of the
    // claim.
    let annotations = json!({WINDOW: "1h", EXPIRE_UNUSED: "1s"});
    let class = json!({"metadata": {"annotations": annotations}});
    let trash_space =
        TrashSpace::with_class(installation.cluster.clone(), "permissions-expiry", class).await?;
    let volume = trash_space.bound("data", json!({})).await?;
    let record = json!({"policy": "Delete", "windowSeconds": 3600, "claim": {
        "namespace": trash_space.space.name, "name": "data", "uid": uid_of_claim(&volume)}});
    let recorded = json!({"metadata": {"annotations": {TRASH: record.to_string()}},
        "spec": {"persistentVolumeReclaimPolicy": "Retain"}});
    let (volumes, patch) = (&trash_space.space.volumes, PatchParams::default());
    volumes
        .patch(&volume.name_any(), &patch, &Patch::Merge(recorded))
        .await?;
    let unused = json!({"type": "Unused", "status": "True", "reason": "NoPodsUsingPVC",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let status = Patch::Merge(json!({"status": {"conditions": [unused]}}));
    let claims = &trash_space.space.claims;
    claims.patch_status("data", &patch, &status).await?;
    let _refused = installation.refuse_twice("persistentvolumeclaims/data");
    let warden = installation.builder().start().await?;
    announced(&trash_space, "data").await?;
    hasten(&trash_space, "data").await?;
    eventually_within(EXPIRES_WITHIN, "the claim expires", async || {
        ensure!(claims.get_opt("data").await?.is_none());
        Ok(())
    })
    .await?;
    installation.used_all(warden).await
}

#[tokio::test]
async fn trash_list_uses_its_rights() -> Result<()> {
    let installation = Installation::new(&["trash-list"]).await?;
    let trash_space =
        TrashSpace::new(installation.cluster.clone(), "permissions-list", "1h").await?;
    let space = &trash_space.space;
    let namespaces: Api<Namespace> = Api::all(installation.cluster.client());
    let namespace = namespaces.get(&space.name).await?;
    // No other component runs that would write the records of the volumes.
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
    let warden = installation.builder().start().await?;
    let post = PostParams::default();
    for (number, (name, changes)) in volumes.iter().enumerate() {
        let _refused =
            (number == 1).then(|| installation.refuse_twice("configmaps/volume-warden-trash"));
        let volume = volume(name, changes.clone())?;
        space.volumes.create(&post, &volume).await?;
        let has_all = |list: &Value| list["volumes"].as_array().map(Vec::len) == Some(number + 1);
        lists(space, "each claim", has_all).await?;
    }
    for (name, _) in &volumes {
        let delete = DeleteParams::default();
        space.volumes.delete(name, &delete).await?;
    }
    let maps: Api<ConfigMap> = Api::namespaced(installation.cluster.client(), &space.name);
    eventually("the list is deleted", async || {
        ensure!(maps.get_opt("volume-warden-trash").await?.is_none());
        Ok(())
    })
    .await?;
    installation.used_all(warden).await
}

#[tokio::test]
async fn namespace_gc_uses_its_rights() -> Result<()> {
    let installation = Installation::new(&["namespace-gc", "namespace-gc-seen"]).await?;
    let (storage, secrets) = (StorageOs::start()?, tempfile::tempdir()?);
    fs::write(secrets.path().join("username"), USER)?;
    fs::write(secrets.path().join("password"), PASSWORD)?;
    let warden = installation
        .builder()
        .arg("--storage-backend=storageos")
        .arg(format!("--storageos-endpoint={}", storage.endpoint()))
        .arg(format!(
            "--storageos-secret-path={}",
            secrets.path().display()
        ))
        .arg("--insecure-http")
        // In the Deployment, an environment variable sets the scope.
        .arg("--gc-scope=seen")
        .arg("--namespace-delete-gc-delay=0")
        .arg("--namespace-delete-gc-interval=1s")
        .arg("--gc-confirm-after=0")
        .start()
        .await?;
    let client = installation.cluster.client();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let maps: Api<ConfigMap> = Api::namespaced(client, &installation.namespace);
    for name in ["permissions-shop", "permissions-yard"] {
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        namespaces
            .create(&PostParams::default(), &namespace)
            .await?;
        eventually(
            &format!("the list of seen namespaces contains {name}"),
            async || {
                let seen = maps.get("volume-warden-seen-namespaces").await?;
                let mut texts = seen.data.iter().flat_map(|data| data.values());
                anyhow::Ok(texts.any(|names| names.contains(name)))
            },
        )
        .await?;
        storage.create(name);
        storage.fault(
            Endpoint::Delete,
            Fault::error(503, "the backend is unavailable"),
            1,
        );
        namespaces.delete(name, &DeleteParams::default()).await?;
        eventually(
            &format!("{name} is deleted in the storage backend"),
            async || !storage.names().contains(&name.to_owned()),
        )
        .await?;
    }
    installation.used_all(warden).await
}
