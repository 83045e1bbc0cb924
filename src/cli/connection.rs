//! What the options about the cluster and the Lease come to.

use super::options::{ClusterOptions, LeaseOptions};
use crate::{
    cluster::{LeaseName, connect},
    components::Component,
};
use anyhow::Context as _;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use std::hash::BuildHasher;

/// Where a pod finds the namespace it is in.
const OWN_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
const DEFAULT_NAMESPACE: &str = "volume-warden";

impl ClusterOptions {
    /// A client with the rights of the kubeconfig, or of the pod.
    ///
    /// # Errors
    /// When there is neither, or it cannot be used.
    pub(super) async fn client(&self) -> anyhow::Result<Client> {
        connect(self.config().await?).context("the client cannot be made")
    }

    async fn config(&self) -> anyhow::Result<Config> {
        match &self.kubeconfig {
            Some(path) => {
                let kubeconfig = Kubeconfig::read_from(path)
                    .with_context(|| format!("cannot read the kubeconfig {}", path.display()))?;
                let options = KubeConfigOptions::default();
                Ok(Config::from_custom_kubeconfig(kubeconfig, &options).await?)
            }
            // Never a kubeconfig that happens to lie around: it may be an administrator's, of another cluster.
            None => Config::incluster()
                .context("this is not a pod of a cluster; outside of one, --kubeconfig is needed"),
        }
    }

    /// The one namespace to look after, if there is one.
    pub(super) fn namespace(&self) -> Option<String> {
        Some(self.namespace.clone()).filter(|namespace| !namespace.is_empty())
    }

    /// Where our own Lease and Secret are.
    pub(super) fn system_namespace(&self) -> String {
        let own = || std::fs::read_to_string(OWN_NAMESPACE).ok();
        let own = || own().map(|namespace| namespace.trim().to_owned());
        let given = self.system_namespace.clone().or_else(own);
        given.unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned())
    }
}

impl LeaseOptions {
    /// The Lease of these components. Two installations with different components must not compete, and a dry run must not take the
    /// Lease from one that works.
    pub(super) fn name(
        &self,
        system_namespace: &str,
        components: &[Component],
        dry_run: bool,
    ) -> LeaseName {
        let namespace = self.lease_lock_namespace.clone();
        let name = self.lease_lock_name.clone();
        LeaseName {
            namespace: namespace.unwrap_or_else(|| system_namespace.to_owned()),
            name: name.unwrap_or_else(|| default_name(components, dry_run)),
            identity: self.lease_lock_id.clone().unwrap_or_else(identity),
        }
    }
}

fn default_name(components: &[Component], dry_run: bool) -> String {
    let names: Vec<_> = components
        .iter()
        .map(|component| component.name())
        .collect();
    let all = components.len() == Component::ALL.len();
    let base = if all {
        "volume-warden".to_owned()
    } else {
        names.join("-")
    };
    if dry_run {
        format!("{base}-dry-run")
    } else {
        base
    }
}

/// Unique to this process. The random part tells two containers of one pod, or a process from its predecessor with the same pid.
fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let random = std::collections::hash_map::RandomState::new().hash_one(std::process::id());
    format!("{}_{}_{random:x}", host.trim(), std::process::id())
}
