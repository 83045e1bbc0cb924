//! `volume-warden why` in clusters where something that a claim depends on is missing, and in one
//! where the built-in StatefulSet controller and Volume Warden both manage the same claims.

use crate::{
    support::{
        BINARY, Space, installed, manifests, repository,
        sets::{DELETE_RETAIN, set},
        shared::Shared,
        webhooks_answer,
    },
    why::{
        objects::{bound, class, classless},
        support::{Case, READER, Reader},
    },
};
use anyhow::{Result, ensure};
use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Node};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use rcgen::{CertificateParams, KeyPair};
use serde_json::json;
use time::{Duration, OffsetDateTime};
use volume_warden::why::Code;
use volume_warden_controlplane::{Cluster, Component, Warden, eventually};

/// The command that `why` recommends if Volume Warden does not run.
const GET_PODS: &str = "kubectl get pods -n volume-warden -l app.kubernetes.io/name=volume-warden";

/// A cluster in which components and objects are stopped, broken or deleted one after the other.
struct AbsenceFixture {
    space: Space,
    reader: Reader,
}

impl AbsenceFixture {
    async fn new() -> Result<Self> {
        let cluster = Shared::new(installed("why-silent", "manifests").await?.into());
        Ok(Self {
            reader: Reader::new(&cluster, "why-reader", READER).await?,
            space: Space::new(cluster, "silent").await?,
        })
    }

    async fn explains(&self, name: &str, claim: &str, code: Code, command: &str) -> Result<()> {
        let case = Case::new(&["pvc", claim, "-n", &self.space.name], command);
        self.reader.finds(name, code, &case).await
    }

    /// The claim `held` is deleted after the Volume Warden that added its finalizer has stopped.
    async fn no_warden(&self) -> Result<()> {
        let cluster = &self.space.cluster;
        let warden = Warden::builder(cluster, BINARY).serving().start().await?;
        webhooks_answer(&cluster.client()).await?;
        self.space.create_claim("held").await?;
        self.space.claim_is_protected("held").await?;
        drop(warden);
        self.space.delete_claim("held").await?;
        self.explains(
            "no controller removes the protection",
            "held",
            Code::OwnerNotRunning,
            GET_PODS,
        )
        .await
    }

    async fn no_endpoints(&self) -> Result<()> {
        self.scale(0).await?;
        bound(&self.space, "unprotected", json!({})).await?;
        self.explains(
            "no replica is ready",
            "unprotected",
            Code::WebhookDown,
            GET_PODS,
        )
        .await
    }

    async fn expired_certificate(&self) -> Result<()> {
        self.scale(2).await?;
        let mut parameters = CertificateParams::new(vec![])?;
        let now = OffsetDateTime::now_utc();
        parameters.not_before = now - Duration::days(2);
        parameters.not_after = now - Duration::days(1);
        let expired = parameters.self_signed(&KeyPair::generate()?)?.pem();
        let bundle = k8s_openapi::ByteString(expired.into_bytes());
        let patch =
            json!([{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle}]);
        let configuration = "volume-warden-pvc-protection";
        let patch = patch.to_string();
        let patch = [
            "patch",
            "mutatingwebhookconfiguration",
            configuration,
            "--type=json",
            "-p",
            &patch,
        ];
        self.space.cluster.kubectl(&patch).await?;
        let command = "kubectl get events -n volume-warden";
        self.explains(
            "the certificate has expired",
            "unprotected",
            Code::CertificateWrong,
            command,
        )
        .await
    }

    async fn scale(&self, replicas: i32) -> Result<()> {
        let replicas = format!("--replicas={replicas}");
        let scale = [
            "scale",
            "deployment",
            "volume-warden",
            "-n",
            "volume-warden",
            &replicas,
        ];
        self.space.cluster.kubectl(&scale).await.map(drop)
    }

    async fn no_default_class(&self) -> Result<()> {
        self.space
            .cluster
            .kubectl(&["delete", "storageclass", "standard"])
            .await?;
        class(&self.space, "fast", json!({})).await?;
        classless(&self.space, "classless", None).await?;
        let command = "kubectl get storageclass";
        self.explains("no class", "classless", Code::NoClass, command)
            .await
    }

    async fn no_node(&self) -> Result<()> {
        let claim = json!({"metadata": {"finalizers": ["kubernetes.io/pvc-protection"]}});
        self.space.create_claim("lost").await?;
        self.space.patch_claim("lost", claim).await?;
        self.space.create_running_pod("user", "lost").await?;
        self.space.cluster.kill(Component::Kwok)?;
        let nodes: Api<Node> = Api::all(self.space.cluster.client());
        let ready = json!({"status": {"conditions": [{
            "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "silent",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]}});
        nodes
            .patch_status("node-1", &PatchParams::default(), &Patch::Strategic(ready))
            .await?;
        self.space.delete_claim("lost").await?;
        let command = "kubectl describe node node-1";
        self.explains("the node is lost", "lost", Code::NodeLost, command)
            .await
    }

    /// The claim has an owner that does not exist, as after a restore from a backup.
    /// kube-controller-manager is paused, so its garbage collector does not delete the claim.
    async fn no_owner(&self) -> Result<()> {
        let protected = json!({"metadata": {"finalizers": ["kubernetes.io/pvc-protection"]}});
        bound(&self.space, "data-web-0", json!({})).await?;
        self.space.cluster.pause(Component::ControllerManager)?;
        self.space.patch_claim("data-web-0", protected).await?;
        let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "no-more"});
        let owned = json!({"metadata": {"ownerReferences": [owner]}});
        self.space.patch_claim("data-web-0", owned).await?;
        let command = format!("kubectl patch pvc data-web-0 -n {}", self.space.name);
        self.explains("the owner is gone", "data-web-0", Code::DeadOwner, &command)
            .await
    }
}

/// The causes are created in an order in which no earlier one hides a later one.
#[tokio::test]
async fn why_reports_missing_components_and_objects() -> Result<()> {
    let fixture = AbsenceFixture::new().await?;
    fixture.no_warden().await?;
    fixture.no_endpoints().await?;
    fixture.expired_certificate().await?;
    fixture.no_default_class().await?;
    fixture.no_node().await?;
    fixture.no_owner().await
}

/// Both the built-in StatefulSet controller and Volume Warden write owner references of claims.
#[tokio::test]
async fn why_reports_that_the_built_in_controller_is_enabled() -> Result<()> {
    let cluster = Cluster::in_tree().name("why-both").start().await?;
    let cluster = Shared::new(cluster.into());
    manifests::apply(&cluster, &repository().join("manifests")).await?;
    let reader = Reader::new(&cluster, "why-reader", READER).await?;
    let space = Space::new(cluster.clone(), "both").await?;
    bound(&space, "data-web-0", json!({})).await?;
    let sets: Api<StatefulSet> = Api::namespaced(cluster.client(), &space.name);
    sets.create(
        &PostParams::default(),
        &set("web", 1, DELETE_RETAIN, json!({}))?,
    )
    .await?;
    eventually("the built-in controller adds an owner", async || {
        let claim = space.claims.get("data-web-0").await?;
        ensure!(claim.metadata.owner_references.is_some());
        anyhow::Ok(())
    })
    .await?;
    let _warden = Warden::builder(&cluster, BINARY).start().await?;
    let case = Case::new(
        &["pvc", "data-web-0", "-n", &space.name],
        "kubectl get pvc data-web-0",
    );
    reader
        .finds("both controllers are enabled", Code::BothActive, &case)
        .await
}
