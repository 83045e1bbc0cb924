//! The ConfigMap that lists the deleted claims of a namespace, for users who may not list volumes.

use crate::{
    pvc_trash::support::{PURGE, TRASH, TrashSpace, is_in_phase, uid_of_claim},
    support::{BINARY, Space, optional, rbac, volume},
};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::process::Command;
use volume_warden_controlplane::eventually;

const NAME: &str = "volume-warden-trash";
const LABEL: &str = "volume-warden.dev/trash-list";

fn maps(space: &Space) -> Api<ConfigMap> {
    Api::namespaced(space.cluster.client(), &space.name)
}

/// Waits until the list of the namespace is as expected, and returns the ConfigMap. `what`
/// describes the expected list.
pub async fn lists(
    space: &Space,
    what: &str,
    is_expected: impl Fn(&Value) -> bool,
) -> Result<ConfigMap> {
    eventually(&format!("the list of {}: {what}", space.name), async || {
        let map = maps(space).get(NAME).await?;
        let text = map.data.as_ref().and_then(|data| data.get("trash"));
        let list: Value = serde_json::from_str(text.context("no list")?)?;
        ensure!(is_expected(&list), "{list}");
        Ok(Some(map))
    })
    .await
}

fn claims(list: &Value) -> Vec<&str> {
    let volumes = list["volumes"].as_array().into_iter().flatten();
    let names = volumes.filter_map(|volume| volume["claim"].as_str());
    names.collect()
}

/// Waits until the namespace has no list.
async fn has_no_list(space: &Space) -> Result<()> {
    eventually(&format!("{} has no list", space.name), async || {
        let found = maps(space).get_opt(NAME).await?;
        ensure!(found.is_none(), "{found:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_list_appears_changes_and_disappears() -> Result<()> {
    let trash_space = TrashSpace::new(optional().await?, "list-life", "1h").await?;
    let space = &trash_space.space;
    let first = trash_space.deleted("first", "kept").await?;
    // Volume Warden records the time of the deletion with a delay.
    let recorded =
        |list: &Value| claims(list) == ["first"] && list["volumes"][0]["purgedAt"].is_string();
    let map = lists(space, "the first claim", recorded).await?;
    let text = map.data.as_ref().and_then(|data| data.get("trash"));
    let list: Value = serde_json::from_str(text.context("no list")?)?;
    let listed = &list["volumes"][0];
    ensure!(listed["volume"] == first.name_any(), "{listed}");
    ensure!(listed["storageClass"] == space.name, "{listed}");
    let second = trash_space.deleted("second", "kept").await?;
    let both = |list: &Value| claims(list).len() == 2 && list["leftOut"] == 0;
    lists(space, "both claims", both).await?;
    // Volume Warden reverts what a user writes into the list.
    let edited = Patch::Merge(json!({"data": {"trash": "mine", "more": "x"}}));
    let (maps, patch) = (maps(space), PatchParams::default());
    maps.patch(NAME, &patch, &edited).await?;
    let corrected = lists(space, "both claims again", both).await?;
    ensure!(corrected.data.is_some_and(|data| data.len() == 1));
    let sealed = Patch::Merge(json!({"immutable": true}));
    maps.patch(NAME, &patch, &sealed).await?;
    trash_space.restored("first", "first").await?;
    let only = |list: &Value| claims(list) == ["second"];
    lists(space, "only the second claim", only).await?;
    let purge = json!({"metadata": {"annotations": {PURGE: uid_of_claim(&second)}}});
    let volumes = &space.volumes;
    volumes
        .patch(&second.name_any(), &patch, &Patch::Merge(purge))
        .await?;
    has_no_list(space).await
}

#[tokio::test]
async fn a_config_map_of_a_user_is_left_unchanged() -> Result<()> {
    let trash_space = TrashSpace::new(optional().await?, "list-taken", "1h").await?;
    let map = json!({"metadata": {"name": NAME}, "data": {"trash": "mine"}});
    let maps = maps(&trash_space.space);
    let created = maps
        .create(&PostParams::default(), &serde_json::from_value(map)?)
        .await?;
    trash_space.deleted("data", "kept").await?;
    let events = eventually("an Event reports the ConfigMap", async || {
        let events = trash_space.space.events_with("ErrTrashList").await?;
        anyhow::Ok((!events.is_empty()).then_some(events))
    })
    .await?;
    let note = events[0].message.as_deref().unwrap_or_default();
    ensure!(note.contains("belongs to a user"), "{note}");
    let now = maps.get(NAME).await?;
    ensure!(
        now.resource_version() == created.resource_version(),
        "{now:?}"
    );
    // Once the ConfigMap of the user is deleted, Volume Warden creates the list.
    maps.delete(NAME, &DeleteParams::default()).await?;
    lists(&trash_space.space, "the claim", |list| {
        claims(list) == ["data"]
    })
    .await?;
    Ok(())
}

/// A recreated namespace does not list a volume whose claim was in the earlier namespace of the
/// same name, because its users must not learn of that claim. An excluded namespace has no list.
#[tokio::test]
async fn a_recreated_namespace_does_not_list_claims_of_the_earlier_one() -> Result<()> {
    let trash_space = TrashSpace::new(optional().await?, "list-again", "1h").await?;
    let space = &trash_space.space;
    let name = format!("{}-earlier", space.name);
    let claim = json!({"namespace": space.name, "name": "secret", "uid": "gone"});
    let record = json!({"policy": "Delete", "windowSeconds": 3600,
        "deletedAt": k8s_openapi::jiff::Timestamp::now().to_string(),
        "claim": {"namespace": space.name, "name": "secret", "uid": "gone", "namespaceUid": "earlier"}});
    let earlier = json!({"metadata": {"annotations": {TRASH: record.to_string()}},
        "spec": {"claimRef": claim, "storageClassName": space.name}});
    let post = PostParams::default();
    space
        .volumes
        .create(&post, &volume(&name, earlier)?)
        .await?;
    is_in_phase(space, &name, "Released").await?;
    trash_space.deleted("own", "kept").await?;
    lists(space, "only its own claim", |list| claims(list) == ["own"]).await?;
    let namespaces: Api<Namespace> = Api::all(space.cluster.client());
    let exclude = |value: Value| {
        Patch::Merge(json!({"metadata": {"labels": {"volume-warden.dev/exclude": value}}}))
    };
    let patch = PatchParams::default();
    namespaces
        .patch(&space.name, &patch, &exclude(json!("true")))
        .await?;
    has_no_list(space).await?;
    namespaces
        .patch(&space.name, &patch, &exclude(json!(null)))
        .await?;
    lists(space, "its own claim again", |list| claims(list) == ["own"]).await?;
    Ok(())
}

/// A user with the role `edit` in the namespace, who may not list volumes.
#[tokio::test]
async fn a_tenant_reads_the_list_by_the_command() -> Result<()> {
    let trash_space = TrashSpace::new(optional().await?, "list-tenant", "1h").await?;
    let space = &trash_space.space;
    rbac::grant_edit(space, "tenant").await?;
    let trash = async |arguments: &[&str]| {
        let output = Command::new(BINARY)
            .args(["trash", "--as=tenant", "-n", &space.name])
            .args(arguments)
            .arg("--kubeconfig")
            .arg(space.cluster.kubeconfig())
            .output()
            .await?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        anyhow::Ok((
            output.status.code(),
            text(output.stdout),
            text(output.stderr),
        ))
    };
    let (code, _, error) = trash(&[]).await?;
    ensure!(code == Some(3) && error.contains("may not list"), "{error}");
    let volume = trash_space.deleted("photos", "kept").await?;
    lists(space, "the claim", |list| claims(list) == ["photos"]).await?;
    let (code, table, error) = trash(&[]).await?;
    ensure!(code == Some(0), "{code:?}: {error}");
    let row: Vec<_> = table
        .lines()
        .nth(1)
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    ensure!(row[..2] == [&*space.name, "photos"], "{table}");
    ensure!(row.last() == Some(&&*volume.name_any()), "{table}");
    let (_, text, _) = trash(&["-o", "json"]).await?;
    let list: Value = serde_json::from_str(&text)?;
    ensure!(list["volumes"][0]["state"] == "InTrash", "{list}");
    let label = maps(space).get(NAME).await?;
    ensure!(label.labels().contains_key(LABEL), "{label:?}");
    Ok(())
}
