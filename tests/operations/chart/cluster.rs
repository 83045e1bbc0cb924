//! The chart on a real API server, in a namespace that enforces the Pod Security Standard
//! `restricted`.

use super::{ValuesFile, chart, template_with};
use crate::{
    authentication::published::configurations_are_written_again,
    fresh,
    install::{applying_again_changes_nothing, as_deployed, replicas_are_available},
    support::{BINARY, define_kind, kustomization::NAMESPACE, repository, webhooks_answer},
};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::Path, process::Command};
use volume_warden_controlplane::{Cluster, Helm, Warden, eventually};

const PRIVILEGED: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: privileged}
spec: {containers: [{name: main, image: main, securityContext: {privileged: true}}]}
";

type Objects = BTreeMap<String, Value>;

/// Helm for one release on a cluster.
pub(super) struct Release<'a> {
    cluster: &'a Cluster,
    helm: Helm,
    values: ValuesFile,
}

impl<'a> Release<'a> {
    pub(super) async fn new(cluster: &'a Cluster, values: &Value) -> Result<Self> {
        Ok(Self {
            cluster,
            helm: Helm::locate().await?,
            values: ValuesFile::new(values)?,
        })
    }

    pub(super) async fn run(&self, arguments: &[&str]) -> Result<String> {
        let kubeconfig = self.cluster.kubeconfig().to_string_lossy();
        let options = ["--namespace", NAMESPACE, "--kubeconfig", &kubeconfig];
        self.helm.run(&[arguments, &options].concat()).await
    }

    /// Runs `helm install` or `helm upgrade`.
    pub(super) async fn deploy(&self, verb: &str, options: &[&str]) -> Result<()> {
        let (chart, values) = (chart().display().to_string(), self.values.path());
        let arguments = [verb, "volume-warden", &chart, "--values", &values];
        self.run(&[&arguments, options].concat()).await.map(drop)
    }

    async fn manifest(&self) -> Result<String> {
        self.run(&["get", "manifest", "volume-warden"]).await
    }
}

/// The objects that these arguments of `kubectl get` select, as the API server stores them, by kind
/// and name. Fields that other writers set are removed, so a write that changes nothing else does
/// not change the result.
async fn stored(cluster: &Cluster, selection: &[&str], stdin: &str) -> Result<Objects> {
    let get = ["get", "--ignore-not-found", "-o", "json"];
    let text = cluster
        .kubectl_with_stdin(&[&get, selection].concat(), stdin)
        .await?;
    if text.is_empty() {
        return Ok(Objects::new());
    }
    let list: Value = serde_json::from_str(&text)?;
    let items = list["items"].as_array().context("a list")?;
    let objects = items.iter().cloned().map(|mut object| {
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        if let Some(metadata) = object["metadata"].as_object_mut() {
            // A change of a Deployment's annotations also increments its generation.
            metadata.remove("generation");
            metadata.remove("managedFields");
            metadata.remove("resourceVersion");
        }
        (
            format!("{} {}", object["kind"], object["metadata"]["name"]),
            object,
        )
    });
    Ok(objects.collect())
}

/// The objects of this manifest as the API server stores them.
async fn objects_of(cluster: &Cluster, manifest: &str) -> Result<Objects> {
    stored(cluster, &["-f", "-"], manifest).await
}

/// Waits until the Secret of the webhook path records that the path is published. No later write
/// changes this Secret, which is part of the release.
async fn publication_is_recorded(cluster: &Cluster) -> Result<()> {
    let secrets: Api<Secret> = Api::namespaced(cluster.client(), NAMESPACE);
    eventually(
        "the Secret records the publication of the path",
        async || {
            let data = secrets.get("volume-warden-serving").await?.data;
            let published = data.and_then(|mut data| data.remove("published"));
            let published = published.context("no record")?.0;
            ensure!(published == b"true", "{}", published.escape_ascii());
            Ok(())
        },
    )
    .await
}

/// Checks that the API server admits the pod of `helm test`, and that the pod's command succeeds
/// with the address of `warden` instead of the Service's.
async fn helm_test_succeeds(cluster: &Cluster, warden: &Warden) -> Result<()> {
    let rendered = template_with(&json!({}), NAMESPACE, &[]).await?;
    let objects: Vec<Value> = serde_saphyr::from_multiple(&rendered)?;
    let mut objects = objects.iter();
    let pod = objects.find(|object| object["kind"] == "Pod");
    let pod = pod.context("no pod")?;
    let create = ["create", "--dry-run=server", "-f", "-"];
    cluster
        .kubectl_with_stdin(&create, &pod.to_string())
        .await?;

    let arguments = &pod["spec"]["containers"][0]["args"];
    let arguments: Vec<String> = serde_json::from_value(arguments.clone())?;
    let service = "$(VOLUME_WARDEN_SERVICE_HOST):8080";
    let process = format!("127.0.0.1:{}", warden.metrics_port());
    let arguments: Vec<_> = arguments
        .iter()
        .map(|argument| argument.replace(service, &process))
        .collect();
    ensure!(
        arguments.concat().contains(&process),
        "{arguments:?} do not name the Service"
    );
    eventually("the command of `helm test` succeeds", async || {
        let output = Command::new(BINARY).args(&arguments).output()?;
        ensure!(output.status.success(), "{output:?}");
        Ok(())
    })
    .await
}

/// Installs the chart as a user does. The pods are admitted and the webhooks answer, an upgrade to
/// the same version changes nothing, and `helm uninstall` deletes all objects of the release.
#[tokio::test]
async fn the_chart_installs_upgrades_and_uninstalls() -> Result<()> {
    let cluster = fresh::cluster().await?;
    let enforced = "pod-security.kubernetes.io/enforce=restricted";
    cluster.kubectl(&["create", "namespace", NAMESPACE]).await?;
    cluster
        .kubectl(&["label", "namespace", NAMESPACE, enforced])
        .await?;
    eventually("Pod Security is enforced", async || {
        let create = ["create", "--dry-run=server", "-n", NAMESPACE, "-f", "-"];
        let refused = cluster.kubectl_with_stdin(&create, PRIVILEGED).await;
        let refusal = format!("{:?}", refused.err());
        ensure!(refusal.contains("violates PodSecurity"), "{refusal}");
        Ok(())
    })
    .await?;

    let release = Release::new(&cluster, &json!({})).await?;
    release.deploy("install", &[]).await?;
    replicas_are_available(&cluster).await?;
    let warden = as_deployed(&cluster, NAMESPACE).await?;
    webhooks_answer(&cluster.client()).await?;

    publication_is_recorded(&cluster).await?;
    configurations_are_written_again(&cluster).await?;
    helm_test_succeeds(&cluster, &warden).await?;
    let before = objects_of(&cluster, &release.manifest().await?).await?;
    let text = json!(before).to_string();
    ensure!(
        text.contains("caBundle") && text.contains("/pvc-protection/claims"),
        "the webhook configurations have no caBundle or no path"
    );
    release.deploy("upgrade", &[]).await?;
    let manifest = release.manifest().await?;
    assert_eq!(objects_of(&cluster, &manifest).await?, before);
    webhooks_answer(&cluster.client()).await?;
    warden.stop().await?;

    ensure!(
        before.len() > 30 && manifest.matches("kind: Secret").count() == 2,
        "{manifest}"
    );
    release.run(&["uninstall", "volume-warden"]).await?;
    let remaining = objects_of(&cluster, &manifest).await?;
    // The pods are not in the manifest: they are deleted in the background.
    ensure!(remaining.is_empty(), "{:?}", remaining.keys());
    Ok(())
}

/// Removes the metadata that marks an object as part of a release.
fn without_helm_metadata(mut objects: Objects) -> Objects {
    for metadata in objects.values_mut().map(|object| &mut object["metadata"]) {
        for (map, key) in [
            ("labels", "app.kubernetes.io/instance"),
            ("labels", "app.kubernetes.io/managed-by"),
            ("labels", "helm.sh/chart"),
            ("annotations", "meta.helm.sh/release-name"),
            ("annotations", "meta.helm.sh/release-namespace"),
        ] {
            if let Some(map) = metadata[map].as_object_mut() {
                map.remove(key);
            }
        }
    }
    objects
}

/// Checks that applying an overlay twice changes nothing, and that the objects keep their content
/// when Helm takes ownership of them.
async fn helm_takes_over(cluster: &Cluster, overlay: &Path, values: &Value) -> Result<()> {
    cluster.apply_kustomization(overlay).await?;
    replicas_are_available(cluster).await?;
    applying_again_changes_nothing(cluster, overlay).await?;

    let overlay = overlay.to_string_lossy();
    let before = stored(cluster, &["-k", &overlay], "").await?;
    let release = Release::new(cluster, values).await?;
    release.deploy("install", &["--take-ownership"]).await?;
    let after = without_helm_metadata(stored(cluster, &["-k", &overlay], "").await?);
    ensure!(before.len() > 30, "{:?}", before.keys());
    for (name, object) in before {
        assert_eq!(after[&name], object, "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn helm_takes_over_from_the_self_signed_overlay() -> Result<()> {
    let cluster = fresh::cluster().await?;
    let overlay = repository().join("manifests/overlays/self-signed");
    helm_takes_over(&cluster, &overlay, &json!({})).await
}

#[tokio::test]
async fn helm_takes_over_from_the_cert_manager_overlay() -> Result<()> {
    let cluster = fresh::cluster().await?;
    for (name, kind) in [
        ("issuers.cert-manager.io", "Issuer"),
        ("certificates.cert-manager.io", "Certificate"),
    ] {
        define_kind(&cluster, name, kind).await?;
    }
    let overlay = repository().join("manifests/overlays/cert-manager");
    helm_takes_over(&cluster, &overlay, &json!({"tls": {"mode": "certManager"}})).await
}
