//! `volume-warden purge`: requests that the data of a deleted claim is deleted permanently.

use super::{
    confirm::confirmed,
    last_deletion::check_last_deletion,
    output::sort,
    volumes::{in_trash, volumes},
};
use crate::{
    cli::{
        print::{print_error, print_step},
        user::{
            caller::{CallerOptions, cluster},
            exit_code::report_unknown,
            runtime::block_on,
            target::{self, Target, TrashKind},
        },
    },
    clock::Clock,
    cluster::{DEFAULT_CALL_TIMEOUT, Store, error_message, existing, is_refused, within},
    columns::age,
    objects::{
        ObjectName, Tracked as _, Volume,
        patch::{add, test, test_at},
        trash::PURGE,
        trash_entry::{Entry, Next},
        volume::VolumeWire,
    },
};
use clap::{Args, error::ErrorKind};
use json_patch::Patch as JsonPatch;
use k8s_openapi::jiff::Timestamp;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::json;
use std::{
    io::{self, IsTerminal as _},
    process::ExitCode,
    sync::Arc,
};

pub(in crate::cli) const EXIT_CODES: &str = "Exit codes: 0 the purge is requested; 1 not in the trash, \
not Released yet, ambiguous, kept because its policy was Retain, not confirmed, or refused; 2 the command line is \
wrong, or --yes is missing; 3 the volumes or the claim could not be read, it is unknown whether the purge is requested, or there \
is no usable kubeconfig.";

/// `volume-warden purge`
#[derive(Debug, Args)]
pub struct PurgeOptions {
    /// Kind of the object: pvc for the name of the deleted claim, pv for that of its volume; or
    /// KIND/NAME.
    #[arg(value_name = "KIND", value_parser = Target::<TrashKind>::parse)]
    target: Target<TrashKind>,

    /// Name of the object, if it does not follow the kind.
    name: Option<String>,

    /// Namespace of the deleted claim [default: the namespace of the kubeconfig's context]
    #[arg(short, long, default_value = "", hide_default_value = true)]
    namespace: String,

    /// Do not ask for confirmation. Required if standard input is not a terminal.
    #[arg(short, long, default_value_t)]
    yes: bool,

    #[command(flatten)]
    caller: CallerOptions,
}

/// Requests the purge of one volume.
///
/// # Errors
/// When the command line is wrong, or the terminal cannot be used.
pub fn run(options: PurgeOptions) -> anyhow::Result<ExitCode> {
    if !options.yes && !io::stdin().is_terminal() {
        let message = "purge deletes data permanently: confirm it by --yes";
        return Err(clap::Error::raw(ErrorKind::MissingRequiredArgument, message).into());
    }
    block_on(purge(options))
}

async fn purge(options: PurgeOptions) -> anyhow::Result<ExitCode> {
    let name = options.target.name(options.name.as_deref(), "purge")?;
    let (client, default) = match cluster(&options.caller).await {
        Ok(found) => found,
        Err(code) => return Ok(code),
    };
    let namespace = target::namespace(&options.namespace, &default);
    // How a volume is selected if several claims had its name: in the same cluster.
    let flags = options.caller.cluster_flags();
    let select = format!("volume-warden purge{flags} pv NAME");
    let read = match options.target.kind {
        TrashKind::Pvc => {
            let claim = ObjectName::new(namespace, name);
            volumes_of(&client, &claim, &select, &flags).await
        }
        TrashKind::Pv => volume(&client, name).await,
    };
    let volumes = match read {
        Ok(volumes) => volumes,
        Err(code) => return Ok(code),
    };
    let mut found = in_trash(&volumes, |entry| match options.target.kind {
        TrashKind::Pvc => is_of(entry, namespace, name),
        TrashKind::Pv => true,
    });
    sort(&mut found);
    let entry = match chosen(&found, Clock::system().timestamp(), &select) {
        Ok(entry) => entry,
        Err(None) => {
            print_error(missing(options.target.kind, namespace, name));
            return Ok(ExitCode::FAILURE);
        }
        Err(Some(why)) => {
            print_error(why);
            return Ok(ExitCode::FAILURE);
        }
    };
    print_step(description(entry, Clock::system().timestamp()))?;
    if !options.yes && !confirmed()? {
        print_error("nothing is deleted");
        return Ok(ExitCode::FAILURE);
    }
    request(&client, entry).await
}

/// Lists all volumes.
///
/// # Errors
/// The exit code, after the reason is printed: they could not be read, or the volume of the claim
/// of this name that was deleted last is not in the trash yet.
async fn volumes_of(
    client: &Client,
    claim: &ObjectName,
    select: &str,
    cluster_flags: &str,
) -> Result<Store<Volume>, ExitCode> {
    let volumes = volumes(client, cluster_flags).await?;
    check_last_deletion(client, &volumes, claim, select).await?;
    Ok(volumes)
}

/// Reads one volume. The store is empty if it does not exist.
async fn volume(client: &Client, name: &str) -> Result<Store<Volume>, ExitCode> {
    let api: Api<VolumeWire> = Api::all(client.clone());
    let read = existing(within(DEFAULT_CALL_TIMEOUT, api.get(name)).await);
    let read = read.map_err(|error| {
        report_unknown(format!(
            "the PersistentVolume {name} could not be read: {}",
            error_message(&error)
        ))
    })?;
    let mut volumes = Store::default();
    if let Some(volume) = read.and_then(Volume::track) {
        volumes.put(ObjectName::cluster_scoped(name), Some(Arc::new(volume)));
    }
    Ok(volumes)
}

fn is_of(entry: &Entry<'_>, namespace: &str, name: &str) -> bool {
    entry.record.claim.namespace == namespace && entry.record.claim.name == name
}

fn missing(kind: TrashKind, namespace: &str, name: &str) -> String {
    match kind {
        TrashKind::Pvc => format!("no deleted claim {namespace}/{name} is in the trash"),
        TrashKind::Pv => format!("no volume {name} is in the trash"),
    }
}

/// Returns the only volume that can be purged.
///
/// # Errors
/// The sentence that says why no volume is selected; none if no volume was found.
fn chosen<'a, 'b>(
    found: &'b [Entry<'a>],
    now: Timestamp,
    select: &str,
) -> Result<&'b Entry<'a>, Option<String>> {
    let living: Vec<_> = found
        .iter()
        .filter(|each| each.next != Next::Purging)
        .collect();
    match (living.as_slice(), found) {
        ([], []) => Err(None),
        ([], [first, ..]) => Err(Some(format!(
            "volume {} of the deleted claim {} is being deleted already",
            first.name,
            first.claim()
        ))),
        ([one], _) if one.next == Next::Kept => Err(Some(format!(
            "the reclaim policy of volume {} was Retain before the trash was enabled for its claim \
             {}, so Volume Warden never deletes its data",
            one.name,
            one.claim()
        ))),
        ([one], _) => Ok(one),
        (several, _) => Err(Some(ambiguous(several, now, select))),
    }
}

fn ambiguous(several: &[&Entry<'_>], now: Timestamp, select: &str) -> String {
    let each = several.iter().map(|entry| {
        let (volume, size) = (&entry.name, entry.capacity());
        format!("volume {volume} ({size}, {})", deleted(entry, now))
    });
    let each: Vec<_> = each.collect();
    format!(
        "several deleted claims had this name: {}. Name one of the volumes: {select}",
        each.join(", ")
    )
}

fn description(entry: &Entry<'_>, now: Timestamp) -> String {
    format!(
        "This permanently deletes volume {} of the deleted claim {} ({}, {}), with its data.",
        entry.name,
        entry.claim(),
        entry.capacity(),
        deleted(entry, now)
    )
}

fn deleted(entry: &Entry<'_>, now: Timestamp) -> String {
    match entry.record.deleted_at {
        Some(deleted) => format!("deleted {} ago", age(deleted, now)),
        None => "the time of the deletion is not recorded yet".to_owned(),
    }
}

fn requested(volume: &str) -> String {
    format!(
        "The purge of volume {volume} is requested. Volume Warden sets its reclaim policy to \
         Delete, within the limit of purges per hour. The provisioner then deletes the volume with \
         its data."
    )
}

/// Writes the annotation that requests the purge on the volume. The API server refuses the write if
/// the volume's `claimRef` no longer names the deleted claim.
async fn request(client: &Client, entry: &Entry<'_>) -> anyhow::Result<ExitCode> {
    let api: Api<VolumeWire> = Api::all(client.clone());
    let patch: Patch<()> = Patch::Json(operations(entry));
    let (name, params) = (&*entry.name.name, PatchParams::default());
    match within(DEFAULT_CALL_TIMEOUT, api.patch(name, &params, &patch)).await {
        Ok(_) => {
            print_step(requested(name))?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) if is_refused(&error) => {
            print_error(format_args!(
                "the purge of volume {name} was refused, or the volume has changed meanwhile: {}",
                error_message(&error)
            ));
            Ok(ExitCode::FAILURE)
        }
        Err(error) => Ok(report_unknown(format!(
            "it is unknown whether the purge of volume {name} is requested: {}. Run it again",
            error_message(&error)
        ))),
    }
}

fn operations(entry: &Entry<'_>) -> JsonPatch {
    let uid = &entry.record.claim.uid;
    JsonPatch(vec![
        test(&["uid"], json!(entry.volume.uid)),
        test_at(&["spec", "claimRef", "uid"], json!(uid)),
        add(&["annotations", PURGE], json!(uid)),
    ])
}

#[cfg(test)]
#[path = "purge_tests.rs"]
mod tests;
