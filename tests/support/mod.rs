//! Shared by the tests on real control planes: clusters, a namespace for each scenario, objects.

#![allow(
    dead_code,
    unused_imports,
    reason = "scenarios and operations each use a part of it"
)]

pub mod clusters;
pub mod deployment;
pub mod granted;
pub mod kustomization;
pub mod manifests;
pub mod objects;
pub mod outsiders;
pub mod rbac;
pub mod sets;
pub mod shared;
pub mod space;
pub mod turns;
pub mod webhook_configurations;
pub mod webhook_timeouts;

pub use self::{
    clusters::{
        bare, guarded, in_tree, installed, installed_from, optional, quiet, webhooks_answer,
    },
    objects::{claim, dry_run, of_no_volume, on_node, pod, volume},
    shared::Running,
    space::{Space, create_namespace},
};
use anyhow::{Context, Result};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use std::path::Path;
use tokio::process::Command;
use volume_warden_controlplane::{Cluster, eventually};

/// The binary under test.
pub const BINARY: &str = env!("CARGO_BIN_EXE_volume-warden");

/// Runs a command of Volume Warden as the administrator of the cluster. Returns its exit code and
/// what it printed.
pub async fn run(cluster: &Cluster, arguments: &[&str]) -> Result<(Option<i32>, String)> {
    let output = Command::new(BINARY)
        .args(arguments)
        .arg("--kubeconfig")
        .arg(cluster.kubeconfig())
        .output()
        .await?;
    let printed = String::from_utf8(output.stdout)? + &String::from_utf8(output.stderr)?;
    Ok((output.status.code(), printed))
}

/// Whether the long form of a test was requested, by `VOLUME_WARDEN_SOAK=1`.
pub fn is_soak() -> bool {
    std::env::var_os("VOLUME_WARDEN_SOAK").is_some_and(|value| value == "1")
}

/// Defines a kind without a schema, named `<plural>.<group>`, version v1.
pub async fn define_kind(cluster: &Cluster, name: &str, kind: &str) -> Result<()> {
    let (plural, group) = name.split_once('.').context("a group")?;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    });
    let client = cluster.client();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let (parameters, definition) = (
        PatchParams::apply("kubectl").force(),
        Patch::Apply(&definition),
    );
    definitions.patch(name, &parameters, &definition).await?;
    eventually(&format!("{name} is served"), async || {
        let list = http::Request::get(format!("/apis/{group}/v1/{plural}")).body(vec![])?;
        client.request_text(list).await?;
        // kubectl reads this document, which is updated with a delay.
        let discovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let discovery = http::Request::get("/apis").header("accept", discovery);
        let known = client.request_text(discovery.body(vec![])?).await?;
        anyhow::Ok(known.contains(&format!("\"resource\":\"{plural}\"")))
    })
    .await
}

/// The root of this repository.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Whether the API server refused the request with a message that contains `words`. Any other
/// failure is an error.
pub fn is_refused<K>(result: kube::Result<K>, words: &str) -> Result<bool> {
    match result {
        Ok(_) => Ok(false),
        Err(kube::Error::Api(status)) if status.message.contains(words) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// The API server's counters of failed-open calls, of the webhooks whose names contain `webhook`.
pub async fn failed_open(cluster: &Cluster, webhook: &str) -> Result<String> {
    let request = http::Request::get("/metrics").body(vec![])?;
    let metrics = cluster.client().request_text(request).await?;
    let counts = |line: &&str| {
        line.starts_with("apiserver_admission_webhook_fail_open_count") && line.contains(webhook)
    };
    Ok(metrics.lines().filter(counts).collect())
}

/// The holder of the Lease with this name in the namespace `volume-warden`; empty if no replica
/// holds it.
pub async fn lease_holder(cluster: &Cluster, name: &str) -> Result<String> {
    let leases: Api<Lease> = Api::namespaced(cluster.client(), "volume-warden");
    let lease = leases.get_opt(name).await?;
    let holder = lease.and_then(|lease| lease.spec?.holder_identity);
    Ok(holder.unwrap_or_default())
}

/// The message of an API error.
pub fn refusal<K>(result: kube::Result<K>) -> Result<String> {
    match result {
        Err(kube::Error::Api(status)) => Ok(status.message),
        Err(error) => Err(error.into()),
        Ok(_) => anyhow::bail!("the request was not refused"),
    }
}
