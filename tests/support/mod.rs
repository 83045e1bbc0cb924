//! The clusters that the scenarios share, and a namespace for each scenario.

#![allow(dead_code, reason = "scenarios and operations each use a part of it")]

pub mod deployment;
pub mod granted;
pub mod kustomization;
pub mod outsiders;
pub mod patience;
pub mod sets;
pub mod shared;
pub mod turns;

pub use self::shared::Running;
use self::{
    kustomization::{Kustomization, NAMESPACE},
    shared::{Shared, Slot},
};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{
    Event, Namespace, PersistentVolume, PersistentVolumeClaim, Pod, ServiceAccount,
};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::{
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
};
use tokio::{
    process::Command,
    sync::{Mutex, MutexGuard},
};
use volume_warden_controlplane::{Cluster, Warden, eventually};

/// The binary under test.
pub const BINARY: &str = env!("CARGO_BIN_EXE_volume-warden");

/// A cluster with the manifests applied and no Volume Warden running: a scenario starts its own,
/// for its own namespace.
pub async fn bare() -> Result<Shared> {
    static BARE: Slot = Slot::new();
    BARE.get(async || installed("bare", "manifests").await)
        .await
}

/// A cluster with the manifests applied and one Volume Warden that handles all namespaces. Its
/// webhooks have answered.
pub async fn guarded() -> Result<Shared> {
    static GUARDED: Slot = Slot::new();
    let start = async || {
        let cluster = installed("guarded", "manifests").await?;
        patience::wait_for_webhooks(&cluster, None).await?;
        let warden = Warden::builder(&cluster, BINARY).serving().start().await?;
        webhooks_answer(&cluster.client()).await?;
        anyhow::Ok(Running::with(cluster, warden))
    };
    GUARDED.get(start).await
}

/// A cluster with the manifests applied for one scenario at a time: its Volume Warden handles the
/// volumes, claims or namespaces of all.
pub async fn quiet() -> Result<(Shared, MutexGuard<'static, ()>)> {
    static QUIET: Slot = Slot::new();
    static ALONE: Mutex<()> = Mutex::const_new(());
    let cluster = QUIET.get(async || installed("quiet", "manifests").await);
    Ok((cluster.await?, ALONE.lock().await))
}

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

/// A cluster with these kustomize components of the self-signed overlay, and a Volume Warden with
/// these arguments that handles all namespaces. Its webhooks have answered.
pub async fn guarded_by(name: &str, components: &[&str], arguments: &[&str]) -> Result<Running> {
    let kustomization = Kustomization::of(components, NAMESPACE)?;
    let cluster = installed_from(name, kustomization.path()).await?;
    patience::wait_for_webhooks(&cluster, None).await?;
    let warden = Warden::builder(&cluster, BINARY);
    let arguments = arguments.iter();
    let warden = arguments.fold(warden, |warden, argument| warden.arg(*argument));
    let warden = warden.serving().start().await?;
    webhooks_answer(&cluster.client()).await?;
    Ok(Running::with(cluster, warden))
}

/// Whether the long form of a test was requested, by `VOLUME_WARDEN_SOAK=1`.
pub fn is_soak() -> bool {
    std::env::var_os("VOLUME_WARDEN_SOAK").is_some_and(|value| value == "1")
}

/// An unchanged Kubernetes cluster, for comparison.
pub async fn in_tree() -> Result<Shared> {
    static IN_TREE: Slot = Slot::new();
    IN_TREE.get(async || Cluster::in_tree().start().await).await
}

/// A cluster with the built-in controllers disabled, and a kustomization of this repository
/// applied.
pub async fn installed(name: &str, kustomization: &str) -> Result<Cluster> {
    installed_from(name, &repository().join(kustomization)).await
}

/// A cluster as of [`installed`], with any kustomization.
pub async fn installed_from(name: &str, kustomization: &Path) -> Result<Cluster> {
    let cluster = Cluster::without_in_tree().name(name).start().await?;
    cluster.apply_kustomization(kustomization).await?;
    Ok(cluster)
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
    let apply = ["apply", "-f", "-"];
    cluster
        .kubectl_with_stdin(&apply, &definition.to_string())
        .await?;
    let wait = ["wait", "--for=condition=Established", "--timeout=120s"];
    let crd = format!("crd/{name}");
    cluster.kubectl(&[&wait[..], &[&crd]].concat()).await?;
    Ok(())
}

/// The root of this repository.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Parameters of a create request that is not stored.
pub fn dry_run() -> PostParams {
    PostParams {
        dry_run: true,
        ..PostParams::default()
    }
}

/// Waits until the API server knows the webhooks and their CA.
pub async fn webhooks_answer(client: &Client) -> Result<()> {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), "default");
    eventually("the claim webhook answers", async || {
        let created = claims
            .create(&dry_run(), &claim("probe", json!({}))?)
            .await?;
        anyhow::Ok(created.metadata.finalizers.is_some())
    })
    .await
}

/// A claim of a class that no volume has, so that no volume of another scenario is bound to it,
/// with `changes` merged over it.
pub fn claim(name: &str, changes: Value) -> Result<PersistentVolumeClaim> {
    merged(
        json!({
            "metadata": {"name": name},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "absent", "resources": {"requests": {"storage": "1Gi"}}},
        }),
        changes,
    )
}

/// A pod with one claim, with `changes` merged over it.
pub fn pod(name: &str, claim: &str, changes: Value) -> Result<Pod> {
    merged(
        json!({
            "metadata": {"name": name},
            "spec": {
                "containers": [{"name": "main", "image": "main"}],
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
            },
        }),
        changes,
    )
}

/// A volume in a directory, without a class, with the reclaim policy Retain, with `changes` merged
/// over it.
pub fn volume(name: &str, changes: Value) -> Result<PersistentVolume> {
    merged(
        json!({
            "metadata": {"name": name},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "persistentVolumeReclaimPolicy": "Retain",
                "hostPath": {"path": format!("/tmp/{name}")},
            },
        }),
        changes,
    )
}

fn merged<K: serde::de::DeserializeOwned>(mut object: Value, changes: Value) -> Result<K> {
    json_patch::merge(&mut object, &changes);
    Ok(serde_json::from_value(object)?)
}

/// Changes that put a pod on a node, so that it needs no scheduler.
pub fn on_node() -> Value {
    json!({"spec": {"nodeName": "node-1"}})
}

/// Creates a namespace, and waits for its service account: no pod can be created before.
pub async fn create_namespace(client: &Client, name: &str) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
    namespaces
        .create(&PostParams::default(), &namespace)
        .await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), name);
    eventually("the namespace has a service account", async || {
        accounts.get("default").await.map(drop)
    })
    .await
}

/// A namespace for one test.
pub struct Space {
    pub cluster: Shared,
    pub name: String,
    pub claims: Api<PersistentVolumeClaim>,
    pub pods: Api<Pod>,
    pub volumes: Api<PersistentVolume>,
    pub events: Api<Event>,
}

impl Space {
    /// A new namespace whose name begins with `label`.
    pub async fn new(cluster: Shared, label: &str) -> Result<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("{label}-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let client = cluster.client();
        create_namespace(&client, &name).await?;
        Ok(Self {
            cluster,
            claims: Api::namespaced(client.clone(), &name),
            pods: Api::namespaced(client.clone(), &name),
            volumes: Api::all(client.clone()),
            events: Api::namespaced(client, &name),
            name,
        })
    }

    pub async fn create_claim(&self, name: &str) -> Result<()> {
        self.claims
            .create(&PostParams::default(), &claim(name, json!({}))?)
            .await?;
        Ok(())
    }

    pub async fn create_pod(&self, name: &str, claim: &str, changes: Value) -> Result<Pod> {
        Ok(self
            .pods
            .create(&PostParams::default(), &pod(name, claim, changes)?)
            .await?)
    }

    /// Creates a pod on a node, and returns the API server's response unchanged.
    pub async fn create_pod_on_node(&self, name: &str, claim: &str) -> Result<kube::Result<Pod>> {
        Ok(self
            .pods
            .create(&PostParams::default(), &pod(name, claim, on_node())?)
            .await)
    }

    /// Binds the pod to a node, as a scheduler does, by a POST to `path`.
    pub async fn bind(
        &self,
        path: &str,
        pod: &str,
        parameters: &PostParams,
    ) -> kube::Result<Value> {
        let url = format!("/api/v1/namespaces/{}/{path}", self.name);
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"},
        });
        let create = if parameters.dry_run {
            format!("{url}?dryRun=All")
        } else {
            url
        };
        let request = http::Request::post(create).header("content-type", "application/json");
        let request = request
            .body(binding.to_string().into_bytes())
            .map_err(kube::Error::HttpError)?;
        self.cluster.client().request(request).await
    }

    /// Creates a pod that uses the claim, and waits until it runs.
    pub async fn create_running_pod(&self, name: &str, claim: &str) -> Result<()> {
        self.create_pod(name, claim, on_node()).await?;
        eventually("the pod runs", async || {
            let pod = self.pods.get(name).await?;
            anyhow::Ok(
                pod.status
                    .and_then(|status| status.phase)
                    .is_some_and(|phase| phase == "Running"),
            )
        })
        .await
    }

    pub async fn delete_claim(&self, name: &str) -> Result<()> {
        self.claims.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Deletes the pod with no grace period, so no kubelet has to confirm.
    pub async fn delete_pod(&self, name: &str) -> Result<()> {
        self.pods
            .delete(name, &DeleteParams::default().grace_period(0))
            .await?;
        Ok(())
    }

    pub async fn patch_claim(&self, name: &str, patch: Value) -> Result<()> {
        self.claims
            .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await?;
        Ok(())
    }

    pub async fn patch_pod_status(&self, name: &str, status: Value) -> Result<()> {
        self.pods
            .patch_status(
                name,
                &PatchParams::default(),
                &Patch::Strategic(json!({"status": status})),
            )
            .await?;
        Ok(())
    }

    /// The claim's finalizers.
    pub async fn finalizers(&self, claim: &str) -> Result<Vec<String>> {
        Ok(self
            .claims
            .get(claim)
            .await?
            .metadata
            .finalizers
            .unwrap_or_default())
    }

    pub async fn claim_is_protected(&self, name: &str) -> Result<()> {
        eventually(&format!("claim {name} has its finalizer"), async || {
            let finalizers = self.finalizers(name).await?;
            ensure!(
                finalizers
                    .iter()
                    .any(|each| each == "kubernetes.io/pvc-protection"),
                "{finalizers:?}"
            );
            Ok(())
        })
        .await
    }

    pub async fn pod_is_gone(&self, name: &str) -> Result<()> {
        eventually(&format!("pod {name} is gone"), async || {
            anyhow::Ok(self.pods.get_opt(name).await?.is_none())
        })
        .await
    }

    /// Deletes the namespace, and waits until it is gone.
    pub async fn delete_namespace(&self) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.cluster.client());
        namespaces
            .delete(&self.name, &DeleteParams::default())
            .await?;
        eventually("the namespace is gone", async || {
            ensure!(namespaces.get_opt(&self.name).await?.is_none());
            anyhow::Ok(())
        })
        .await
    }

    pub async fn claim_is_gone(&self, name: &str) -> Result<()> {
        eventually(&format!("claim {name} is gone"), async || {
            let found = self.claims.get_opt(name).await?;
            ensure!(found.is_none(), "{:?}", found.map(|claim| claim.metadata));
            Ok(())
        })
        .await
    }

    /// Checks that the claim is Terminating and still exists after Volume Warden has processed all
    /// earlier events: a claim that was created and deleted afterwards is gone.
    pub async fn claim_is_held(&self, name: &str) -> Result<()> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let canary = format!("canary-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        self.create_claim(&canary).await?;
        self.claim_is_protected(&canary).await?;
        self.delete_claim(&canary).await?;
        self.claim_is_gone(&canary).await?;
        let claim = self
            .claims
            .get_opt(name)
            .await?
            .with_context(|| format!("claim {name} should be held and is gone"))?;
        ensure!(
            claim.metadata.deletion_timestamp.is_some(),
            "claim {name} is not being deleted"
        );
        Ok(())
    }

    /// The Events with this reason.
    pub async fn events_with(&self, reason: &str) -> Result<Vec<Event>> {
        let fields = format!("reason={reason}");
        Ok(self
            .events
            .list(&ListParams::default().fields(&fields))
            .await?
            .items)
    }
}

/// Whether the request was refused with these words. Any other failure is an error.
pub fn is_refused<K>(result: kube::Result<K>, words: &str) -> Result<bool> {
    match result {
        Ok(_) => Ok(false),
        Err(kube::Error::Api(status)) if status.message.contains(words) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// The API server's counts of calls of webhooks with this part in their names that failed open.
pub async fn failed_open(cluster: &Cluster, webhook: &str) -> Result<String> {
    let request = http::Request::get("/metrics").body(vec![])?;
    let metrics = cluster.client().request_text(request).await?;
    let counts = |line: &&str| {
        line.starts_with("apiserver_admission_webhook_fail_open_count") && line.contains(webhook)
    };
    Ok(metrics.lines().filter(counts).collect())
}

/// The message of an API error.
pub fn refusal<K>(result: kube::Result<K>) -> Result<String> {
    match result {
        Err(kube::Error::Api(status)) => Ok(status.message),
        Err(error) => Err(error.into()),
        Ok(_) => anyhow::bail!("it was not refused"),
    }
}
