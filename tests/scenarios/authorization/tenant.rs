//! A component that is installed alone, in a namespace of its own and under an account of its own.

use crate::support::{
    BINARY,
    deployment::arguments,
    granted::{granted, used},
    kustomization::Kustomization,
    manifests,
    shared::{Shared, Slot},
};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::{Api, api::PostParams};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use volume_warden_controlplane::{
    Cluster, Interposer, Rule, RuleHandle, Warden, WardenBuilder, eventually,
};

const ACCOUNT: &str = "volume-warden";
/// As left behind by a crash.
const DAMAGED: &str = r#"{"stringData": {"tls.crt": "broken", "tls.key": "broken"}}"#;

/// The cluster of these scenarios.
pub async fn cluster() -> Result<Shared> {
    static RIGHTS: Slot = Slot::new();
    let start = async || Cluster::without_in_tree().name("rights").start().await;
    RIGHTS.get(start).await
}

/// The cluster of the protections. What they protect is not deleted before they agree, so objects of
/// other scenarios would wait for one that has ended.
pub async fn protected() -> Result<Shared> {
    static PROTECTED: Slot = Slot::new();
    let start = async || Cluster::without_in_tree().name("protected").start().await;
    PROTECTED.get(start).await
}

/// A cluster in which, as on OpenShift, only who may change an object's finalizers may make its
/// deletion wait.
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

/// See the module.
pub struct Tenant {
    pub cluster: Shared,
    pub namespace: String,
    /// What is given to `run`.
    pub arguments: Vec<String>,
    interposer: Interposer,
}

impl Tenant {
    /// Installs these components of `manifests/components`.
    pub async fn new(components: &[&str]) -> Result<Self> {
        Self::on(cluster().await?, components).await
    }

    /// The same on that cluster.
    pub async fn on(cluster: Shared, components: &[&str]) -> Result<Self> {
        let name = components.iter().find(|name| **name != "self-signed");
        let namespace = format!("rights-{}", name.context("a component")?);
        let policies = ["restrict-service-account"];
        // First: pvc-expiry changes one of them.
        let components = [&policies, components].concat();
        let kustomization = Kustomization::of(&components, &namespace)?;
        manifests::apply(&cluster, kustomization.path()).await?;
        let tenant = Self {
            arguments: arguments(&cluster, &namespace).await?,
            interposer: Interposer::for_service_account(&cluster, &namespace, ACCOUNT).await?,
            cluster,
            namespace,
        };
        tenant.has_its_rights().await?;
        Ok(tenant)
    }

    /// The API server hears of roles and bindings a little late, and until then it refuses.
    async fn has_its_rights(&self) -> Result<()> {
        let granted = self.granted().await?;
        eventually("its rights count", async || {
            for right in &granted {
                ensure!(self.may(right).await?, "not yet: {right}");
            }
            Ok(())
        })
        .await
    }

    /// Whether the API server decides by that right.
    async fn may(&self, right: &str) -> Result<bool> {
        let (verb, object) = right.split_once(' ').context("a verb")?;
        let (kind, name) = object.split_once(' ').unwrap_or((object, ""));
        let (resource, group) = kind.split_once('.').unwrap_or((kind, ""));
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let review = serde_json::from_value(json!({"metadata": {}, "spec": {
            "user": self.user(),
            "resourceAttributes": {
                "verb": verb, "group": group, "resource": resource, "subresource": subresource, "name": name,
                "namespace": self.namespace,
            },
        }}))?;
        let reviews = Api::<SubjectAccessReview>::all(self.cluster.client());
        let answer = reviews.create(&PostParams::default(), &review).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }

    /// Of one identity, so that no start has to wait for a Lease to expire.
    pub fn builder(&self) -> WardenBuilder<'_> {
        let builder = Warden::builder(&self.cluster, BINARY)
            .name(self.namespace.clone())
            .namespace(self.namespace.clone())
            .kubeconfig(self.interposer.kubeconfig())
            .arg("--leader-elect-identity=rights");
        let arguments = self.arguments.iter();
        arguments.fold(builder, |builder, argument| builder.arg(argument))
    }

    /// A life before: the certificate's Secret is damaged and repaired.
    pub async fn repairs_its_certificate(&self) -> Result<()> {
        let patch = [
            "patch",
            "secret",
            "volume-warden-tls",
            "-n",
            &self.namespace,
        ];
        let patch = [&patch, &["--type=merge", "-p", DAMAGED][..]].concat();
        self.cluster.kubectl(&patch).await?;
        self.builder().start().await?.stop().await.map(drop)
    }

    /// Its next two writes of that object are refused, so that it reports it, and once more.
    pub fn refuse_twice(&self, object: &str) -> RuleHandle {
        let write = Rule::on("PATCH").path_contains(format!("/{object}"));
        let refusal = write.respond(403, "Forbidden", "not on my watch").times(2);
        self.interposer.add(refusal)
    }

    /// Takes the right to `update` that subresource out of the component's role, and waits until
    /// the API server decides by that.
    pub async fn loses(&self, resource: &str, component: &str) -> Result<()> {
        let role = format!("{}-volume-warden-{component}", self.namespace);
        let get = ["get", "clusterrole", &role, "-o", "json"];
        let found: Value = serde_json::from_str(&self.cluster.kubectl(&get).await?)?;
        let rules = found["rules"].as_array().context("rules")?.iter();
        let rest: Vec<_> = rules
            .filter(|rule| rule["resources"][0] != resource)
            .collect();
        let patch = json!({"rules": rest}).to_string();
        let patch = ["patch", "clusterrole", &role, "--type=merge", "-p", &patch];
        self.cluster.kubectl(&patch).await?;
        let (kind, subresource) = resource.split_once('/').context("a subresource")?;
        let (user, subresource) = (self.user(), format!("--subresource={subresource}"));
        let ask = ["auth", "can-i", "update", kind, &subresource, "--as", &user];
        eventually(&format!("{resource} is forbidden"), async || {
            // kubectl fails where the answer is no.
            self.cluster.kubectl(&ask).await.is_err()
        })
        .await
    }

    fn user(&self) -> String {
        format!("system:serviceaccount:{}:{ACCOUNT}", self.namespace)
    }

    /// Ends it. Every right that it was given was used, and it asked for no other.
    pub async fn used_all(&self, warden: Warden) -> Result<()> {
        let granted = self.granted().await?;
        ensure!(granted.len() >= 10, "{granted:?}");
        let rest = async |with_watches: bool| {
            let used = self.used()?;
            let mut rest: BTreeSet<_> = granted.difference(&used).cloned().collect();
            rest.retain(|right| with_watches || !right.starts_with("watch "));
            ensure!(rest.is_empty(), "not used: {rest:?}");
            Ok(())
        };
        eventually("its rights are used", async || rest(false).await).await?;
        warden.stop().await?;
        // The audit log reports a watch when it has ended.
        eventually("its watches are reported", async || rest(true).await).await?;
        let calls = self.cluster.audit().all()?.by_user(&self.user());
        let refused: Vec<_> = calls.iter().filter(|call| call.code == 403).collect();
        ensure!(refused.is_empty(), "it lacks rights: {refused:?}");
        Ok(())
    }

    fn used(&self) -> Result<BTreeSet<String>> {
        Ok(used(&self.cluster.audit().all()?.by_user(&self.user())))
    }

    async fn granted(&self) -> Result<BTreeSet<String>> {
        granted(&self.cluster, &self.namespace, ACCOUNT).await
    }
}
