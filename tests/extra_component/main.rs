//! A new component needs only a folder and a line: `greeter` is not part of Volume Warden, and has
//! flags, a webhook, a reconciler, metrics and a share of the Lease.
//!
//! This binary has two uses: with a command, it is Volume Warden with one more component; without a
//! command, it tests that program.

mod greeter;
#[path = "../support/mod.rs"]
mod support;

use anyhow::{Context, Result, ensure};
use http::Request;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::PersistentVolumeClaim};
use kube::{Api, api::PostParams, client::Body};
use serde_json::json;
use std::{
    env,
    process::{Command, ExitCode},
};
use support::{claim, manifests, repository};
use volume_warden::{cli, component::ComponentRef, components};
use volume_warden_controlplane::{Cluster, Warden, eventually};

const ACCOUNT: &str = "system:serviceaccount:volume-warden:volume-warden";
const FINALIZER: &str = "example.com/hi";
const MANIFESTS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/extra_component/manifests.yaml"
);

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // `cargo test run` passes `run` as a filter, which must not start Volume Warden.
    if matches!(arguments[..], ["run", "--help" | "--kubeconfig", ..]) {
        let line: [ComponentRef; 1] = [&greeter::Greeter];
        return cli::main([components::ALL, &line].concat().leak());
    }
    // Filters by the names in `cargo test NAME`, as libtest does.
    let mut names = arguments
        .iter()
        .filter(|argument| !argument.starts_with('-'));
    let excluded = names.any(|name| !"extra_component".contains(name));
    if excluded || arguments.contains(&"--list") {
        return ExitCode::SUCCESS;
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("test extra_component ... FAILED: {error:?}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn run() -> Result<()> {
    is_in_help()?;
    println!("test the_flags_are_in_help ... ok");
    works().await?;
    println!("test webhook_reconciler_lease_and_metrics_work ... ok");
    Ok(())
}

fn is_in_help() -> Result<()> {
    let help = Command::new(env::current_exe()?)
        .args(["run", "--help"])
        .output()?;
    let help = String::from_utf8(help.stdout)?;
    for part in [
        "greeter:",
        "--greeting <FINALIZER>",
        "VOLUME_WARDEN_GREETING",
        "namespace-gc, greeter",
    ] {
        let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
        ensure!(words.contains(part), "{part}: {help}");
    }
    Ok(())
}

async fn works() -> Result<()> {
    let cluster = Cluster::api_server().name("extra").start().await?;
    manifests::apply(&cluster, &repository().join("manifests")).await?;
    let client = cluster.client();
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), "default");
    let create = async |name: &str| {
        let claim = claim(name, json!({}))?;
        anyhow::Ok(claims.create(&PostParams::default(), &claim).await?)
    };
    // The roles of the other components are removed: greeter has its own role, and those of the
    // base and of the TLS setup. The role of pvc-expiry is not installed.
    for component in components::ALL {
        let binding = format!("volume-warden-{component}");
        cluster
            .kubectl(&[
                "delete",
                "clusterrolebinding",
                &binding,
                "--ignore-not-found",
            ])
            .await?;
    }
    // This policy permits only the writes of the shipped components, and greeter is not one of
    // them.
    let policy = [
        "validatingadmissionpolicybinding",
        "volume-warden-restrict-claims",
    ];
    cluster.kubectl(&["delete", policy[0], policy[1]]).await?;
    create("before").await?;
    cluster.kubectl(&["apply", "-f", MANIFESTS]).await?;
    let greeting = json!({"metadata": {"finalizers": [FINALIZER]}}).to_string();
    eventually("the policy is no longer applied", async || {
        let path = "/api/v1/namespaces/default/persistentvolumeclaims/before?dryRun=All";
        let greet = Request::patch(path)
            .header("impersonate-user", ACCOUNT)
            .header("content-type", "application/merge-patch+json")
            .body(Body::from(greeting.clone().into_bytes()))?;
        let answer = client.send(greet).await?;
        ensure!(answer.status().is_success(), "{}", answer.status());
        Ok(())
    })
    .await?;
    let warden = Warden::builder(&cluster, env::current_exe()?)
        .arg("--components=greeter")
        .arg(format!("--greeting={FINALIZER}"))
        .serving()
        .start()
        .await?;

    eventually(
        "the reconciler greets the claim that was there",
        async || {
            let finalizers = claims.get("before").await?.metadata.finalizers;
            ensure!(
                finalizers
                    .unwrap_or_default()
                    .contains(&FINALIZER.to_owned())
            );
            let metrics = warden.metrics().await?;
            ensure!(
                metrics.contains("volume_warden_greeter_greetings_total 1"),
                "{metrics}"
            );
            let action = r#"volume_warden_actions_total{component="greeter",action="Greet""#;
            ensure!(metrics.contains(action), "{metrics}");
            anyhow::Ok(())
        },
    )
    .await?;

    let leases: Api<Lease> = Api::namespaced(client.clone(), "volume-warden");
    let labels = leases.get("volume-warden").await?.metadata.labels;
    let labels = labels.context("labels")?;
    ensure!(
        labels.contains_key("volume-warden.dev/greeter"),
        "{labels:?}"
    );

    let mut number = 0;
    eventually("the webhook greets a new claim", async || {
        number += 1;
        let created = create(&format!("new-{number}")).await?;
        let finalizers = created.metadata.finalizers.unwrap_or_default();
        ensure!(finalizers.contains(&FINALIZER.to_owned()), "{finalizers:?}");
        anyhow::Ok(())
    })
    .await?;
    drop(warden);
    cluster.stop().await;
    Ok(())
}
