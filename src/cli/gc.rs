//! `volume-warden gc`: one garbage collection, started manually.

mod output;

use super::{options::ClusterOptions, print::print};
use crate::{
    clock::Clock,
    cluster::error_message,
    components::namespace_gc::{
        BackendOptions, CONFIG_MAP, Collection, CollectionOptions, Remover, Scope, Seen, Verdict,
    },
    hashing::HashSet,
    installation,
    plain::Plain,
    telemetry::logs,
    tls::install_crypto,
};
use anyhow::{anyhow, bail};
use clap::{ArgAction, Args, error::ErrorKind};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Client;
use std::sync::Arc;

pub(super) const EXIT_CODES: &str = "Exit codes: 0 the report is printed, and with --once every \
namespace to delete is deleted or not empty; 1 a namespace could not be deleted, with --once one \
was left because of --gc-max-deletions, or something could not be read; 2 the command line is \
wrong.";

/// `volume-warden gc`
#[derive(Debug, Args)]
pub struct GcOptions {
    /// Only report which namespaces would be deleted, and why. Nothing is written.
    #[arg(long, action = ArgAction::SetTrue)]
    dry_run: bool,

    /// Run one garbage collection, and delete the orphaned namespaces that it finds.
    #[arg(long, action = ArgAction::SetTrue)]
    once: bool,

    /// Delete orphaned namespaces even if no namespace of the storage backend exists in Kubernetes.
    /// This usually means that the kubeconfig or the storage belongs to another cluster.
    #[arg(long, action = ArgAction::SetTrue, requires = "once")]
    force: bool,

    /// Output format of the report.
    #[arg(short, long, value_enum, default_value = "table")]
    output: output::Output,

    #[command(flatten)]
    cluster: ClusterOptions,
    #[command(flatten)]
    backend: BackendOptions,
    #[command(flatten)]
    collection: CollectionOptions,
}

/// Runs one garbage collection.
///
/// # Errors
/// When the lists of namespaces or the ConfigMap could not be read, a namespace could not be
/// deleted, or the command line is wrong.
pub fn run(options: GcOptions) -> anyhow::Result<()> {
    if options.dry_run == options.once {
        return usage_error(
            "choose one of --dry-run, which only reports, and --once, which deletes",
        );
    }
    if !options.backend.is_named() {
        return usage_error("gc requires --storage-backend");
    }
    if options.cluster.namespace().is_some() {
        return usage_error("namespace-gc handles whole clusters: remove --namespace");
    }
    logs::init(logs::Format::Text);
    install_crypto();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(collect(options))
}

fn usage_error(sentence: &str) -> anyhow::Result<()> {
    Err(clap::Error::raw(ErrorKind::MissingRequiredArgument, sentence).into())
}

async fn collect(options: GcOptions) -> anyhow::Result<()> {
    let GcOptions {
        dry_run,
        force,
        output,
        cluster,
        backend,
        collection,
        ..
    } = options;
    let Some(storage) = backend.backend().await? else {
        return Ok(());
    };
    let (client, server) = cluster.client_and_server().await?;
    tracing::info!(
        kubernetes = server,
        storage = backend.place(),
        "comparing the namespaces of Kubernetes and of the storage backend"
    );
    let scoped = collection.names_scope() || backend.scope() == Scope::Seen;
    let options = Arc::new(collection.options(&backend, dry_run));
    // The deletions are safe while a replica leads and deletes namespaces, too: each request to the
    // storage backend names the version of the namespace that was listed.
    let leadership = None;
    let (metrics, clock) = (Arc::default(), Clock::system());
    let remover = Remover::new(&client, &storage, &options, &metrics, &clock, leadership);
    let seen = Seen::new(client.clone(), &cluster.system_namespace());
    if !scoped {
        refuse_shared(&seen).await?;
        // In a pod, the namespace is its own.
        if cluster.kubeconfig.is_some() && cluster.system_namespace.is_none() {
            refuse_elsewhere(&client, &cluster.system_namespace()).await?;
        }
    }
    let unproven = !force && !dry_run && options.scope == Scope::All;
    let mut collection = Collection::new(&client, Arc::new(remover), Arc::new(seen));
    if unproven {
        collection = collection.of_one_cluster();
    }
    let collected = collection.run(&HashSet::default(), &|_, _| {}).await?;
    print(&output::shown(&collected.report, output, dry_run))?;
    let report = collected.report;
    let left = report.count(|row| row.verdict == Verdict::OverTheCap);
    match report.failed() {
        0 if left == 0 || dry_run => Ok(()),
        0 => bail!(
            "{left} namespaces were left because of --gc-max-deletions; run the command again, or \
             raise it if the first ones are not empty"
        ),
        failed => bail!("{failed} namespaces could not be deleted"),
    }
}

/// Refuses to delete by the default scope `all` if the storage may be shared with other clusters,
/// whose namespaces would be deleted.
///
/// # Errors
/// When the ConfigMap with the names of namespaces exists, which is a usage error, or could not be
/// read.
async fn refuse_shared(seen: &Seen) -> anyhow::Result<()> {
    let exists = seen.exists().await.map_err(|error| {
        anyhow!(
            "the ConfigMap {CONFIG_MAP} could not be read, so it is unknown whether this storage \
             is shared with other clusters: {}. If it is not shared, choose --gc-scope=all",
            error_message(&error)
        )
    })?;
    if !exists {
        Ok(())
    } else {
        usage_error(&format!(
            "the ConfigMap {CONFIG_MAP} exists, so this storage may be shared with other clusters: \
             choose --gc-scope=seen or --gc-scope=all"
        ))
    }
}

/// Refuses to delete by the default scope `all` if Volume Warden is installed in another namespace
/// than this one, too or only: the ConfigMap that shows whether the storage is shared may be there.
///
/// # Errors
/// When that is so, which is a usage error, or could not be read.
async fn refuse_elsewhere(client: &Client, system_namespace: &str) -> anyhow::Result<()> {
    let bindings = installation::labelled::<ClusterRoleBinding>(client).await;
    let bindings = bindings.map_err(|error| {
        anyhow!(
            "the ClusterRoleBindings could not be listed, so it is unknown in which namespace Volume \
             Warden is installed: {}. Choose --system-namespace",
            error_message(&error)
        )
    })?;
    let installed = installation::namespaces(&bindings);
    let other = installed.iter().find(|each| **each != system_namespace);
    match other {
        Some(other) => usage_error(&format!(
            "Volume Warden is installed in the namespace {}, and not only in {system_namespace}: \
             choose --system-namespace, or --gc-scope=seen or --gc-scope=all",
            Plain(other)
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::test_server::{answering, failure};
    use serde_json::{Value, json};

    /// Reads the ConfigMap from an API server that answers with this.
    async fn refused(answer: (u16, Value)) -> anyhow::Result<()> {
        let client = answering(move |_, _| answer.clone());
        refuse_shared(&Seen::new(client, "system")).await
    }

    /// Otherwise the namespaces of another cluster would be deleted.
    #[tokio::test]
    async fn a_config_map_that_cannot_be_read_ends_the_command() {
        for (code, reason) in [(403, "Forbidden"), (500, "InternalError")] {
            let error = refused(failure(code, reason)).await;
            let error = error.expect_err("it is unknown whether the storage is shared");
            assert!(!error.is::<clap::Error>(), "{error}");
            let expected = "the ConfigMap volume-warden-seen-namespaces could not be read, so it \
                            is unknown whether this storage is shared with other clusters: the \
                            words. If it is not shared, choose --gc-scope=all";
            assert_eq!(error.to_string(), expected);
        }
    }

    #[tokio::test]
    async fn storage_that_may_be_shared_requires_a_scope() {
        let exists =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG_MAP}});
        let error = refused((200, exists)).await.expect_err("it may be shared");
        assert!(error.is::<clap::Error>(), "{error}");
        assert!(error.to_string().contains("--gc-scope=seen"), "{error}");
        let absent = refused(failure(404, "NotFound")).await;
        assert!(absent.is_ok(), "{absent:?}");
    }

    /// In a namespace that does not exist, the ConfigMap does not exist, either.
    #[tokio::test]
    async fn the_config_map_is_looked_for_where_volume_warden_is_installed() {
        let bound = |namespace: &str| {
            let account = json!({"kind": "ServiceAccount", "name": "a", "namespace": namespace});
            let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "a"});
            json!({"metadata": {"name": namespace}, "roleRef": role, "subjects": [account]})
        };
        let refused = async |answer: (u16, Value)| {
            let client = answering(move |_, _| answer.clone());
            refuse_elsewhere(&client, "volume-warden").await
        };
        let list = |items: &[Value]| (200, json!({"metadata": {}, "items": items}));
        for installed in [
            &[bound("storage")][..],
            &[bound("storage"), bound("volume-warden")],
            &[bound("volume-warden"), bound("yard\u{1b}")],
        ] {
            let elsewhere = refused(list(installed)).await;
            let elsewhere = elsewhere.expect_err("it is installed elsewhere");
            assert!(elsewhere.is::<clap::Error>(), "{elsewhere}");
            let text = elsewhere.to_string();
            assert!(text.contains(", and not only in volume-warden"), "{text}");
            assert!(!text.contains('\u{1b}'), "{text:?}");
        }
        for installed in [&[][..], &[bound("volume-warden")]] {
            let permitted = refused(list(installed)).await;
            assert!(permitted.is_ok(), "{permitted:?}");
        }
        let unread = refused(failure(403, "Forbidden")).await;
        let unread = unread.expect_err("it is unknown where it is installed");
        assert!(!unread.is::<clap::Error>(), "{unread}");
    }
}
