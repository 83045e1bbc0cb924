//! The metrics and the log of a real Volume Warden on a real control plane.

use crate::{FAIL_OPEN, Served, not_served, prometheus, promql::QueryParts, shipped};
use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};
use std::path::Path;
use tempfile::TempDir;
use volume_warden_controlplane::{Cluster, Prometheus, Warden, eventually};

/// All components that have metrics, including pvc-expiry, which does not run by default.
const COMPONENTS: &str = "pvc-protection,pv-protection,pvc-retention,pvc-provisioner,pv-releaser,\
pvc-trash,pvc-expiry,namespace-gc";

/// A Volume Warden in a state that sets every metric: a deleted claim that a pod uses, a deleted
/// claim that no pod uses, a refused pod, and a namespace that is not empty in the storage backend.
struct MonitoringFixture {
    cluster: Cluster,
    warden: Warden,
    claims: Api<PersistentVolumeClaim>,
    pods: Api<Pod>,
    _storage: TempDir,
}

impl MonitoringFixture {
    async fn new() -> Result<Self> {
        let cluster = Cluster::without_in_tree()
            .name("monitoring")
            .start()
            .await?;
        let manifests = Path::new(shipped::ROOT).join("manifests");
        cluster.apply_kustomization(manifests).await?;
        // The settings of the kustomize component for this backend.
        let storage = tempfile::tempdir()?;
        std::fs::write(storage.path().join(".volume-warden-root"), "")?;
        std::fs::create_dir_all(storage.path().join("gone/volume"))?;
        let warden = Warden::builder(&cluster, env!("CARGO_BIN_EXE_volume-warden"))
            .arg("--log-format=json")
            .arg(format!("--components={COMPONENTS}"))
            .arg("--storage-backend=directory")
            .arg(format!("--directory-root={}", storage.path().display()))
            .arg("--gc-scope=all")
            .arg("--gc-grace=0s")
            .arg("--gc-confirm-after=0s")
            .arg("--namespace-delete-gc-delay=0s");
        let warden = warden.serving().start().await?;
        let client = cluster.client();
        let fixture = Self {
            claims: Api::namespaced(client.clone(), "default"),
            pods: Api::namespaced(client, "default"),
            cluster,
            warden,
            _storage: storage,
        };
        fixture.create_state().await?;
        Ok(fixture)
    }

    /// Creates the objects, and waits until the metrics show their state.
    async fn create_state(&self) -> Result<()> {
        eventually("the webhooks answer", async || {
            let dry_run = PostParams {
                dry_run: true,
                ..PostParams::default()
            };
            let probe = self.claims.create(&dry_run, &claim("probe")?).await?;
            anyhow::Ok(probe.metadata.finalizers.is_some())
        })
        .await?;
        let post = PostParams::default();
        for name in ["held", "free"] {
            self.claims.create(&post, &claim(name)?).await?;
            eventually("the claim has its finalizer", async || {
                let claim = self.claims.get(name).await?;
                anyhow::Ok(claim.metadata.finalizers.is_some())
            })
            .await?;
        }
        self.pods.create(&post, &pod("user", "held")?).await?;
        self.wait_for_metric(r#"volume_warden_watch_synced{resource="pods"} 1"#)
            .await?;
        for name in ["held", "free"] {
            self.claims.delete(name, &DeleteParams::default()).await?;
        }
        self.wait_for_metric(r#"volume_warden_claims_held{reason="InUse"} 1"#)
            .await?;
        eventually("the unused claim is deleted", async || {
            anyhow::Ok(self.claims.get_opt("free").await?.is_none())
        })
        .await?;
        eventually("a second pod is refused", async || {
            match self.pods.create(&post, &pod("late", "held")?).await {
                Err(kube::Error::Api(status)) if status.code == 403 => Ok(()),
                // The guard webhook is best effort: it may not be published yet.
                _ => {
                    let now = DeleteParams::default().grace_period(0);
                    self.pods.delete("late", &now).await?;
                    bail!("the pod was created")
                }
            }
        })
        .await?;
        self.wait_for_metric(r#"volume_warden_namespaces_waiting{reason="NotEmpty"} 1"#)
            .await?;
        eventually("a collection has completed", async || {
            let text = self.warden.metrics().await?;
            let counted = |line: &str| {
                line.starts_with("volume_warden_gc_runs_total{") && !line.ends_with(" 0")
            };
            ensure!(text.lines().any(counted), "{text}");
            Ok(())
        })
        .await
    }

    /// Waits until the metrics contain this line.
    async fn wait_for_metric(&self, line: &str) -> Result<()> {
        eventually(line, async || {
            let text = self.warden.metrics().await?;
            ensure!(text.lines().any(|each| each == line), "{text}");
            Ok(())
        })
        .await
    }

    /// The lines of the log with this message.
    fn log(&self, message: &str) -> Result<Vec<Value>> {
        let log = self.warden.process().log();
        // The last line may be incomplete.
        let (log, _) = log.rsplit_once('\n').unwrap_or_default();
        let lines = log.lines().map(|line| {
            serde_json::from_str::<Value>(line).with_context(|| format!("not JSON: {line}"))
        });
        let lines: Vec<Value> = lines.collect::<Result<_>>()?;
        let matching = lines.into_iter().filter(|line| line["message"] == message);
        Ok(matching.collect())
    }
}

fn claim(name: &str) -> Result<PersistentVolumeClaim> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "absent", "resources": {"requests": {"storage": "1Gi"}}},
    }))?)
}

fn pod(name: &str, claim: &str) -> Result<Pod> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "nodeName": "node-1",
            "containers": [{"name": "main", "image": "main"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
        },
    }))?)
}

/// The labels of each metric in the text.
fn served(text: &str) -> Served {
    let mut served = Served::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let end = line.find(['{', ' ']).unwrap_or(line.len());
        let labels = served.entry(line[..end].to_owned()).or_default();
        if let Some((inside, _)) = line[end..]
            .strip_prefix('{')
            .and_then(|rest| rest.split_once('}'))
        {
            let names = inside
                .split("\",")
                .filter_map(|label| label.split_once('='));
            labels.extend(names.map(|(name, _)| name.to_owned()));
        }
    }
    served
}

/// Whether the log line has these fields.
fn has_fields(line: &Value, wanted: &Value) -> bool {
    let mut wanted = wanted.as_object().into_iter().flatten();
    wanted.all(|(key, value)| line[key] == *value)
}

/// The log line of a refusal names the object and the uid of the review, by which it can be found.
fn check_logged_reviews(fixture: &MonitoringFixture) -> Result<()> {
    let lines = fixture.log("review")?;
    let refused = json!({"kind": "pods", "object": "default/late", "operation": "CREATE", "verdict": "Denied", "level": "INFO",
        "path": "/pvc-protection/pods", "subresource": "", "user": "admin", "dry_run": false});
    let line = lines.iter().find(|line| has_fields(line, &refused));
    let line = line.with_context(|| format!("no {refused} in {lines:#?}"))?;
    let why = line["why"].as_str().unwrap_or_default();
    ensure!(why.contains("is being deleted"), "{line}");
    let uid = line["uid"].as_str().unwrap_or_default();
    ensure!(uid.len() == 36 && line["took"].as_f64().is_some(), "{line}");
    let patched = json!({"kind": "persistentvolumeclaims", "object": "default/probe", "verdict": "Patched", "level": "DEBUG"});
    ensure!(
        lines.iter().any(|line| has_fields(line, &patched)),
        "no {patched}"
    );
    Ok(())
}

fn check_logged_actions(fixture: &MonitoringFixture) -> Result<()> {
    let lines = fixture.log("action")?;
    for wanted in [
        json!({"component": "pvc-protection", "kind": "persistentvolumeclaims", "object": "default/free",
            "action": "RemoveFinalizer", "reason": "NotInUse", "outcome": "Done", "level": "INFO"}),
        json!({"component": "namespace-gc", "kind": "namespaces", "object": "gone",
            "action": "DeleteFromBackend", "reason": "Orphan", "outcome": "NotEmpty", "level": "INFO"}),
    ] {
        let found = lines.iter().any(|line| has_fields(line, &wanted));
        ensure!(found, "no {wanted} in {lines:#?}");
    }
    Ok(())
}

async fn check_kustomization(cluster: &Cluster) -> Result<()> {
    let path = Path::new(shipped::ROOT).join("manifests/monitoring");
    let rendered = cluster
        .kubectl(&["kustomize", &path.to_string_lossy()])
        .await?;
    let objects: Vec<Value> = serde_saphyr::from_multiple(&rendered)?;
    let kinds = objects.iter().filter_map(|object| object["kind"].as_str());
    ensure!(
        kinds.eq(["ConfigMap", "PrometheusRule", "ServiceMonitor"]),
        "{rendered}"
    );
    let data = objects[0]["data"]["volume-warden.json"].as_str();
    let shown: Value = serde_json::from_str(data.context("no dashboard")?)?;
    ensure!(shown == shipped::dashboard());
    ensure!(objects[0]["metadata"]["labels"]["grafana_dashboard"] == "1");
    Ok(())
}

/// Stops Volume Warden, creates a claim, so that the API server fails open, and returns the metrics
/// of the API server.
async fn metrics_after_fail_open(fixture: MonitoringFixture) -> Result<String> {
    let MonitoringFixture {
        cluster,
        warden,
        claims,
        ..
    } = fixture;
    warden.stop().await?;
    claims
        .create(&PostParams::default(), &claim("missed")?)
        .await?;
    let client: Client = cluster.client();
    let request = http::Request::get("/metrics").body(vec![])?;
    let text = client.request_text(request).await?;
    cluster.stop().await;
    Ok(text)
}

#[tokio::test]
async fn every_query_uses_served_metrics_and_labels() -> Result<()> {
    let fixture = MonitoringFixture::new().await?;
    check_kustomization(&fixture.cluster).await?;
    eventually("the reviews are logged", async || {
        check_logged_reviews(&fixture)
    })
    .await?;
    eventually("the actions are logged", async || {
        check_logged_actions(&fixture)
    })
    .await?;
    let mut served = served(&fixture.warden.metrics().await?);
    let of_apiserver = self::served(&metrics_after_fail_open(fixture).await?);
    let fail_open = of_apiserver.get(FAIL_OPEN);
    let labels = fail_open.context("the API server has not failed open")?;
    served.insert(FAIL_OPEN.to_owned(), labels.clone());
    for query in shipped::queries() {
        let missing = not_served(&QueryParts::of(&query), &served);
        ensure!(
            missing.is_empty(),
            "{query}\nuses {missing:?}, which is not among {served:#?}"
        );
    }
    Ok(())
}

#[tokio::test]
#[ignore = "builds Prometheus: cargo test --test monitoring -- --ignored"]
async fn prometheus_evaluates_each_query() -> Result<()> {
    let fixture = MonitoringFixture::new().await?;
    let prometheus = Prometheus::locate().await?;
    // This Prometheus does not scrape the API server, and no volume has a holder.
    let without_data = [
        FAIL_OPEN,
        "volume_warden_volumes_held_oldest_timestamp_seconds",
    ];
    let port = fixture.warden.metrics_port();
    prometheus::evaluate_queries(&prometheus, port, &without_data).await
}
