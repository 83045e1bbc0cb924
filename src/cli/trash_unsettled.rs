//! Volumes of deleted claims that are not in the trash yet. A claim that was deleted just now may be
//! the one that the caller means, so no volume of an earlier claim of its name is selected instead.

use super::{print::complain, trash_common::unreadable};
use crate::{
    cluster::{Store, UNHURRIED, error_message, existing, within},
    components::pvc_trash::record_if_deleted,
    objects::{ObjectName, Volume, trash_entry::Entry},
};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{Api, Client, ResourceExt};
use std::process::ExitCode;

/// Succeeds if every volume that is kept for a deleted claim of this name is in the trash. `select`
/// is how the caller selects a volume instead.
///
/// # Errors
/// The exit code, after the reason is printed: the volume of such a claim is not Released yet or is
/// reserved, or the present claim of the name could not be read.
pub(super) async fn all_settled(
    client: &Client,
    volumes: &Store<Volume>,
    claim: &ObjectName,
    select: &str,
) -> Result<(), ExitCode> {
    let kept = volumes.objects().filter_map(|(name, volume)| {
        let record = record_if_deleted(volume)?;
        let of = (&*record.claim.namespace, &*record.claim.name);
        let wanted = of == (&*claim.namespace, &*claim.name) && Entry::of(name, volume).is_none();
        wanted.then_some((name, &*record.claim.uid))
    });
    let kept: Vec<_> = kept.collect();
    if kept.is_empty() {
        return Ok(());
    }
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), &claim.namespace);
    let read = existing(within(UNHURRIED, claims.get(&claim.name)).await);
    let present = read.map_err(|error| {
        let why = error_message(&error);
        unreadable(format!("the claim {claim} could not be read: {why}"))
    })?;
    let stays = present.filter(|present| present.metadata.deletion_timestamp.is_none());
    let stays = stays.and_then(|present| present.uid());
    match kept.iter().find(|(_, uid)| stays.as_deref() != Some(uid)) {
        None => Ok(()),
        Some((volume, _)) => {
            complain(format_args!(
                "the volume {volume} of the deleted claim {claim} is not Released yet, or its data \
                 is being restored. Run this again when it is Released, or select the volume of an \
                 earlier claim of this name: {select}"
            ));
            Err(ExitCode::FAILURE)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cli::{
            test_answers::{answering, failure},
            trash_common::UNREADABLE,
        },
        objects::{Tracked as _, trash::TRASH, volume::VolumeWire},
    };
    use serde_json::{Value, json};
    use std::sync::Arc;

    /// The volume of the claim `shop/data` with the uid `last`, which has a record.
    fn volumes(changes: Value) -> Store<Volume> {
        let claim = json!({"namespace": "shop", "name": "data", "uid": "last"});
        let record = json!({"policy": "Delete", "windowSeconds": 3600, "claim": claim});
        let mut volume = json!({
            "metadata": {"name": "pv", "uid": "v", "annotations": {TRASH: record.to_string()}},
            "spec": {"claimRef": claim, "persistentVolumeReclaimPolicy": "Retain"},
            "status": {"phase": "Bound"},
        });
        json_patch::merge(&mut volume, &changes);
        let wire: VolumeWire = serde_json::from_value(volume).expect("a volume");
        let mut store = Store::default();
        store.put(ObjectName::new("", "pv"), Volume::track(wire).map(Arc::new));
        store
    }

    async fn settled(
        volumes: &Store<Volume>,
        claim: &str,
        answer: (u16, Value),
    ) -> Option<ExitCode> {
        let client = answering(answer.0, &answer.1);
        let claim = ObjectName::new("shop", claim);
        all_settled(&client, volumes, &claim, "--volume")
            .await
            .err()
    }

    fn present(metadata: Value) -> (u16, Value) {
        let mut claim = json!({"metadata": {"namespace": "shop", "name": "data"}});
        json_patch::merge(&mut claim["metadata"], &metadata);
        (200, claim)
    }

    #[tokio::test]
    async fn only_a_claim_that_stays_is_not_the_one_that_the_caller_means() {
        let bound = volumes(json!({}));
        let deleting = json!({"uid": "last", "deletionTimestamp": "2026-01-01T00:00:00Z"});
        for (answer, expected) in [
            (present(json!({"uid": "last"})), None),
            (present(json!({"uid": "later"})), Some(ExitCode::FAILURE)),
            (present(deleting), Some(ExitCode::FAILURE)),
            ((404, failure(404, "NotFound")), Some(ExitCode::FAILURE)),
            (
                (403, failure(403, "Forbidden")),
                Some(ExitCode::from(UNREADABLE)),
            ),
        ] {
            assert_eq!(
                settled(&bound, "data", answer.clone()).await,
                expected,
                "{answer:?}"
            );
        }
    }

    #[tokio::test]
    async fn no_claim_is_read_for_a_volume_of_another_claim_or_in_the_trash() {
        let forbidden = || (403, failure(403, "Forbidden"));
        let bound = volumes(json!({}));
        assert_eq!(settled(&bound, "other", forbidden()).await, None);
        let released = volumes(json!({"status": {"phase": "Released"}}));
        assert_eq!(settled(&released, "data", forbidden()).await, None);
    }
}
