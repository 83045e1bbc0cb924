//! Starts a cluster in an empty directory, up to running pods.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::binder::keep_first_events_only;
use crate::cluster::Cluster;
use crate::component::Component;
use crate::credentials::{CertificateFiles, Credentials};
use crate::directory::Directory;
use crate::eventually::eventually;
use crate::kubeconfig;
use crate::util::free_ports;

/// The ports of one cluster, all on 127.0.0.1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) etcd: u16,
    pub(crate) etcd_peer: u16,
    pub(crate) apiserver: u16,
    pub(crate) kwok: u16,
}

/// The files that the components read and write.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) ports: Ports,
    pub(crate) authority: PathBuf,
    pub(crate) serving: CertificateFiles,
    pub(crate) service_account: CertificateFiles,
    pub(crate) admin_kubeconfig: PathBuf,
    pub(crate) controller_manager_kubeconfig: PathBuf,
    pub(crate) scheduler_kubeconfig: PathBuf,
    pub(crate) egress_selector: PathBuf,
    pub(crate) proxy_socket: PathBuf,
    pub(crate) audit_policy: PathBuf,
    pub(crate) audit_log: PathBuf,
    pub(crate) etcd_data: PathBuf,
}

impl Files {
    /// Chooses ports, creates certificates and writes every file that a component reads.
    pub(crate) fn prepare(directory: &Directory) -> Result<Self> {
        let etcd_data = directory.data().context("a directory for etcd")?;
        let directory = directory.path();
        let [etcd, etcd_peer, apiserver, kwok] = free_ports().context("finding free ports")?;
        let ports = Ports {
            etcd,
            etcd_peer,
            apiserver,
            kwok,
        };
        let credentials = Credentials::create(&directory.join("certificates"))?;
        let files = Self {
            ports,
            authority: credentials.authority_file(),
            serving: credentials.serving()?,
            service_account: credentials.service_account_key()?,
            admin_kubeconfig: directory.join("admin.kubeconfig"),
            controller_manager_kubeconfig: directory.join("controller-manager.kubeconfig"),
            scheduler_kubeconfig: directory.join("scheduler.kubeconfig"),
            egress_selector: directory.join("egress-selector.json"),
            proxy_socket: directory.join("proxy.sock"),
            audit_policy: directory.join("audit-policy.json"),
            audit_log: directory.join("audit.log"),
            etcd_data,
        };
        files.write(&credentials)?;
        Ok(files)
    }

    /// The API server's address.
    pub(crate) fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.ports.apiserver)
    }

    fn write(&self, credentials: &Credentials) -> Result<()> {
        let users = [
            (&self.admin_kubeconfig, "admin", Some("system:masters")),
            (
                &self.controller_manager_kubeconfig,
                "system:kube-controller-manager",
                None,
            ),
            (&self.scheduler_kubeconfig, "system:kube-scheduler", None),
        ];
        let cluster = kubeconfig::cluster(&self.url(), &self.authority);
        for (path, user, group) in users {
            let certificate =
                credentials.client(user.trim_start_matches("system:"), user, group)?;
            kubeconfig::write(path, &cluster, &kubeconfig::certificate_user(&certificate))?;
        }
        fs::write(
            &self.egress_selector,
            egress_selector(&self.proxy_socket).to_string(),
        )?;
        fs::write(&self.audit_policy, audit_policy().to_string())?;
        // The file must exist when the API server first reads it.
        fs::write(&self.audit_log, "")?;
        Ok(())
    }
}

/// Sends traffic to Services, mainly webhook calls, through the CONNECT proxy.
fn egress_selector(socket: &Path) -> Value {
    let connection =
        json!({"proxyProtocol": "HTTPConnect", "transport": {"uds": {"udsName": socket}}});
    json!({
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [{"name": "cluster", "connection": connection}],
    })
}

fn audit_policy() -> Value {
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived", "ResponseStarted"],
        "rules": [
            // The entry contains the new volume, whose directory is removed with the cluster.
            {
                "level": "Request",
                "verbs": ["create"],
                "resources": [{"group": "", "resources": ["persistentvolumes"]}],
            },
            {"level": "Metadata"},
        ],
    })
}

/// Starts the components in order, and waits until pods can run.
pub(crate) async fn bring_up(cluster: &Cluster, nodes: usize) -> Result<()> {
    cluster.launch(Component::Etcd)?;
    // The API server exits if it does not reach etcd within 20 s, which a slow disk can take.
    cluster.unless_one_ends(cluster.etcd_ready()).await?;
    cluster.launch(Component::Apiserver)?;
    cluster.unless_one_ends(cluster.apiserver_ready()).await?;
    // These components exit if they find no API server.
    for component in cluster.controllers() {
        cluster.launch(component)?;
    }
    let client = cluster.client();
    if cluster.controllers().is_empty() {
        return create_storage_class(client).await;
    }
    let objects = async {
        // Benchmarks, which have no debug assertions, measure Kubernetes as it is.
        if cfg!(debug_assertions) {
            keep_first_events_only(client.clone()).await?;
        }
        create_storage_class(client.clone()).await?;
        futures::future::try_join_all((1..=nodes).map(|number| add_node(client.clone(), number)))
            .await
    };
    let ready = futures::future::try_join(objects, default_service_account(client.clone()));
    cluster
        .unless_one_ends(async { ready.await.map(drop) })
        .await
}

/// The default class, provisioned by kube-controller-manager's host-path provisioner.
async fn create_storage_class(client: kube::Client) -> Result<()> {
    let class: StorageClass = serde_json::from_value(json!({
        "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "kubernetes.io/host-path",
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    }))?;
    Api::all(client)
        .create(&PostParams::default(), &class)
        .await
        .context("creating the StorageClass")?;
    Ok(())
}

/// A namespace admits no pod before kube-controller-manager has created its default ServiceAccount.
async fn default_service_account(client: kube::Client) -> Result<()> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client, "default");
    eventually("the namespace default has its ServiceAccount", async || {
        accounts.get("default").await.map(drop)
    })
    .await
}

/// Creates a node and waits until KWOK has made it Ready.
async fn add_node(client: kube::Client, number: usize) -> Result<()> {
    let name = format!("node-{number}");
    let nodes: Api<Node> = Api::all(client);
    let resources = json!({"cpu": "1k", "memory": "1Ti", "pods": "10000"});
    let node: Node = serde_json::from_value(json!({
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "type": "kwok"},
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "status": {"allocatable": resources, "capacity": resources},
    }))?;
    nodes
        .create(&PostParams::default(), &node)
        .await
        .with_context(|| format!("creating {name}"))?;
    eventually(&format!("{name} is Ready and without taints"), async || {
        untainted_and_ready(&nodes, &name).await
    })
    .await
}

async fn untainted_and_ready(nodes: &Api<Node>, name: &str) -> Result<()> {
    let node = nodes.get(name).await?;
    let conditions = node
        .status
        .unwrap_or_default()
        .conditions
        .unwrap_or_default();
    let ready = conditions
        .iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True");
    ensure!(ready, "{conditions:?}");
    let taints = node.spec.unwrap_or_default().taints.unwrap_or_default();
    if !taints.is_empty() {
        // The node lifecycle controller would remove the taint, but it may be disabled.
        let none = json!({"spec": {"taints": null}});
        nodes
            .patch(name, &PatchParams::default(), &Patch::Merge(none))
            .await?;
    }
    ensure!(taints.is_empty(), "{taints:?}");
    Ok(())
}
