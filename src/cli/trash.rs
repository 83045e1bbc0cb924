//! `volume-warden trash`: lists the volumes whose data is kept after the deletion of their claims.
//! The commands `undelete` and `purge`, which act on these volumes, are parts of it.

mod confirm;
mod copies;
mod from_config_map;
mod last_deletion;
mod other_namespace;
mod output;
pub(super) mod purge;
mod repair;
mod repair_plan;
mod restoration;
pub(super) mod undelete;
mod volumes;

use self::{
    copies::{Copies, notice},
    output::{Output, shown},
    repair_plan::plan,
    volumes::{in_trash, is_forbidden, not_listed, read_volumes},
};
use super::{
    options::connection::DEFAULT_NAMESPACE,
    print::{print, print_error},
    user::{
        caller::{CallerOptions, cluster},
        exit_code::report_unknown,
        runtime::block_on,
        target,
    },
};
use crate::{clock::Clock, cluster::Store, hashing::HashSet, objects::Volume};
use clap::{Args, Subcommand};
use kube::Client;
use std::process::ExitCode;

pub(super) const EXIT_CODES: &str = "Exit codes: 0 listed, also when the trash is empty; 2 the \
command line is wrong; 3 the volumes could not be listed, or there is no usable kubeconfig.";

/// The commands below `volume-warden trash`.
#[derive(Debug, Subcommand)]
enum TrashCommand {
    /// Recreate PersistentVolumes that were removed without a purge.
    #[command(after_help = repair::EXIT_CODES)]
    Repair(Box<repair::RepairOptions>),
}

/// `volume-warden trash`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct TrashOptions {
    #[command(subcommand)]
    command: Option<TrashCommand>,

    /// Only deleted claims of this namespace [default: the namespace of the kubeconfig's context]
    #[arg(short, long, default_value = "", hide_default_value = true)]
    namespace: String,

    /// Deleted claims of all namespaces.
    #[arg(short = 'A', long, default_value_t, conflicts_with = "namespace")]
    all_namespaces: bool,

    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,

    /// Namespace of Volume Warden. Its ConfigMaps contain the copies of PersistentVolumes.
    #[arg(long, value_name = "NAMESPACE", default_value = DEFAULT_NAMESPACE)]
    system_namespace: String,

    #[command(flatten)]
    caller: CallerOptions,
}

/// Prints the volumes in the trash, or runs `trash repair`.
///
/// # Errors
/// When the list cannot be written, or `trash repair` returns an error.
pub fn run(options: TrashOptions) -> anyhow::Result<ExitCode> {
    match options.command {
        Some(TrashCommand::Repair(options)) => repair::run(*options),
        None => block_on(list(options)),
    }
}

async fn list(options: TrashOptions) -> anyhow::Result<ExitCode> {
    let (client, default) = match cluster(&options.caller).await {
        Ok(found) => found,
        Err(code) => return Ok(code),
    };
    let namespace = if options.all_namespaces {
        None
    } else {
        Some(target::namespace(&options.namespace, &default))
    };
    let flags = options.caller.cluster_flags();
    let volumes = match (read_volumes(&client).await, namespace) {
        (Ok(volumes), _) => volumes,
        (Err(error), Some(only)) if is_forbidden(&error) => {
            let forbidden = not_listed(&error, &flags);
            return from_config_map::show(&client, only, options.output, forbidden).await;
        }
        (Err(error), _) => return Ok(report_unknown(not_listed(&error, &flags))),
    };
    let entries = in_trash(&volumes, |entry| {
        namespace.is_none_or(|only| entry.record.claim.namespace == only)
    });
    if entries.is_empty() {
        let place = namespace.map_or_else(String::new, |only| format!(" of the namespace {only}"));
        print_error(format_args!("no deleted claim{place} is in the trash"));
    }
    if !entries.is_empty() || options.output == Output::Json {
        print(&shown(
            entries.iter().map(Into::into).collect(),
            options.output,
            Clock::system().timestamp(),
        ))?;
    }
    let removed = count_removed(&client, &options.system_namespace, (&volumes, namespace)).await;
    if removed > 0 {
        print_error(notice(removed, &options.system_namespace, &flags));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns how many volumes `trash repair` lists: those that were removed by force and not created
/// again, and whose recorded claim is of this namespace; of any namespace if none is given. Not
/// every user may read the ConfigMaps with the copies of volumes, so an error counts as none.
async fn count_removed(
    client: &Client,
    system_namespace: &str,
    (volumes, namespace): (&Store<Volume>, Option<&str>),
) -> usize {
    let Ok(copies) = Copies::of(client, system_namespace).list().await else {
        return 0;
    };
    let uids: HashSet<_> = volumes.objects().map(|(_, volume)| &volume.uid).collect();
    let mut copies = copies.objects();
    // A volume that was created after the volumes were listed seems to be removed, too.
    if copies.all(|(_, copy)| uids.contains(&copy.volume_uid)) {
        return 0;
    }
    let Ok(found) = repair::read_volumes(client, system_namespace).await else {
        return 0;
    };
    let removed = plan(&found, &[]).into_iter();
    removed.filter(|each| each.is_in(namespace)).count()
}

#[cfg(test)]
mod tests;
