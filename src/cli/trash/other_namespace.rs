//! `volume-warden undelete --to-namespace`: restores a deleted claim in another namespace, or in
//! one that was created again with its name. `volume-warden run` reserves a volume only for claims
//! in the namespace, by uid, of the deleted claim. So this command writes the new claim into the
//! volume's `claimRef`, with the caller's permissions.

use super::{
    last_deletion::check_last_deletion,
    restoration::{Restoration, WAITING},
    volumes::{in_trash, volumes},
};
use crate::{
    cli::{
        print::{print_error, print_step},
        user::exit_code::report_unknown,
    },
    clock::Clock,
    cluster::{DEFAULT_CALL_TIMEOUT, error_message, is_refused, within},
    components::pvc_trash::{give, restore},
    objects::{
        ObjectName,
        deletion_order::{Deletion, latest},
        patch::{add, test},
        trash::UNDELETE_TOUCHED,
        trash_entry::{Entry, Next},
        volume::VolumeWire,
    },
};
use anyhow::Context as _;
use json_patch::Patch as JsonPatch;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimSpec};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use serde_json::{Value, json};
use std::{convert::Infallible, process::ExitCode, time::Duration};

/// Interval between two changes of the claim while it is not Bound: kube-controller-manager tries
/// to bind an unchanged claim every 15 s only.
const TOUCH: Duration = Duration::from_secs(2);

/// Creates the claim, gives it the volume, and waits until it is Bound. `from` is the namespace of
/// the deleted claim.
///
/// # Errors
/// When the claim cannot be built, or the steps cannot be printed.
pub(super) async fn restore_in(
    client: &Client,
    restoration: &Restoration<'_>,
    from: &str,
    timeout: Duration,
) -> anyhow::Result<ExitCode> {
    let volumes = match volumes(client, restoration.cluster_flags).await {
        Ok(volumes) => volumes,
        Err(code) => return Ok(code),
    };
    if restoration.volume.is_none() {
        let claim = ObjectName::new(from, restoration.deleted);
        if let Err(code) = check_last_deletion(client, &volumes, &claim, "--volume NAME").await {
            return Ok(code);
        }
    }
    let found = in_trash(&volumes, |entry| is_wanted(entry, restoration, from));
    let entry = match chosen(&found, restoration, from) {
        Ok(entry) => entry,
        Err(why) => {
            print_error(why);
            return Ok(ExitCode::FAILURE);
        }
    };
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), restoration.namespace);
    let claim =
        serde_json::from_value(claim(&entry, restoration)?).context("building the claim")?;
    let created = match restoration.create(&claims, &claim).await {
        Ok(created) => created,
        Err(code) => return Ok(code),
    };
    let volume = &*entry.name.name;
    // If a line cannot be printed, the claim still gets the volume: without it, it would stay
    // Pending, and prevent another attempt.
    let printed = print_step(restoration.created(volume));
    if let Err(error) = give_volume(client, &entry, restoration, &created).await {
        return Ok(not_given(&claims, restoration, volume, &created, &error).await);
    }
    printed.and_then(|()| print_step(WAITING))?;
    let end = tokio::select! {
        end = restoration.bound(&claims, &created, timeout) => end,
        never = keep_changing(&claims, &created) => match never {},
    };
    restoration.ended(volume, timeout, end)
}

fn is_wanted(entry: &Entry<'_>, restoration: &Restoration<'_>, from: &str) -> bool {
    let claim = &entry.record.claim;
    let named = restoration.volume;
    claim.namespace == from
        && claim.name == restoration.deleted
        && named.is_none_or(|volume| volume == &*entry.name.name)
}

/// Returns the volume whose claim was deleted last, without volumes that are being deleted.
///
/// # Errors
/// Why there is none, or that it is not known which claim was deleted last.
fn chosen<'a>(
    found: &[Entry<'a>],
    restoration: &Restoration<'_>,
    from: &str,
) -> Result<Entry<'a>, String> {
    let kept = found.iter().filter(|entry| entry.next != Next::Purging);
    let kept: Vec<_> = kept.copied().collect();
    match latest(&kept, |entry| Deletion::of(entry.volume, entry.record)) {
        Ok(Some(entry)) => Ok(*entry),
        Ok(None) => Err(missing(restoration, from, !found.is_empty())),
        Err([one, other]) => Err(format!(
            "it is not known which of several deleted claims {from}/{} was deleted last. Select \
             the volume by --volume {} or --volume {}",
            restoration.deleted, one.name.name, other.name.name
        )),
    }
}

fn missing(restoration: &Restoration<'_>, from: &str, purging: bool) -> String {
    let claim = format!("{from}/{}", restoration.deleted);
    match (restoration.volume, purging) {
        (_, true) => format!("the data of the deleted claim {claim} is being deleted"),
        (Some(volume), false) => {
            format!("no volume {volume} of a deleted claim {claim} is in the trash")
        }
        (None, false) => format!("no deleted claim {claim} is in the trash"),
    }
}

/// The manifest of the new claim, which names the volume in `spec.volumeName`. It has the labels
/// and annotations of the deleted claim that pvc-trash recorded on the volume.
fn claim(entry: &Entry<'_>, restoration: &Restoration<'_>) -> anyhow::Result<Value> {
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": restoration.name, "namespace": restoration.namespace},
    });
    let deleted = &entry.record.claim;
    let mut operations = restore(
        &PersistentVolumeClaimSpec::default(),
        entry.name,
        entry.volume,
    );
    operations.push(add(&["labels"], json!(deleted.kept_labels())));
    operations.push(add(&["annotations"], json!(deleted.kept_annotations())));
    json_patch::patch(&mut claim, &operations).context("building the claim")?;
    Ok(claim)
}

/// Writes the new claim into the volume's `claimRef`. The API server refuses the write if the
/// volume has changed since it was read.
async fn give_volume(
    client: &Client,
    entry: &Entry<'_>,
    restoration: &Restoration<'_>,
    claim: &PersistentVolumeClaim,
) -> kube::Result<()> {
    let volume = entry.volume;
    let mut operations = vec![
        test(&["uid"], json!(volume.uid)),
        test(&["resourceVersion"], json!(volume.resource_version)),
    ];
    let name = ObjectName::new(restoration.namespace, restoration.name);
    operations.extend(give(volume, &name, &claim.uid().unwrap_or_default()));
    let volumes: Api<VolumeWire> = Api::all(client.clone());
    let patch: Patch<()> = Patch::Json(JsonPatch(operations));
    let (name, parameters) = (&*entry.name.name, PatchParams::default());
    let given = volumes.patch(name, &parameters, &patch);
    within(DEFAULT_CALL_TIMEOUT, given).await.map(drop)
}

/// Prints why the claim does not get the volume. If the API server certainly refused the change of
/// the volume, also deletes the new claim, which has no data and which no other client deletes.
async fn not_given(
    claims: &Api<PersistentVolumeClaim>,
    restoration: &Restoration<'_>,
    volume: &str,
    created: &PersistentVolumeClaim,
    error: &kube::Error,
) -> ExitCode {
    if !is_refused(error) {
        return report_unknown(format!(
            "it is unknown whether the claim {restoration} gets volume {volume}: {}. Check: \
             kubectl get{} pv {volume}",
            error_message(error),
            restoration.cluster_flags
        ));
    }
    let parameters = DeleteParams::default().preconditions(Preconditions {
        uid: created.uid(),
        resource_version: created.resource_version(),
    });
    let deleted = within(
        DEFAULT_CALL_TIMEOUT,
        claims.delete(restoration.name, &parameters),
    )
    .await;
    let claim = match deleted {
        Ok(_) => "The claim is deleted again".to_owned(),
        Err(error) => format!(
            "Delete the claim, which has no data; this command could not: {}",
            error_message(&error)
        ),
    };
    print_error(format_args!(
        "the claim {restoration} does not get volume {volume}, which this command did not change: \
         {}. {claim}",
        error_message(error)
    ));
    ExitCode::FAILURE
}

async fn keep_changing(
    claims: &Api<PersistentVolumeClaim>,
    created: &PersistentVolumeClaim,
) -> Infallible {
    loop {
        tokio::time::sleep(TOUCH).await;
        let now = Clock::system().timestamp().to_string();
        let change = json!({"metadata": {
            "uid": created.uid(), "annotations": {UNDELETE_TOUCHED: now},
        }});
        let (name, parameters) = (created.name_any(), PatchParams::default());
        let change = Patch::Merge(change);
        // If the change fails, kube-controller-manager binds the claim later, without it.
        let _ = within(
            DEFAULT_CALL_TIMEOUT,
            claims.patch(&name, &parameters, &change),
        )
        .await;
    }
}

#[cfg(test)]
#[path = "other_namespace_tests.rs"]
mod tests;
