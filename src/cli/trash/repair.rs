//! `volume-warden trash repair`: creates volumes again whose objects were removed by force.

use super::{
    confirm::confirmed,
    copies::Copies,
    repair_plan::{Found, Removed, plan, recreated, table},
};
use crate::{
    cli::{
        options::connection::DEFAULT_NAMESPACE,
        print::{print, print_error},
        user::{
            caller::{CallerOptions, cluster},
            exit_code::report_unknown,
            runtime::block_on,
        },
    },
    cluster::{DEFAULT_CALL_TIMEOUT, Store, error_message, is_refused, read_all, within},
    objects::{Kind, Namespace, WholeVolume},
};
use clap::{Args, error::ErrorKind};
use kube::{
    Api, Client,
    api::{DynamicObject, PostParams},
};
use std::{
    io::{self, IsTerminal as _},
    process::ExitCode,
};

pub(super) const EXIT_CODES: &str = "Exit codes: 0 all volumes are created, or none was removed; 1 \
one is not created, or not confirmed, or the namespace has no copy; 2 the command line is wrong, or \
--yes is missing; 3 the volumes, their copies or the namespaces could not be read, it is unknown \
whether one is created, or there is no usable kubeconfig.";

/// `volume-warden trash repair`
#[derive(Debug, Args)]
pub struct RepairOptions {
    /// Names of the volumes to create again [default: all that have a copy and do not exist]
    #[arg(value_name = "VOLUME")]
    volumes: Vec<String>,

    /// List the volumes, and create none.
    #[arg(long, default_value_t)]
    dry_run: bool,

    /// Do not ask for confirmation. Required if standard input is not a terminal.
    #[arg(short, long, default_value_t)]
    yes: bool,

    /// Namespace of Volume Warden. Its ConfigMaps contain the copies of PersistentVolumes.
    #[arg(long, value_name = "NAMESPACE", default_value = DEFAULT_NAMESPACE)]
    system_namespace: String,

    #[command(flatten)]
    caller: CallerOptions,
}

/// Creates the volumes again.
///
/// # Errors
/// When the command line is wrong, or the terminal cannot be used.
pub fn run(options: RepairOptions) -> anyhow::Result<ExitCode> {
    if !options.yes && !options.dry_run && !io::stdin().is_terminal() {
        let message = "repair creates volumes: confirm it by --yes, or list them by --dry-run";
        return Err(clap::Error::raw(ErrorKind::MissingRequiredArgument, message).into());
    }
    block_on(repair(options))
}

async fn repair(options: RepairOptions) -> anyhow::Result<ExitCode> {
    let (client, _) = match cluster(&options.caller).await {
        Ok(found) => found,
        Err(code) => return Ok(code),
    };
    create_confirmed(&client, &options, confirmed).await
}

/// Lists the volumes, and creates them once `confirmed` returns true.
async fn create_confirmed(
    client: &Client,
    options: &RepairOptions,
    confirmed: impl FnOnce() -> io::Result<bool>,
) -> anyhow::Result<ExitCode> {
    let removed = match removed(client, options).await {
        Ok(removed) => removed,
        Err(code) => return Ok(code),
    };
    let unknown = options.volumes.iter().filter(|name| {
        let mut removed = removed.iter();
        !removed.any(|each| each.name() == **name)
    });
    let unknown: Vec<_> = unknown.collect();
    for name in &unknown {
        print_error(format_args!("no volume {name} was removed without a purge"));
    }
    if removed.is_empty() {
        if unknown.is_empty() {
            print_error("no volume was removed without a purge");
        }
        return Ok(code(unknown.is_empty()));
    }
    print(&table(&removed))?;
    let complete = unknown.is_empty() && removed.iter().all(|each| each.refused.is_none());
    if options.dry_run || removed.iter().all(|each| each.refused.is_some()) {
        return Ok(code(complete));
    }
    let shown: Vec<_> = removed
        .iter()
        .filter(|each| each.refused.is_none())
        .collect();
    if options.yes {
        return create_all(client, &shown, complete).await;
    }
    if !confirmed()? {
        print_error("no volume is created");
        return Ok(ExitCode::FAILURE);
    }
    let now = match self::removed(client, options).await {
        Ok(removed) => removed,
        Err(code) => return Ok(code),
    };
    let is_unchanged = |each: &&Removed| now.iter().any(|now| now.is_same_plan(each));
    let (unchanged, changed): (Vec<_>, Vec<_>) = shown.into_iter().partition(is_unchanged);
    for each in &changed {
        print_error(format_args!(
            "volume {} is not created: since it was listed, its copy has changed, or it must not \
             be created any more. Run it again",
            each.name()
        ));
    }
    create_all(client, &unchanged, complete && changed.is_empty()).await
}

/// Reads which volumes were removed by force, of the named ones or, if none is named, of all.
async fn removed(client: &Client, options: &RepairOptions) -> Result<Vec<Removed>, ExitCode> {
    let namespace = &options.system_namespace;
    let found = read(client, namespace).await.map_err(report_unknown)?;
    if found.before.objects().next().is_none() {
        print_error(format_args!(
            "there is no copy of a volume in the namespace {namespace}. If Volume Warden is \
             installed in another one, name it with --system-namespace"
        ));
        return Err(ExitCode::FAILURE);
    }
    let names = &options.volumes;
    let mut removed = plan(&found, names);
    removed.retain(|each| names.is_empty() || names.iter().any(|name| name == each.name()));
    Ok(removed)
}

/// Reads the copies, all volumes, the copies again, and all namespaces.
///
/// # Errors
/// Which of them could not be listed, and why.
async fn read(client: &Client, system_namespace: &str) -> Result<Found, String> {
    let found = read_volumes(client, system_namespace).await?;
    let namespaces = read_all::<Namespace>(&Api::all(client.clone())).await;
    let namespaces = namespaces.map_err(|error| unread("namespaces", &error))?;
    Ok(Found {
        namespaces,
        ..found
    })
}

/// Reads the same without namespaces. They decide only which volumes are created.
///
/// # Errors
/// Which of them could not be listed, and why.
pub(super) async fn read_volumes(client: &Client, system_namespace: &str) -> Result<Found, String> {
    let copies = Copies::of(client, system_namespace);
    let maps = format!("the ConfigMaps of {system_namespace}");
    let listed = || async { copies.list().await.map_err(|error| unread(&maps, &error)) };
    let before = listed().await?;
    let volumes = read_all::<WholeVolume>(&Api::all(client.clone())).await;
    let volumes = volumes.map_err(|error| unread("PersistentVolumes", &error))?;
    let after = listed().await?;
    Ok(Found {
        before,
        volumes,
        after,
        namespaces: Store::default(),
    })
}

fn unread(what: &str, error: &kube::Error) -> String {
    format!("{what} could not be listed: {}", error_message(error))
}

/// Creates these volumes. `complete` is whether these are all that were to be created.
async fn create_all(
    client: &Client,
    removed: &[&Removed],
    complete: bool,
) -> anyhow::Result<ExitCode> {
    let mut created = complete;
    for each in removed {
        let name = each.name();
        match create(client, each).await {
            Ok(()) => print(&recreated(name))?,
            Err(error) if is_refused(&error) => {
                print_error(format_args!(
                    "volume {name} is not created: {}",
                    error_message(&error)
                ));
                created = false;
            }
            Err(error) => {
                return Ok(report_unknown(format!(
                    "it is unknown whether volume {name} is created: {}. Run it again",
                    error_message(&error)
                )));
            }
        }
    }
    Ok(code(created))
}

/// Creates the volume with the caller's permissions. The API server refuses it if the name exists.
async fn create(client: &Client, removed: &Removed) -> kube::Result<()> {
    let Some(manifest) = removed.manifest() else {
        return Ok(());
    };
    let resource = Kind::PersistentVolume.api_resource();
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let volume = serde_json::from_value(manifest).map_err(kube::Error::SerdeError)?;
    let parameters = PostParams::default();
    let created = api.create(&parameters, &volume);
    within(DEFAULT_CALL_TIMEOUT, created).await.map(drop)
}

fn code(complete: bool) -> ExitCode {
    if complete {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

#[cfg(test)]
#[path = "repair_tests.rs"]
mod tests;
