//! `volume-warden undelete`: creates a claim that gets the data of a deleted one.

use super::{
    other_namespace::restore_in,
    restoration::{Restoration, WAITING, volume_of},
};
use crate::{
    cli::{
        print::{print_error, print_step},
        user::{
            caller::{CallerOptions, cluster},
            runtime::block_on,
            target::{self, ClaimKind, Target},
        },
    },
    go_duration,
};
use clap::Args;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::Api;
use std::{process::ExitCode, time::Duration};

pub(in crate::cli) const EXIT_CODES: &str = "Exit codes: 0 the claim is Bound; 1 the claim was not \
created, was deleted before it was Bound, or does not get the data; 2 the command line is wrong; 3 \
the claim is not Bound in time and stays, it is unknown whether it was created or gets the data, \
something could not be read, or there is no usable kubeconfig.";

/// `volume-warden undelete`
#[derive(Debug, Args)]
pub struct UndeleteOptions {
    /// Kind of the object: pvc; or pvc/NAME, as kubectl prints it.
    #[arg(value_name = "KIND", value_parser = Target::<ClaimKind>::parse)]
    target: Target<ClaimKind>,

    /// Name of the deleted claim, if it does not follow the kind.
    name: Option<String>,

    /// Namespace of the deleted claim, and of the new one unless --to-namespace is set [default:
    /// the namespace of the kubeconfig's context]
    #[arg(short, long, default_value = "", hide_default_value = true)]
    namespace: String,

    /// Volume to restore, if several deleted claims had this name. Without --to-namespace, it need
    /// not be a volume of a claim with this name [default: the volume of the claim that was deleted
    /// last]
    #[arg(long, value_name = "PV")]
    volume: Option<String>,

    /// Name of the new claim [default: the name of the deleted claim]
    #[arg(long, value_name = "NAME")]
    new_name: Option<String>,

    /// Namespace of the new claim, if it is not that of the deleted claim, or if that namespace was
    /// deleted and recreated. Requires permission to list and patch PersistentVolumes and, without
    /// --volume, to get claims in the deleted claim's namespace.
    #[arg(long, value_name = "NAMESPACE")]
    to_namespace: Option<String>,

    /// How long to wait until the new claim is Bound.
    #[arg(long, default_value = "60s", value_parser = go_duration::parse)]
    timeout: Duration,

    #[command(flatten)]
    caller: CallerOptions,
}

/// Creates the claim, and waits until it is Bound.
///
/// # Errors
/// When the command line is wrong, or the steps cannot be printed.
pub fn run(options: UndeleteOptions) -> anyhow::Result<ExitCode> {
    block_on(undelete(options))
}

async fn undelete(options: UndeleteOptions) -> anyhow::Result<ExitCode> {
    let deleted = options.target.name(options.name.as_deref(), "undelete")?;
    let (client, default) = match cluster(&options.caller).await {
        Ok(found) => found,
        Err(code) => return Ok(code),
    };
    let from = target::namespace(&options.namespace, &default);
    let to = options.to_namespace.as_deref();
    let cluster_flags = options.caller.cluster_flags();
    let restoration = Restoration {
        namespace: to.unwrap_or(from),
        deleted,
        volume: options.volume.as_deref(),
        name: options.new_name.as_deref().unwrap_or(deleted),
        from: to.map(|_| from),
        cluster_flags: &cluster_flags,
    };
    if to.is_some() {
        return restore_in(&client, &restoration, from, options.timeout).await;
    }
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client, restoration.namespace);
    let claim = restoration.claim();
    let created = match restoration.create(&claims, &claim).await {
        Ok(created) => created,
        Err(code) => return Ok(code),
    };
    let Some(volume) = volume_of(&created) else {
        print_error(restoration.not_filled_in());
        return Ok(ExitCode::FAILURE);
    };
    print_step(restoration.created(volume))?;
    print_step(WAITING)?;
    let end = restoration.bound(&claims, &created, options.timeout).await;
    restoration.ended(volume, options.timeout, end)
}
