//! The examples do what the README says about them.

use super::executed;
use crate::support::{
    BINARY, create_namespace, installed, manifests, repository, run,
    webhook_timeouts::raise_webhook_timeouts, webhooks_answer,
};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::{Api, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{fmt::Debug, fs, path::PathBuf};
use tokio::process::Command;
use volume_warden_controlplane::{Cluster, Component, Kubernetes, Warden, eventually};

/// A claim, and a pod that uses it on a node.
const STUCK: &str = r#"
{"apiVersion": "v1", "kind": "List", "items": [
    {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n7"}},
    {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "absent",
            "resources": {"requests": {"storage": "1Gi"}}
        }
    },
    {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "import"},
        "spec": {
            "nodeName": "n7", "containers": [{"name": "main", "image": "main"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
        }
    }
]}
"#;
const CLAIM: &str = r#"
{
    "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "photos"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
}
"#;
const NODE_STATUS_UNKNOWN: &str = r#"
{"status": {"conditions": [{
    "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
    "lastTransitionTime": "2026-01-01T00:00:00Z"
}]}}
"#;

#[tokio::test]
async fn the_examples_do_what_the_readme_says() -> Result<()> {
    let cluster = installed("examples", "manifests").await?;
    // The examples show the answers of webhooks, which are slow on a busy machine.
    raise_webhook_timeouts(&cluster, None).await?;
    let warden = Warden::builder(&cluster, BINARY).serving().start().await?;
    webhooks_answer(&cluster.client()).await?;
    the_examples_work(&cluster).await?;
    the_pages_of_components_show_examples_or_parts_of_claims(&cluster).await?;
    executed::run_kubectl_and_volume_warden(&cluster, &warden).await?;
    why_prints_the_transcript_of_the_readme(&cluster).await?;
    drop(warden);
    cluster.stop().await;
    Ok(())
}

/// An API server of 1.34 that emulates 1.31 has the APIs, fields and feature gates of 1.31.
#[tokio::test]
async fn the_examples_work_where_the_api_server_emulates_1_31() -> Result<()> {
    let cluster = Cluster::without_in_tree()
        .name("emulated")
        .kubernetes(Kubernetes::V1_34)
        .apiserver_arg("--emulated-version=1.31")
        .start()
        .await?;
    let version = cluster.kubectl(&["get", "--raw", "/version"]).await?;
    let version: Value = serde_json::from_str(&version)?;
    ensure!(version["emulationMinor"] == "31", "{version}");
    manifests::apply(&cluster, &repository().join("manifests")).await?;
    raise_webhook_timeouts(&cluster, None).await?;
    let warden = Warden::builder(&cluster, BINARY).serving().start().await?;
    webhooks_answer(&cluster.client()).await?;
    the_examples_without_a_scheduler_work(&cluster).await?;
    drop(warden);
    cluster.stop().await;
    Ok(())
}

/// Checks all sentences of the README about components that act by default and within the time of a
/// test: not `namespace-gc`, which has no backend here, nor `pvc-expiry` and `trash-list`.
async fn the_examples_work(cluster: &Cluster) -> Result<()> {
    the_examples_without_a_scheduler_work(cluster).await?;
    the_deletion_of_a_used_claim_warns(cluster).await?;
    the_claims_of_removed_pods_are_deleted(cluster).await?;
    a_deleted_claim_is_restored(cluster).await
}

/// Checks the examples that need no scheduler. The scheduler of 1.34 waits for kinds that an API
/// server of 1.34 that emulates 1.31 does not serve.
async fn the_examples_without_a_scheduler_work(cluster: &Cluster) -> Result<()> {
    the_examples_are_accepted(cluster).await?;
    the_deletion_of_a_bound_volume_warns(cluster).await?;
    claims_exist_when_the_pod_is_created(cluster).await?;
    a_deleted_claim_leaves_its_volume_available(cluster).await
}

/// The API server accepts every object of every example, and stores none of them.
async fn the_examples_are_accepted(cluster: &Cluster) -> Result<()> {
    let directory = repository().join("examples");
    let mut objects = 0;
    for example in fs::read_dir(&directory)?.flatten() {
        let path = example.path().display().to_string();
        if path.ends_with(".yaml") {
            let text = fs::read_to_string(path)?;
            objects += serde_saphyr::from_multiple::<Value>(&text)?.len();
        }
    }
    let directory = directory.display().to_string();
    let apply = ["apply", "--dry-run=server", "-f", &directory];
    let accepted = cluster.kubectl(&apply).await?;
    let mut lines = accepted.lines();
    ensure!(
        lines.all(|line| line.ends_with(" (server dry run)")),
        "{accepted}"
    );
    assert_eq!(accepted.lines().count(), objects, "{accepted}");
    ensure!(objects > 0, "there is no example");
    Ok(())
}

fn example_path(component: &str) -> PathBuf {
    repository().join(format!("examples/{component}.yaml"))
}

async fn apply(cluster: &Cluster, component: &str) -> Result<()> {
    let path = example_path(component).display().to_string();
    cluster.kubectl(&["apply", "-f", &path]).await.map(drop)
}

async fn the_deletion_of_a_used_claim_warns(cluster: &Cluster) -> Result<()> {
    apply(cluster, "pvc-protection").await?;
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    eventually("the pod is on a node", async || {
        let pod = pods.get("editor").await?;
        let node = pod.spec.and_then(|spec| spec.node_name);
        ensure!(node.is_some(), "{:?}", pod.status);
        Ok(())
    })
    .await?;
    // The webhook answers from its cache, which may not have the pod yet.
    let delete = ["delete", "pvc", "documents", "--wait=false"];
    let dry_run = [&delete[..], &["--dry-run=server"]].concat();
    eventually("the deletion warns", async || {
        let warnings = cluster.kubectl_warnings(&dry_run).await?;
        ensure!(warnings.concat().contains("editor"), "{warnings:?}");
        Ok(())
    })
    .await?;
    let warnings = cluster.kubectl_warnings(&delete).await?;
    ensure!(warnings.concat().contains("editor"), "{warnings:?}");
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(cluster.client());
    claims.get("documents").await?;
    cluster.kubectl(&["delete", "pod", "editor"]).await?;
    is_deleted(&claims, "documents").await
}

async fn the_claims_of_removed_pods_are_deleted(cluster: &Cluster) -> Result<()> {
    apply(cluster, "pvc-retention").await?;
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(cluster.client());
    eventually("the set has its claims", async || {
        claims.get("data-cache-nodes-2").await.map(drop)
    })
    .await?;
    let scale = ["scale", "statefulset", "cache-nodes", "--replicas=1"];
    cluster.kubectl(&scale).await?;
    for removed in ["data-cache-nodes-2", "data-cache-nodes-1"] {
        is_deleted(&claims, removed).await?;
    }
    claims.get("data-cache-nodes-0").await?;
    Ok(())
}

/// Each YAML block on a page of a component includes an example that exists, or is accepted by the
/// API server when it is merged into a claim.
async fn the_pages_of_components_show_examples_or_parts_of_claims(cluster: &Cluster) -> Result<()> {
    let (mut included, mut applied) = (0, 0);
    for page in fs::read_dir(repository().join("docs/components"))?.flatten() {
        let text = fs::read_to_string(page.path())?;
        for block in text.split("```yaml\n").skip(1) {
            let block = block.split("```").next().unwrap_or_default().trim();
            if let Some(path) = block.strip_prefix("{{#include ../../examples/") {
                let path = repository()
                    .join("examples")
                    .join(path.trim_end_matches("}}"));
                ensure!(path.exists(), "{block}");
                included += 1;
                continue;
            }
            let mut claim: Value = serde_json::from_str(CLAIM)?;
            json_patch::merge(&mut claim, &serde_saphyr::from_str(block)?);
            let apply = ["apply", "--dry-run=server", "-f", "-"];
            match cluster.kubectl_with_stdin(&apply, &claim.to_string()).await {
                Ok(answer) => ensure!(answer.contains("(server dry run)"), "{block}: {answer}"),
                // The error shows that the annotation was understood: the trash is empty here.
                Err(error) => ensure!(
                    format!("{error:#}").contains("no deleted claim \"pvc/photos\""),
                    "{block}: {error:#}"
                ),
            }
            applied += 1;
        }
    }
    ensure!(included == 8 && applied == 2, "{included} and {applied}");
    Ok(())
}

async fn claims_exist_when_the_pod_is_created(cluster: &Cluster) -> Result<()> {
    apply(cluster, "pvc-provisioner").await?;
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(cluster.client());
    claims.get("cache-7f3a").await?;
    cluster.kubectl(&["delete", "pod", "build-7f3a"]).await?;
    is_deleted(&claims, "cache-7f3a").await
}

async fn has_phase(volumes: &Api<PersistentVolume>, name: &str, phase: &str) -> Result<()> {
    eventually(&format!("the volume has the phase {phase}"), async || {
        let status = volumes.get(name).await?.status;
        let found = status.and_then(|status| status.phase);
        ensure!(found.as_deref() == Some(phase), "{found:?}");
        Ok(())
    })
    .await
}

async fn the_deletion_of_a_bound_volume_warns(cluster: &Cluster) -> Result<()> {
    apply(cluster, "pv-protection").await?;
    let volumes: Api<PersistentVolume> = Api::all(cluster.client());
    has_phase(&volumes, "archive", "Bound").await?;
    let delete = ["delete", "pv", "archive", "--wait=false"];
    let warnings = cluster.kubectl_warnings(&delete).await?;
    // The volume has the same name, so only the namespace shows that the warning names the claim.
    let names_claim = warnings.concat().contains("the claim default/archive");
    ensure!(names_claim, "{warnings:?}");
    volumes.get("archive").await?;
    cluster.kubectl(&["delete", "pvc", "archive"]).await?;
    is_deleted(&volumes, "archive").await
}

async fn a_deleted_claim_leaves_its_volume_available(cluster: &Cluster) -> Result<()> {
    apply(cluster, "pv-releaser").await?;
    let volumes: Api<PersistentVolume> = Api::all(cluster.client());
    has_phase(&volumes, "cache-1", "Bound").await?;
    cluster.kubectl(&["delete", "pvc", "cache"]).await?;
    has_phase(&volumes, "cache-1", "Available").await
}

/// Restores a deleted claim in a namespace of its own, because the check of the pages of components
/// expects no claim `photos` in the trash of `default`.
async fn a_deleted_claim_is_restored(cluster: &Cluster) -> Result<()> {
    const NAMESPACE: &str = "album";
    let client = cluster.client();
    create_namespace(&client, NAMESPACE).await?;
    let example = fs::read_to_string(example_path("pvc-trash"))?;
    let (provisioner, test_provisioner) = ("ebs.csi.aws.com", "kubernetes.io/host-path");
    ensure!(example.contains(provisioner), "{example}");
    let apply = ["apply", "-n", NAMESPACE, "-f", "-"];
    let example = example.replace(provisioner, test_provisioner);
    cluster.kubectl_with_stdin(&apply, &example).await?;
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), NAMESPACE);
    let volumes: Api<PersistentVolume> = Api::all(client);
    let volume_of_claim = async || -> Result<String> {
        let spec = claims.get("photos").await?.spec;
        let volume = spec.and_then(|spec| spec.volume_name);
        volume.context("the claim is not bound")
    };
    let volume = eventually("the trash is enabled for the volume", async || {
        let name = volume_of_claim().await?;
        let volume = volumes.get(&name).await?;
        let annotations = volume.annotations();
        let enabled = annotations.contains_key("volume-warden.dev/trash");
        ensure!(enabled, "{annotations:?}");
        anyhow::Ok(Some(name))
    })
    .await?;
    let delete = ["delete", "pvc", "photos", "-n", NAMESPACE];
    cluster.kubectl(&delete).await?;
    eventually("the volume is in the trash", async || {
        let (_, printed) = run(cluster, &["trash", "-n", NAMESPACE]).await?;
        ensure!(printed.contains(&volume), "{printed}");
        Ok(())
    })
    .await?;
    let undelete = ["undelete", "pvc", "photos", "-n", NAMESPACE];
    let (code, printed) = run(cluster, &undelete).await?;
    ensure!(code == Some(0), "{printed}");
    let restored = volume_of_claim().await?;
    ensure!(restored == volume, "{restored} instead of {volume}");
    // Without this class, the example can be applied later with its own provisioner.
    let class = ["delete", "storageclass", "recoverable"];
    cluster.kubectl(&class).await.map(drop)
}

/// `volume-warden why` prints the transcript of the README, apart from the ages.
async fn why_prints_the_transcript_of_the_readme(cluster: &Cluster) -> Result<()> {
    let transcript = transcript("README.md")?;
    let page = self::transcript("docs/commands/why.md")?;
    ensure!(page == transcript, "{page}");
    let (command, expected) = transcript.split_once('\n').context("no answer")?;
    let arguments = command
        .strip_prefix("$ volume-warden ")
        .context(command.to_owned())?;

    eventually("the pod is created", async || {
        let apply = ["apply", "-n", "shop", "-f", "-"];
        cluster.kubectl_with_stdin(&apply, STUCK).await.map(drop)
    })
    .await?;
    let delete = ["delete", "pvc", "data", "-n", "shop", "--wait=false"];
    cluster.kubectl(&delete).await?;
    // KWOK would report the node as ready.
    cluster.kill(Component::Kwok)?;
    let status = [
        "--subresource=status",
        "--type=merge",
        "-p",
        NODE_STATUS_UNKNOWN,
    ];
    let patch = [&["patch", "node", "n7"], &status[..]].concat();
    cluster.kubectl(&patch).await?;
    eventually("why prints the transcript", async || {
        let output = Command::new(BINARY)
            .args(arguments.split_whitespace())
            .env("KUBECONFIG", cluster.kubeconfig())
            .output()
            .await?;
        let printed = String::from_utf8(output.stdout)?;
        ensure!(
            without_ages(&printed) == without_ages(expected),
            "{printed}"
        );
        Ok(())
    })
    .await
}

/// The first transcript of a page.
fn transcript(page: &str) -> Result<String> {
    let text = fs::read_to_string(repository().join(page))?;
    let block = text.split("```text\n").nth(1).context("no transcript")?;
    let lines = block.split("```").next().unwrap_or_default();
    Ok(lines.to_owned())
}

fn without_ages(text: &str) -> String {
    let lines = text
        .lines()
        .map(|line| line.split(" (for ").next().unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n")
}

async fn is_deleted<K>(objects: &Api<K>, name: &str) -> Result<()>
where
    K: Clone + Debug + DeserializeOwned,
{
    eventually("the object is deleted", async || {
        let found = objects.get_opt(name).await?;
        ensure!(found.is_none(), "{found:?}");
        Ok(())
    })
    .await
}
