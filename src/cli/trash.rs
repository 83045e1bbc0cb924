//! `volume-warden trash`: lists the volumes whose data is kept after the deletion of their claims.

use super::{
    caller::CallerOptions,
    print::{complain, print},
    target,
    trash_report::{Output, shown, sort},
};
use crate::{
    clock::Clock,
    cluster::{Store, read_all},
    components::pvc_trash::Entry,
    objects::Volume,
    tls::install_crypto,
};
use clap::Args;
use kube::{Api, Client};
use std::process::ExitCode;

/// Exit code of the commands for the trash if something that they require could not be read.
pub(super) const UNREADABLE: u8 = 3;

pub(super) const EXIT_CODES: &str = "Exit codes: 0 listed, also when the trash is empty; 2 the \
command line is wrong; 3 the volumes could not be listed.";

/// `volume-warden trash`
#[derive(Debug, Args)]
pub struct TrashOptions {
    /// Only deleted claims of this namespace [default: the namespace of the kubeconfig's context]
    #[arg(short, long, default_value = "", hide_default_value = true)]
    namespace: String,

    /// Deleted claims of all namespaces.
    #[arg(short = 'A', long, default_value_t, conflicts_with = "namespace")]
    all_namespaces: bool,

    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,

    #[command(flatten)]
    caller: CallerOptions,
}

/// Prints the volumes in the trash.
///
/// # Errors
/// When the list cannot be written.
pub fn run(options: TrashOptions) -> anyhow::Result<ExitCode> {
    block_on(list(options))
}

/// Runs one of the commands for the trash.
pub(super) fn block_on(
    command: impl Future<Output = anyhow::Result<ExitCode>>,
) -> anyhow::Result<ExitCode> {
    install_crypto();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(command)
}

async fn list(options: TrashOptions) -> anyhow::Result<ExitCode> {
    let (client, default) = match cluster(&options.caller).await {
        Ok(found) => found,
        Err(code) => return Ok(code),
    };
    let namespace = match options.all_namespaces {
        true => None,
        false => Some(target::namespace(&options.namespace, &default)),
    };
    let volumes = match volumes(&client).await {
        Ok(volumes) => volumes,
        Err(code) => return Ok(code),
    };
    let mut entries = in_trash(&volumes, |entry| {
        namespace.is_none_or(|only| entry.record.claim.namespace == only)
    });
    sort(&mut entries);
    if entries.is_empty() {
        let place = namespace.map_or_else(String::new, |only| format!(" of the namespace {only}"));
        complain(format_args!("no deleted claim{place} is in the trash"));
    }
    if !entries.is_empty() || options.output == Output::Json {
        print(&shown(
            &entries,
            options.output,
            Clock::system().timestamp(),
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Creates a client with the caller's credentials, and returns the namespace to use if none is
/// given.
///
/// # Errors
/// The exit code, after the error is printed.
pub(super) async fn cluster(caller: &CallerOptions) -> Result<(Client, String), ExitCode> {
    let found = caller.cluster().await;
    found.map_err(|error| unreadable(format!("{error:#}")))
}

/// Lists all volumes, with the caller's rights.
///
/// # Errors
/// The exit code, after the error is printed.
pub(super) async fn volumes(client: &Client) -> Result<Store<Volume>, ExitCode> {
    read_all::<Volume>(&Api::all(client.clone()))
        .await
        .map_err(|error| unreadable(not_listed(&error)))
}

/// Returns the volumes in the trash that fit.
pub(super) fn in_trash<'a>(
    volumes: &'a Store<Volume>,
    fits: impl Fn(&Entry<'a>) -> bool,
) -> Vec<Entry<'a>> {
    let entries = volumes.objects();
    let entries = entries.filter_map(|(name, volume)| Entry::of(name, volume));
    entries.filter(fits).collect()
}

/// Prints the error, and returns the exit code for something that could not be read.
pub(super) fn unreadable(error: String) -> ExitCode {
    complain(error);
    ExitCode::from(UNREADABLE)
}

fn not_listed(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code == 403 => format!(
            "the trash cannot be listed, because this user may not list PersistentVolumes, as \
             tenants usually may not ({}). To restore a deleted claim by its name: \
             volume-warden undelete pvc NAME -n NAMESPACE",
            status.message
        ),
        error => format!("PersistentVolumes could not be listed: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    #[test]
    fn a_tenant_gets_the_command_that_needs_no_volumes() {
        let refused = |code| {
            let status = Status::failure("user x cannot list", "Forbidden").with_code(code);
            not_listed(&kube::Error::Api(Box::new(status)))
        };
        for words in ["may not list", "user x cannot list", "undelete pvc NAME"] {
            assert!(refused(403).contains(words), "{words}: {}", refused(403));
        }
        assert!(!refused(500).contains("undelete"), "{}", refused(500));
    }
}
