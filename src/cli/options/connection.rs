//! Resolves the flags of the cluster into a client and namespaces.

use super::ClusterOptions;
use crate::{cli::kubeconfig, cluster::connect};
use anyhow::Context as _;
use kube::{Client, Config};

/// File with the namespace of the pod.
const OWN_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
pub(in crate::cli) const DEFAULT_NAMESPACE: &str = "volume-warden";

impl ClusterOptions {
    /// Creates a client with the credentials of the kubeconfig, or of the pod's service account.
    ///
    /// # Errors
    /// When there is neither a kubeconfig nor a service account, or the credentials cannot be used.
    pub(in crate::cli) async fn client(&self) -> anyhow::Result<Client> {
        Ok(self.client_and_server().await?.0)
    }

    /// Creates the client as [`Self::client`] does, and returns the address of its API server, too.
    ///
    /// # Errors
    /// As [`Self::client`].
    pub(in crate::cli) async fn client_and_server(&self) -> anyhow::Result<(Client, String)> {
        let config = self.config().await?;
        let server = config.cluster_url.to_string();
        let client = connect(config).context("cannot create the API client")?;
        Ok((client, server))
    }

    async fn config(&self) -> anyhow::Result<Config> {
        match &self.kubeconfig {
            Some(path) => kubeconfig::config(kubeconfig::read(path)?, None).await,
            // A default kubeconfig is never used: it may be an administrator's, for another
            // cluster.
            None => Config::incluster()
                .context("not running in a pod; outside of a cluster, set --kubeconfig"),
        }
    }

    /// Returns the only namespace to watch; `None` means all namespaces.
    pub(in crate::cli) fn namespace(&self) -> Option<String> {
        Some(self.namespace.clone()).filter(|namespace| !namespace.is_empty())
    }

    /// Returns the namespace of Volume Warden's own Lease and Secrets: that of the flag, else that
    /// of the pod, else [`DEFAULT_NAMESPACE`].
    pub(in crate::cli) fn system_namespace(&self) -> String {
        let own = || std::fs::read_to_string(OWN_NAMESPACE).ok();
        let own = || own().map(|namespace| namespace.trim().to_owned());
        let given = self.system_namespace.clone().or_else(own);
        given.unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned())
    }
}
