//! What the commands for the trash have in common. `unused` and `report` use parts of it, too.

use super::{
    caller::CallerOptions,
    print::{complain, print},
};
use crate::{
    cluster::{Store, read_all},
    objects::{Volume, trash_entry::Entry},
    plain::Plain,
    tls::install_crypto,
};
use kube::{Api, Client};
use std::{fmt, process::ExitCode};

/// Exit code of these commands if something that they require could not be read, if there is no
/// usable kubeconfig, if it is unknown whether a write was stored, or if a restored claim is not
/// Bound in time.
pub(super) const UNREADABLE: u8 = 3;

/// Runs a command of a user to its end, on this thread.
pub(super) fn block_on(
    command: impl Future<Output = anyhow::Result<ExitCode>>,
) -> anyhow::Result<ExitCode> {
    install_crypto();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(command)
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
    let read = read_volumes(client).await;
    read.map_err(|error| unreadable(not_listed(&error)))
}

/// Lists all volumes as [`volumes`] does, and prints nothing.
///
/// # Errors
/// When they could not be listed.
pub(super) async fn read_volumes(client: &Client) -> kube::Result<Store<Volume>> {
    read_all::<Volume>(&Api::all(client.clone())).await
}

/// Whether the API server says that the user may not do this.
pub(super) fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}

/// Returns the volumes in the trash for which `fits` is true.
pub(super) fn in_trash<'a>(
    volumes: &'a Store<Volume>,
    fits: impl Fn(&Entry<'a>) -> bool,
) -> Vec<Entry<'a>> {
    let entries = volumes.objects();
    let entries = entries.filter_map(|(name, volume)| Entry::of(name, volume));
    entries.filter(fits).collect()
}

/// Prints a step of a command.
///
/// # Errors
/// When it cannot be printed.
pub(super) fn say(sentence: impl fmt::Display) -> anyhow::Result<()> {
    Ok(print(&Plain(sentence).to_string())?)
}

/// Prints the error, and returns the exit code for something that could not be read, or for a write
/// whose outcome is unknown.
pub(super) fn unreadable(error: String) -> ExitCode {
    complain(error);
    ExitCode::from(UNREADABLE)
}

/// Returns the message that says why volumes could not be listed, and, if the user may not list
/// them, how to restore a claim without that right.
pub(super) fn not_listed(error: &kube::Error) -> String {
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
