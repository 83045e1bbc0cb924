//! A component that is installed alone, in its own namespace and with its own service account.

use crate::support::{
    BINARY,
    deployment::arguments,
    granted::{granted, permissions, used},
    kustomization::Kustomization,
    manifests, rbac,
    shared::{Shared, Slot},
};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{
    core::v1::Secret,
    rbac::v1::{ClusterRole, PolicyRule},
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::json;
use std::collections::BTreeSet;
use volume_warden_controlplane::{
    Calls, Cluster, Interposer, Mark, Rule, RuleHandle, Warden, WardenBuilder, eventually,
};

const ACCOUNT: &str = "volume-warden";

/// The cluster of most scenarios about permissions.
pub async fn cluster() -> Result<Shared> {
    static PERMISSIONS: Slot = Slot::new();
    let start = async || Cluster::without_in_tree().name("permissions").start().await;
    PERMISSIONS.get(start).await
}

/// The cluster of pvc-protection and pv-protection. The objects that they protect are not deleted
/// until they remove the finalizers, so objects of other scenarios would never be deleted once
/// these components have stopped.
pub async fn protected() -> Result<Shared> {
    static PROTECTED: Slot = Slot::new();
    let start = async || Cluster::without_in_tree().name("protected").start().await;
    PROTECTED.get(start).await
}

/// A cluster in which, as on OpenShift, only a user who may update the finalizers of an owner may
/// set `blockOwnerDeletion` in a reference to it.
pub async fn enforcing() -> Result<Shared> {
    static ENFORCING: Slot = Slot::new();
    let plugin = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement";
    let start = async || {
        Cluster::without_in_tree()
            .name("enforcing")
            .apiserver_arg(plugin)
            .start()
            .await
    };
    ENFORCING.get(start).await
}

/// A component that is installed alone.
pub struct Installation {
    pub cluster: Shared,
    pub namespace: String,
    /// The arguments of `run`, as in the installed Deployment.
    pub arguments: Vec<String>,
    interposer: Interposer,
    /// The end of the audit log before the installation. The log also contains the calls of
    /// other tests.
    begin: Mark,
}

impl Installation {
    /// Installs these components of `manifests/components`.
    pub async fn new(components: &[&str]) -> Result<Self> {
        Self::on(cluster().await?, components).await
    }

    /// Installs these components on this cluster.
    pub async fn on(cluster: Shared, components: &[&str]) -> Result<Self> {
        let begin = cluster.audit().mark()?;
        let name = components.iter().find(|name| **name != "self-signed");
        let namespace = format!("permissions-{}", name.context("a component")?);
        let policies = ["restrict-service-account"];
        // The policies come first, because pvc-expiry changes one of them.
        let components = [&policies, components].concat();
        let kustomization = Kustomization::of(&components, &namespace)?;
        manifests::apply(&cluster, kustomization.path()).await?;
        let installation = Self {
            arguments: arguments(&cluster, &namespace).await?,
            interposer: Interposer::for_service_account(&cluster, &namespace, ACCOUNT).await?,
            cluster,
            namespace,
            begin,
        };
        installation.wait_for_rights().await?;
        Ok(installation)
    }

    /// Waits until the API server applies the granted permissions. It applies roles and bindings
    /// with a delay, and refuses requests until then.
    async fn wait_for_rights(&self) -> Result<()> {
        let (client, granted) = (self.cluster.client(), self.granted().await?);
        eventually(
            "the API server applies the granted permissions",
            async || {
                for permission in &granted {
                    let is_allowed = self.is_allowed(&client, permission).await?;
                    ensure!(is_allowed, "not allowed yet: {permission}");
                }
                Ok(())
            },
        )
        .await
    }

    /// Whether the API server allows the service account to use this permission.
    async fn is_allowed(&self, client: &Client, permission: &str) -> Result<bool> {
        let account = rbac::service_account(&self.namespace, ACCOUNT);
        rbac::is_allowed(client, &account, &self.namespace, permission).await
    }

    /// A Volume Warden with the permissions of the installation. Each has the same identity in the
    /// Lease, so no start has to wait until the Lease expires.
    pub fn builder(&self) -> WardenBuilder<'_> {
        let builder = Warden::builder(&self.cluster, BINARY)
            .name(self.namespace.clone())
            .namespace(self.namespace.clone())
            .kubeconfig(self.interposer.kubeconfig())
            .arg("--leader-elect-identity=permissions");
        let arguments = self.arguments.iter();
        arguments.fold(builder, |builder, argument| builder.arg(argument))
    }

    /// Damages the Secret of the certificate as a crash can leave it, and starts and stops a Volume
    /// Warden, which repairs the Secret.
    pub async fn repair_certificate(&self) -> Result<()> {
        let secrets: Api<Secret> = Api::namespaced(self.cluster.client(), &self.namespace);
        let damaged = json!({"stringData": {"tls.crt": "broken", "tls.key": "broken"}});
        let (parameters, damaged) = (PatchParams::default(), Patch::Merge(damaged));
        secrets
            .patch("volume-warden-tls", &parameters, &damaged)
            .await?;
        self.builder().start().await?.stop().await.map(drop)
    }

    /// Refuses the next two writes of this object. Volume Warden creates an Event about the first
    /// failure, and patches the Event after the second.
    pub fn refuse_twice(&self, object: &str) -> RuleHandle {
        let write = Rule::on("PATCH").path_contains(format!("/{object}"));
        let refusal = write
            .respond(403, "Forbidden", "refused by the test")
            .times(2);
        self.interposer.add(refusal)
    }

    /// Removes the rule for this subresource from the ClusterRole of the component, and waits until
    /// the API server no longer allows what the rule permits.
    pub async fn loses(&self, resource: &str, component: &str) -> Result<()> {
        let (name, client) = (
            format!("{}-volume-warden-{component}", self.namespace),
            self.cluster.client(),
        );
        let roles: Api<ClusterRole> = Api::all(client.clone());
        let rules = roles.get(&name).await?.rules.context("rules")?;
        let is_of_resource = |rule: &PolicyRule| {
            let mut resources = rule.resources.iter().flatten();
            resources.any(|each| each == resource)
        };
        let (lost, rest): (Vec<_>, Vec<_>) = rules.into_iter().partition(is_of_resource);
        ensure!(!lost.is_empty(), "{name} has no rule for {resource}");
        let (parameters, rest) = (PatchParams::default(), Patch::Merge(json!({"rules": rest})));
        roles.patch(&name, &parameters, &rest).await?;
        eventually(&format!("{resource} is forbidden"), async || {
            for permission in lost.iter().flat_map(permissions) {
                let is_allowed = self.is_allowed(&client, &permission).await?;
                ensure!(!is_allowed, "still allowed: {permission}");
            }
            Ok(())
        })
        .await
    }

    fn user(&self) -> String {
        format!("system:serviceaccount:{}:{ACCOUNT}", self.namespace)
    }

    /// Stops Volume Warden. Fails unless it used every permission that was granted, and no request
    /// was forbidden.
    pub async fn used_all(&self, warden: Warden) -> Result<()> {
        let granted = self.granted().await?;
        ensure!(granted.len() >= 10, "{granted:?}");
        let rest = async |with_watches: bool| {
            let used = self.used()?;
            let mut rest: BTreeSet<_> = granted.difference(&used).cloned().collect();
            rest.retain(|permission| with_watches || !permission.starts_with("watch "));
            ensure!(rest.is_empty(), "not used: {rest:?}");
            Ok(())
        };
        eventually("all permissions but those to watch are used", async || {
            rest(false).await
        })
        .await?;
        warden.stop().await?;
        // The audit log contains a watch only once the watch has ended.
        eventually("the permissions to watch are used", async || {
            rest(true).await
        })
        .await?;
        let calls = self.calls()?;
        let refused: Vec<_> = calls.iter().filter(|call| call.code == 403).collect();
        ensure!(refused.is_empty(), "permissions are missing: {refused:?}");
        Ok(())
    }

    fn used(&self) -> Result<BTreeSet<String>> {
        Ok(used(&self.calls()?))
    }

    /// The calls of the service account.
    fn calls(&self) -> Result<Calls> {
        let calls = self.cluster.audit().since(self.begin)?;
        Ok(calls.by_user(&self.user()))
    }

    async fn granted(&self) -> Result<BTreeSet<String>> {
        granted(&self.cluster, &self.namespace, ACCOUNT).await
    }
}
