//! Runs `volume-warden why`, and compares its answer with the injected fault.

use crate::support::{
    BINARY, Space, manifests, rbac, repository,
    shared::{Shared, Slot},
    webhooks_answer,
};
use anyhow::{Context, Result, ensure};
use futures::future::LocalBoxFuture;
use k8s_openapi::api::{core::v1::ServiceAccount, rbac::v1::ClusterRole};
use kube::{Api, api::PostParams};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::process::Command;
use volume_warden::why::Code;
use volume_warden_controlplane::{Cluster, Warden, eventually};

/// The ClusterRole `why-reader`. It permits everything that `why` reads, and nothing else.
pub const READER: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: why-reader}
rules:
  - apiGroups: [""]
    resources: [pods, persistentvolumeclaims, persistentvolumes, nodes, namespaces, resourcequotas, events, configmaps, secrets]
    verbs: [get, list]
  - apiGroups: [apps]
    resources: [statefulsets]
    verbs: [get, list]
  - apiGroups: [storage.k8s.io]
    resources: [storageclasses, volumeattachments, csinodes]
    verbs: [get, list]
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    verbs: [get, list]
  - apiGroups: [discovery.k8s.io]
    resources: [endpointslices]
    verbs: [get, list]
  - apiGroups: [admissionregistration.k8s.io]
    resources: [mutatingwebhookconfigurations]
    verbs: [get, list]
  - apiGroups: [rbac.authorization.k8s.io]
    resources: [clusterrolebindings]
    verbs: [list]
"#;

/// A service account as which `volume-warden why` runs.
pub struct Reader {
    kubeconfig: PathBuf,
}

/// The exit code and the output of `volume-warden why`.
pub struct WhyOutput {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Reader {
    /// Creates the service account `default/<name>` and binds it to the ClusterRole in `role`,
    /// which has the same name and must permit to get claims. Returns once the API server applies
    /// the role.
    pub async fn new(cluster: &Cluster, name: &str, role: &str) -> Result<Self> {
        let (client, post) = (cluster.client(), PostParams::default());
        let role: ClusterRole = serde_saphyr::from_str(role)?;
        Api::all(client.clone()).create(&post, &role).await?;
        let account: ServiceAccount = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        let accounts = Api::namespaced(client.clone(), "default");
        accounts.create(&post, &account).await?;
        let account = rbac::service_account("default", name);
        rbac::create_cluster_role_binding(&client, name, name, &account).await?;
        eventually("the API server applies the role", async || {
            rbac::is_allowed(&client, &account, "", "get persistentvolumeclaims").await
        })
        .await?;
        let kubeconfig = cluster
            .service_account_kubeconfig("default", name, None)
            .await?;
        Ok(Self { kubeconfig })
    }

    /// The kubeconfig of the service account.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Runs `volume-warden why` with these arguments.
    pub async fn why(&self, arguments: &[&str]) -> Result<WhyOutput> {
        let output = Command::new(BINARY)
            .arg("why")
            .args(arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            .output()
            .await?;
        Ok(WhyOutput {
            code: output
                .status
                .code()
                .context("`why` was killed by a signal")?,
            out: String::from_utf8(output.stdout)?,
            err: String::from_utf8(output.stderr)?,
        })
    }

    /// Runs `volume-warden why -o json` with these arguments, and returns its answer. Fails unless
    /// the exit code is 0.
    pub async fn answer(&self, arguments: &[&str]) -> Result<Value> {
        let output = self.why(&[arguments, &["-o", "json"]].concat()).await?;
        ensure!(
            output.code == 0,
            "code {}: {}{}",
            output.code,
            output.out,
            output.err
        );
        Ok(serde_json::from_str(&output.out)?)
    }
}

/// A cluster with a Volume Warden that runs all default components, and a client for `why`.
pub struct WhyFixture {
    pub cluster: Shared,
    pub reader: Reader,
    pub warden: Warden,
}

impl WhyFixture {
    /// Returns the fixture that all tests share, and starts it on first use.
    pub async fn get() -> Result<Arc<Self>> {
        static FIXTURE: Slot<WhyFixture> = Slot::new();
        let start = async || {
            // The garbage collector of pods would delete those on the nodes that do not exist.
            let cluster = Cluster::without_in_tree()
                .name("why")
                .without_controllers(&["pod-garbage-collector-controller"]);
            let cluster = cluster.start().await?;
            manifests::apply(&cluster, &repository().join("manifests")).await?;
            let cluster = Shared::new(cluster.into());
            let warden = Warden::builder(&cluster, BINARY).serving().start().await?;
            webhooks_answer(&cluster.client()).await?;
            let reader = Reader::new(&cluster, "why-reader", READER).await?;
            anyhow::Ok(Self {
                cluster,
                reader,
                warden,
            })
        };
        FIXTURE.get(start).await
    }
}

/// A fault that a test injects, and the root cause that `why` must report.
pub struct Fault {
    pub name: &'static str,
    pub root: Code,
    pub inject: Inject,
}

/// Completes when the fault is injected.
pub type Injection = LocalBoxFuture<'static, Result<Case>>;

/// Injects a fault in the namespace, and returns how it must be explained.
pub type Inject = fn(Arc<WhyFixture>, Space) -> Injection;

/// The arguments of `why` for a fault, and the beginning of the next command that it must print;
/// `None` if it must print no command.
pub struct Case {
    pub arguments: Vec<String>,
    pub command: Option<String>,
}

impl Case {
    /// The answer must have a next command that begins with `command`.
    pub fn new(arguments: &[&str], command: &str) -> Self {
        Self {
            command: Some(command.to_owned()),
            ..Self::without_command(arguments)
        }
    }

    /// The answer must have no next command.
    pub fn without_command(arguments: &[&str]) -> Self {
        Self {
            arguments: arguments
                .iter()
                .map(|&argument| argument.to_owned())
                .collect(),
            command: None,
        }
    }
}

impl Fault {
    /// Injects the fault in a new namespace, and waits until `why` explains it.
    pub async fn is_explained(&self, fixture: &Arc<WhyFixture>) -> Result<()> {
        let label = format!("why-{}", self.name.replace(' ', "-"));
        let space = Space::new(fixture.cluster.clone(), &label).await?;
        let case = (self.inject)(fixture.clone(), space)
            .await
            .context("injecting the fault")?;
        fixture.reader.finds(self.name, self.root, &case).await
    }
}

impl Reader {
    /// Waits until the root cause of the answer is `code` and its next command is that of the case.
    pub async fn finds(&self, name: &str, code: Code, case: &Case) -> Result<()> {
        let arguments: Vec<&str> = case.arguments.iter().map(String::as_str).collect();
        eventually(name, async || {
            let answer = self.answer(&arguments).await?;
            let chain = answer["chain"].as_array().context("no chain")?;
            let root = chain
                .last()
                .with_context(|| format!("the chain is empty: {answer:#}"))?;
            ensure!(root["code"] == code.to_string(), "{answer:#}");
            let next = root["next"]["command"].as_str();
            let matches = match (&case.command, next) {
                (Some(wanted), Some(next)) => next.starts_with(wanted),
                (None, None) => true,
                _ => false,
            };
            ensure!(
                matches,
                "expected the command {:?}: {answer:#}",
                case.command
            );
            // Nothing is left unread, so the limit of calls for one answer was sufficient.
            ensure!(answer["unread"] == json!([]), "{answer:#}");
            Ok(())
        })
        .await
    }
}
