//! Which writes of volumes with a record of the trash a stolen token of Volume Warden's service
//! account permits.

use super::stolen_token::{StolenToken, Write, dry_run_delete, patch};
use crate::{
    pvc_trash::support::{PURGE, TRASH, TrashSpace, is_in_phase},
    support::{bare, volume},
};
use anyhow::Result;
use http::Method;
use kube::{
    ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

/// The account of the drain: the policies of the trash do not apply to it, and the policies that
/// restrict a stolen token apply only to the account of the server.
const DRAIN: &str = "system:serviceaccount:volume-warden:volume-warden-drain";
const FINALIZER: &str = "example.com/provisioner";
const HOLD: &str = "example.com/hold";

/// The annotation with a record of this original policy, for the claim `data` with the uid `gone`.
fn record(trash_space: &TrashSpace, policy: &str, changes: Value) -> Value {
    let mut rest = json!({
        "windowSeconds": 3600, "finalizers": [FINALIZER],
        "claim": {"namespace": trash_space.space.name, "name": "data", "uid": "gone"},
    });
    json_patch::merge(&mut rest, &changes);
    // Volume Warden writes the policy first, and the ValidatingAdmissionPolicies rely on that.
    let record = format!("{{\"policy\":\"{policy}\",{}", &rest.to_string()[1..]);
    annotated(TRASH, json!(record))
}

fn annotated(key: &str, value: Value) -> Value {
    json!({"metadata": {"annotations": {key: value}}})
}

fn policy(policy: &str) -> Value {
    json!({"spec": {"persistentVolumeReclaimPolicy": policy}})
}

fn finalizers(finalizers: &[&str]) -> Value {
    json!({"metadata": {"finalizers": finalizers}})
}

/// Merges these changes into one. Keeps nulls, because a null in a merge patch removes the field.
fn merge_all<const N: usize>(changes: [Value; N]) -> Value {
    fn add(into: &mut Value, from: Value) {
        match (into, from) {
            (Value::Object(into), Value::Object(from)) => {
                for (key, value) in from {
                    add(into.entry(key).or_insert(Value::Null), value);
                }
            }
            (into, from) => *into = from,
        }
    }
    let mut merged = json!({});
    changes
        .into_iter()
        .for_each(|change| add(&mut merged, change));
    merged
}

/// Volumes in each state, by the name of the state.
struct Volumes {
    trash_space: TrashSpace,
}

impl Volumes {
    async fn new() -> Result<Self> {
        let trash_space = TrashSpace::with_class(bare().await?, "stolen-trash", json!({})).await?;
        let volumes = Self { trash_space };
        let deleted = json!({"deletedAt": "2026-01-01T00:00:00Z"});
        let reserved = json!({"reservedAt": "2026-01-01T00:00:00Z"});
        let record = |policy, changes| record(&volumes.trash_space, policy, changes);
        for (state, phase, changes) in [
            (
                "trashed",
                "Released",
                merge_all([
                    record("Delete", deleted.clone()),
                    annotated(PURGE, json!("gone")),
                    finalizers(&[HOLD]),
                    volumes.claim("data", Some("gone")),
                ]),
            ),
            (
                "retained",
                "Released",
                merge_all([
                    record("Retain", deleted.clone()),
                    volumes.claim("data", Some("gone")),
                ]),
            ),
            ("plain", "Released", volumes.claim("data", Some("gone"))),
            (
                "reserved",
                "Available",
                merge_all([
                    record("Delete", merge_all([deleted, reserved])),
                    volumes.claim("new", None),
                ]),
            ),
        ] {
            volumes.create(state, phase, changes).await?;
        }
        Ok(volumes)
    }

    fn name(&self, state: &str) -> String {
        format!("{}-{state}", self.trash_space.space.name)
    }

    fn claim(&self, name: &str, uid: Option<&str>) -> Value {
        let namespace = &self.trash_space.space.name;
        json!({"spec": {"claimRef": {"namespace": namespace, "name": name, "uid": uid}}})
    }

    async fn create(&self, state: &str, phase: &str, changes: Value) -> Result<()> {
        let (volumes, name) = (&self.trash_space.space.volumes, self.name(state));
        let created = volume(&name, changes)?;
        volumes.create(&PostParams::default(), &created).await?;
        is_in_phase(&self.trash_space.space, &name, phase).await
    }

    fn change(&self, state: &str, changes: Value) -> Write {
        patch_volume(&self.name(state), changes)
    }
}

fn patch_volume(volume: &str, changes: Value) -> Write {
    patch(&format!("/api/v1/persistentvolumes/{volume}"), changes)
}

#[tokio::test]
async fn a_stolen_token_neither_purges_early_nor_gives_data_away() -> Result<()> {
    let volumes = Volumes::new().await?;
    let trash_space = &volumes.trash_space;
    let bound = trash_space.bound("bound", json!({})).await?.name_any();
    let enabled = trash_space.bound("enabled", json!({})).await?.name_any();
    let enable = merge_all([policy("Retain"), record(trash_space, "Delete", json!({}))]);
    let merge = (PatchParams::default(), Patch::Merge(&enable));
    trash_space
        .space
        .volumes
        .patch(&enabled, &merge.0, &merge.1)
        .await?;

    let record = |policy, changes| record(trash_space, policy, changes);
    let change = |state, changes| volumes.change(state, changes);
    let claim = |name, uid| volumes.claim(name, uid);
    let no_record = || annotated(TRASH, json!(null));
    let foreign =
        json!({"spec": {"claimRef": {"namespace": "other", "name": "data", "uid": null}}});
    let purge = |kept: &[&str]| change("trashed", merge_all([policy("Delete"), finalizers(kept)]));
    let token = StolenToken::with_unrestricted_user(&trash_space.space, DRAIN).await?;
    let may_purge = "its policy as the trash requires";
    let may_reserve = "may only reserve a volume in the trash for a claim of the same namespace";
    let may_record = "may only add and remove the record of a Bound volume";
    let may_finalize = "may only add and remove the finalizer kubernetes.io/pv-protection";
    let other_record = || record("Delete", json!({"windowSeconds": 0}));
    let refused = vec![
        (
            change("trashed", merge_all([policy("Delete"), other_record()])),
            may_purge,
        ),
        (
            change("trashed", merge_all([policy("Delete"), claim("new", None)])),
            may_purge,
        ),
        (change("retained", policy("Delete")), may_purge),
        (change("plain", policy("Delete")), may_purge),
        (patch_volume(&bound, policy("Retain")), may_purge),
        (patch_volume(&enabled, policy("Delete")), may_purge),
        (
            change("trashed", json!({"spec": {"claimRef": null}})),
            may_reserve,
        ),
        (change("trashed", foreign), may_reserve),
        (change("trashed", claim("data", Some("other"))), may_reserve),
        (change("reserved", claim("new", Some("other"))), may_reserve),
        (change("trashed", no_record()), may_record),
        (change("trashed", record("Retain", json!({}))), may_record),
        (change("retained", record("Delete", json!({}))), may_record),
        (change("plain", record("Delete", json!({}))), may_record),
        (
            patch_volume(
                &bound,
                merge_all([policy("Retain"), record("Retain", json!({}))]),
            ),
            may_record,
        ),
        (
            change("trashed", finalizers(&[HOLD, FINALIZER])),
            may_finalize,
        ),
        (purge(&[HOLD, "example.com/never"]), may_finalize),
        (purge(&[]), may_finalize),
    ];
    token.all_are_refused(refused).await?;
    let later = json!({"deletedAt": "2026-01-02T00:00:00Z", "unbindable": "u"});
    let reserving = json!({"reservedAt": "2026-01-02T00:00:00Z"});
    let permitted = vec![
        purge(&[HOLD, FINALIZER]),
        change("trashed", record("Delete", later)),
        change(
            "trashed",
            merge_all([claim("new", None), record("Delete", reserving)]),
        ),
        change("trashed", annotated(PURGE, json!(null))),
        change(
            "reserved",
            merge_all([claim("data", Some("gone")), record("Delete", json!({}))]),
        ),
        patch_volume(
            &bound,
            merge_all([policy("Retain"), record("Delete", json!({}))]),
        ),
        patch_volume(&enabled, merge_all([policy("Delete"), no_record()])),
    ];
    token.all_are_permitted(permitted).await
}

/// The policies refuse this even if a role permits it.
#[tokio::test]
async fn a_stolen_token_neither_creates_nor_deletes_volumes() -> Result<()> {
    let volumes = Volumes::new().await?;
    let token = StolenToken::with_unrestricted_user(&volumes.trash_space.space, DRAIN).await?;
    token.grant("create,delete", "persistentvolumes").await?;
    let new = json!(volume(&volumes.name("new"), json!({}))?);
    let plain = format!("/api/v1/persistentvolumes/{}", volumes.name("plain"));
    let sentence = "may neither create nor delete volumes";
    let writes = vec![
        (
            (Method::POST, "/api/v1/persistentvolumes".to_owned(), new),
            sentence,
        ),
        ((Method::DELETE, plain, dry_run_delete()), sentence),
    ];
    token.all_are_refused(writes).await
}
