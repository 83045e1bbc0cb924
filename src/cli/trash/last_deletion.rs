//! Volumes of deleted claims that are not in the trash yet. A claim that was deleted just now may
//! be the one that the caller means, so no volume of an earlier claim of its name is selected
//! instead.

use crate::{
    cli::{print::print_error, user::exit_code::report_unknown},
    cluster::{DEFAULT_CALL_TIMEOUT, Store, error_message, existing, within},
    objects::{
        CompactText, ListedClaim, ObjectName, Volume,
        deletion_order::{Deletion, latest},
        trash_entry::Entry,
        volume::Phase,
    },
};
use kube::{Api, Client, ResourceExt};
use std::process::ExitCode;

/// A volume that has the data of a claim.
struct Kept<'a> {
    name: &'a ObjectName,
    /// The uid of the claim.
    uid: CompactText,
    deletion: Deletion,
    is_in_trash: bool,
}

impl<'a> Kept<'a> {
    /// Returns the volume if it has the data of a claim of this name, by its record or its
    /// `claimRef`, was not given to another claim that is Bound, and its data is not being deleted.
    fn of(name: &'a ObjectName, volume: &'a Volume, claim: &ObjectName) -> Option<Self> {
        let record = volume.trash.as_deref()?.record.as_ref();
        let holds = volume.retains() && !volume.deleting && volume.phase != Phase::Failed;
        if !holds || volume.claim_ref.is_none() {
            return None;
        }
        let bound = volume.claimed_by();
        let own =
            record.is_some_and(|record| bound.is_some_and(|bound| bound.uid == record.claim.uid));
        if let Some(bound) = bound.filter(|bound| !own && bound.name == *claim) {
            // The record is that of an earlier claim of the volume, or cannot be read.
            return Some(Self {
                name,
                uid: bound.uid.clone(),
                deletion: Deletion::unrecorded(volume),
                is_in_trash: false,
            });
        }
        let record = record.filter(|_| own || volume.phase != Phase::Bound)?;
        let named = (&*record.claim.namespace, &*record.claim.name);
        (named == (&*claim.namespace, &*claim.name)).then(|| Self {
            name,
            uid: (&record.claim.uid).into(),
            deletion: Deletion::of(volume, record),
            is_in_trash: Entry::of(name, volume).is_some(),
        })
    }
}

/// Succeeds unless the volume of the claim of this name that was deleted last is not in the trash
/// yet, or is being restored. `select` is how the caller selects another volume.
///
/// # Errors
/// The exit code, after the reason is printed. It is also an error if the present claim of the name
/// could not be read, of which the volume may be.
pub(super) async fn check_last_deletion(
    client: &Client,
    volumes: &Store<Volume>,
    claim: &ObjectName,
    select: &str,
) -> Result<(), ExitCode> {
    let objects = volumes.objects();
    let kept = objects.filter_map(|(name, volume)| Kept::of(name, volume, claim));
    let mut kept: Vec<_> = kept.collect();
    if kept.iter().all(|kept| kept.is_in_trash) {
        return Ok(());
    }
    let claims: Api<ListedClaim> = Api::namespaced(client.clone(), &claim.namespace);
    let read = existing(within(DEFAULT_CALL_TIMEOUT, claims.get(&claim.name)).await);
    let present = read.map_err(|error| {
        let why = error_message(&error);
        report_unknown(format!("the claim {claim} could not be read: {why}"))
    })?;
    let stays = present.filter(|present| present.metadata.deletion_timestamp.is_none());
    let stays = stays.and_then(|present| present.uid());
    kept.retain(|kept| stays.as_deref().is_none_or(|uid| kept.uid != *uid));
    let last = match latest(&kept, |kept| kept.deletion) {
        Ok(last) => last.filter(|last| !last.is_in_trash),
        Err(two) => two.into_iter().find(|kept| !kept.is_in_trash),
    };
    match last {
        None => Ok(()),
        Some(last) => {
            print_error(format_args!(
                "the volume {} of the deleted claim {claim} is not Released yet, or its data is \
                 being restored. Run this again in a minute, or select another volume: {select}",
                last.name
            ));
            Err(ExitCode::FAILURE)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cli::user::exit_code::EXIT_UNKNOWN,
        cluster::test_server::{answering, failure},
        objects::{Tracked as _, trash::TRASH, volume::VolumeWire},
    };
    use serde_json::{Value, json};
    use std::sync::Arc;

    /// A volume of a claim `shop/data` with this uid, which has a record, with changes.
    fn volume(name: &str, uid: &str, changes: &Value) -> Value {
        let claim = json!({"namespace": "shop", "name": "data", "uid": uid});
        let record = json!({"policy": "Delete", "windowSeconds": 3600, "claim": claim,
            "deletedAt": changes["deletedAt"]});
        let mut volume = json!({
            "metadata": {"name": name, "uid": name, "annotations": {TRASH: record.to_string()}},
            "spec": {"claimRef": claim, "persistentVolumeReclaimPolicy": "Retain"},
            "status": {"phase": "Bound"},
        });
        json_patch::merge(&mut volume, changes);
        volume
    }

    fn store(volumes: Vec<Value>) -> Store<Volume> {
        let mut store = Store::default();
        for volume in volumes {
            let wire: VolumeWire = serde_json::from_value(volume).expect("a volume");
            let name = ObjectName::cluster_scoped(wire.metadata.name.clone().expect("a name"));
            store.put(name, Volume::track(wire).map(Arc::new));
        }
        store
    }

    fn volumes(changes: Value) -> Store<Volume> {
        store(vec![volume("pv", "last", &changes)])
    }

    async fn settled(
        volumes: &Store<Volume>,
        claim: &str,
        answer: (u16, Value),
    ) -> Option<ExitCode> {
        let client = answering(move |_, _| answer.clone());
        let claim = ObjectName::new("shop", claim);
        check_last_deletion(&client, volumes, &claim, "--volume")
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
            // A user can write a time that cannot be represented.
            (
                present(json!({"uid": "last",
                    "managedFields": [{"manager": "a", "time": "9999-12-31T23:59:59Z"}]})),
                None,
            ),
            (present(json!({"uid": "later"})), Some(ExitCode::FAILURE)),
            (present(deleting), Some(ExitCode::FAILURE)),
            (failure(404, "NotFound"), Some(ExitCode::FAILURE)),
            (
                failure(403, "Forbidden"),
                Some(ExitCode::from(EXIT_UNKNOWN)),
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
        let forbidden = || failure(403, "Forbidden");
        let bound = volumes(json!({}));
        assert_eq!(settled(&bound, "other", forbidden()).await, None);
        let released = volumes(json!({"status": {"phase": "Released"}}));
        assert_eq!(settled(&released, "data", forbidden()).await, None);
    }

    /// The claim of these volumes does not exist.
    async fn is_refused(volumes: Vec<Value>) -> bool {
        let absent = failure(404, "NotFound");
        settled(&store(volumes), "data", absent).await.is_some()
    }

    /// An administrator may have written another claim into it.
    #[tokio::test]
    async fn a_volume_that_is_being_restored_is_not_settled() {
        let other = json!({"namespace": "archive", "name": "data", "uid": "new"});
        for (claim, phase, refused) in [
            (json!({"uid": null}), "Released", true),
            (other.clone(), "Released", true),
            (other.clone(), "Available", true),
            (other, "Bound", false),
            (json!(null), "Available", false),
        ] {
            let changes = json!({"spec": {"claimRef": claim}, "status": {"phase": phase}});
            let found = is_refused(vec![volume("pv", "last", &changes)]).await;
            assert_eq!(found, refused, "{changes}");
        }
    }

    /// Volume Warden did not run when another claim of the name got the volume and was deleted.
    #[tokio::test]
    async fn a_deletion_that_is_not_recorded_yet_counts() {
        let given = |version: &str| {
            let claim = json!({"namespace": "shop", "name": "data", "uid": "last",
                "resourceVersion": version});
            let changes = json!({"spec": {"claimRef": claim}, "status": {"phase": "Released"}});
            volume("given", "earlier", &changes)
        };
        let in_trash = json!({"deletedAt": "2026-01-01T00:00:00Z", "status": {"phase": "Released"},
            "spec": {"claimRef": {"resourceVersion": "5"}}});
        let in_trash = volume("pv", "one", &in_trash);
        let mut unreadable = given("6");
        unreadable["metadata"]["annotations"][TRASH] = json!("?");
        for (other, refused) in [(given("6"), true), (given("4"), false), (unreadable, true)] {
            let volumes = store(vec![in_trash.clone(), other.clone()]);
            let absent = settled(&volumes, "data", failure(404, "NotFound")).await;
            assert_eq!(absent.is_some(), refused, "{other}");
            let present = settled(&volumes, "data", present(json!({"uid": "last"}))).await;
            assert_eq!(present, None, "{other}");
        }
    }

    #[tokio::test]
    async fn only_the_volume_of_the_last_deletion_must_be_settled() {
        let released = |version: &str| {
            json!({"deletedAt": "2026-01-01T00:00:00Z", "status": {"phase": "Released"},
                "spec": {"claimRef": {"resourceVersion": version}}})
        };
        let bound = json!({"spec": {"claimRef": {"resourceVersion": "5"}}});
        for (version, refused) in [("4", true), ("6", false)] {
            let volumes = vec![
                volume("released", "one", &released(version)),
                volume("bound", "two", &bound),
            ];
            assert_eq!(is_refused(volumes).await, refused, "{version}");
        }
    }
}
