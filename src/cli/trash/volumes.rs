//! Lists volumes, and selects those in the trash.

use crate::{
    cli::user::exit_code::report_unknown,
    cluster::{Store, error_message, read_all},
    objects::{Volume, trash_entry::Entry},
};
use kube::{Api, Client};
use std::process::ExitCode;

/// Lists all volumes, with the caller's permissions. A proposed command has these flags of the
/// cluster.
///
/// # Errors
/// The exit code, after the error is printed.
pub(super) async fn volumes(
    client: &Client,
    cluster_flags: &str,
) -> Result<Store<Volume>, ExitCode> {
    let read = read_volumes(client).await;
    read.map_err(|error| report_unknown(not_listed(&error, cluster_flags)))
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

/// Returns the message that says why volumes could not be listed, and, if the user may not list
/// them, how to restore a claim without that permission, by a command with these flags of the
/// cluster.
pub(super) fn not_listed(error: &kube::Error, cluster_flags: &str) -> String {
    match error {
        kube::Error::Api(status) if status.code == 403 => format!(
            "the trash cannot be listed, because this user may not list PersistentVolumes, as \
             tenants usually may not ({}). To restore a deleted claim by its name: \
             volume-warden undelete{cluster_flags} pvc NAME -n NAMESPACE",
            status.message
        ),
        error => format!(
            "PersistentVolumes could not be listed: {}",
            error_message(error)
        ),
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
            not_listed(&kube::Error::Api(Box::new(status)), " --context=prod")
        };
        let command = "undelete --context=prod pvc NAME";
        for words in ["may not list", "user x cannot list", command] {
            assert!(refused(403).contains(words), "{words}: {}", refused(403));
        }
        assert!(!refused(500).contains("undelete"), "{}", refused(500));
    }
}
