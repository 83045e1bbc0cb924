//! The flags of the commands that a user runs with their own permissions, as with `kubectl`.

use super::kubeconfig::{self, kubeconfig_fault};
use crate::cluster::connect;
use anyhow::Context as _;
use clap::Args;
use kube::{Client, Config, config::KubeConfigOptions};
use std::path::PathBuf;

/// The cluster, and the user of the requests.
#[derive(Debug, Args)]
pub struct CallerOptions {
    /// Kubeconfig file [default: as kubectl: $KUBECONFIG, else ~/.kube/config; in a pod, its
    /// service account]
    #[arg(long)]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// User to impersonate, as with kubectl: the command has the rights of this user.
    #[arg(long = "as", value_name = "USER")]
    as_user: Option<String>,

    /// Group to impersonate, together with --as.
    #[arg(long = "as-group", value_name = "GROUP", requires = "as_user")]
    as_groups: Vec<String>,
}

impl CallerOptions {
    /// Creates a client with the caller's credentials, and returns the namespace to use if none is
    /// given.
    ///
    /// # Errors
    /// When there is no usable kubeconfig or service account.
    pub(super) async fn cluster(&self) -> anyhow::Result<(Client, String)> {
        let mut config = self.config().await?;
        config.auth_info.impersonate.clone_from(&self.as_user);
        if !self.as_groups.is_empty() {
            config.auth_info.impersonate_groups = Some(self.as_groups.clone());
        }
        let namespace = config.default_namespace.clone();
        let client = connect(config).context("cannot create the API client")?;
        Ok((client, namespace))
    }

    async fn config(&self) -> anyhow::Result<Config> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        if let Some(path) = &self.kubeconfig {
            let read = kubeconfig::read(path)?;
            let config = Config::from_custom_kubeconfig(read, &options).await;
            return config.map_err(|error| anyhow::anyhow!(kubeconfig_fault(&error)));
        }
        match Config::from_kubeconfig(&options).await {
            Ok(config) => Ok(config),
            Err(error) => Config::incluster()
                .map_err(|_| anyhow::anyhow!(kubeconfig_fault(&error)))
                .context("no usable kubeconfig found, and this process does not run in a pod"),
        }
    }
}
