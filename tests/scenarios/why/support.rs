//! Asking, and what the answer has to be.

use crate::support::{
    BINARY, Space, installed,
    shared::{Shared, Slot},
    webhooks_answer,
};
use anyhow::{Context, Result, ensure};
use futures::future::LocalBoxFuture;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::process::Command;
use volume_warden::why::Code;
use volume_warden_controlplane::{Cluster, Warden, eventually};

/// All that `why` reads, and nothing else.
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

/// A client who may read.
pub struct Reader {
    kubeconfig: PathBuf,
}

/// What `volume-warden why` wrote, and the code it ended with.
pub struct Reported {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Reader {
    /// With the rights of that ClusterRole, which has to let it get claims.
    pub async fn new(cluster: &Cluster, name: &str, role: &str) -> Result<Self> {
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), role)?;
        let path = file.path().to_string_lossy();
        cluster.kubectl(&["apply", "-f", &path]).await?;
        let user = format!("system:serviceaccount:default:{name}");
        let account = format!("default:{name}");
        cluster
            .kubectl(&["create", "serviceaccount", name, "-n", "default"])
            .await?;
        let (role, account) = (
            format!("--clusterrole={name}"),
            format!("--serviceaccount={account}"),
        );
        cluster
            .kubectl(&["create", "clusterrolebinding", name, &role, &account])
            .await?;
        let ask = ["auth", "can-i", "get", "pvc", "--as", &user];
        eventually("the API server decides by its role", async || {
            // kubectl fails where the answer is no.
            cluster.kubectl(&ask).await.map(drop)
        })
        .await?;
        let kubeconfig = cluster
            .service_account_kubeconfig("default", name, None)
            .await?;
        Ok(Self { kubeconfig })
    }

    /// Who asks.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Asks with these arguments.
    pub async fn why(&self, arguments: &[&str]) -> Result<Reported> {
        let output = Command::new(BINARY)
            .arg("why")
            .args(arguments)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .output()
            .await?;
        Ok(Reported {
            code: output.status.code().context("it was killed")?,
            out: String::from_utf8(output.stdout)?,
            err: String::from_utf8(output.stderr)?,
        })
    }

    /// The answer as JSON.
    pub async fn answer(&self, arguments: &[&str]) -> Result<Value> {
        let reported = self.why(&[arguments, &["-o", "json"]].concat()).await?;
        ensure!(
            reported.code == 0,
            "code {}: {}{}",
            reported.code,
            reported.out,
            reported.err
        );
        Ok(serde_json::from_str(&reported.out)?)
    }
}

/// A cluster with all components at work, and a client who asks.
pub struct Stage {
    pub cluster: Shared,
    pub reader: Reader,
    pub warden: Warden,
}

impl Stage {
    /// The one that all tests share.
    pub async fn get() -> Result<Arc<Self>> {
        static STAGE: Slot<Stage> = Slot::new();
        let start = async || {
            let cluster = Shared::new(installed("why", "manifests").await?.into());
            let warden = Warden::builder(&cluster, BINARY).serving().start().await?;
            webhooks_answer(&cluster.client()).await?;
            let reader = Reader::new(&cluster, "why-reader", READER).await?;
            anyhow::Ok(Self {
                cluster,
                reader,
                warden,
            })
        };
        STAGE.get(start).await
    }
}

/// A fault that is made on purpose, and what has to be said of it.
pub struct Fault {
    pub name: &'static str,
    pub root: Code,
    pub seed: Seed,
}

/// The fault, once its status says so.
pub type Seeded = LocalBoxFuture<'static, Result<Case>>;

/// Makes the fault in a namespace of its own.
pub type Seed = fn(Arc<Stage>, Space) -> Seeded;

/// What to ask, and what the next command begins with; nothing where nothing is to be done.
pub struct Case {
    pub arguments: Vec<String>,
    pub command: Option<String>,
}

impl Case {
    /// The next step is a command that begins like this.
    pub fn new(arguments: &[&str], command: &str) -> Self {
        Self {
            command: Some(command.to_owned()),
            ..Self::without_command(arguments)
        }
    }

    /// Nothing is to be done.
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
    /// Creates it, and waits until its status says so.
    pub async fn is_explained(&self, stage: &Arc<Stage>) -> Result<()> {
        let label = format!("why-{}", self.name.replace(' ', "-"));
        let space = Space::new(stage.cluster.clone(), &label).await?;
        let case = (self.seed)(stage.clone(), space).await.context("seeding")?;
        stage.reader.finds(self.name, self.root, &case).await
    }
}

impl Reader {
    /// Waits until the root is that, and the next command as it has to be.
    pub async fn finds(&self, name: &str, code: Code, case: &Case) -> Result<()> {
        let arguments: Vec<&str> = case.arguments.iter().map(String::as_str).collect();
        eventually(name, async || {
            let answer = self.answer(&arguments).await?;
            let chain = answer["chain"].as_array().context("no chain")?;
            let root = chain
                .last()
                .with_context(|| format!("there is no cause: {answer:#}"))?;
            ensure!(root["code"] == code.to_string(), "{answer:#}");
            let next = root["next"]["command"].as_str();
            let right = match (&case.command, next) {
                (Some(wanted), Some(next)) => next.starts_with(wanted),
                (None, None) => true,
                _ => false,
            };
            ensure!(right, "wanted {:?}: {answer:#}", case.command);
            // So that the calls that one answer may take were enough.
            ensure!(answer["unread"] == serde_json::json!([]), "{answer:#}");
            Ok(())
        })
        .await
    }
}
