//! Clients of a cluster.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::cluster::Cluster;
use crate::kubeconfig;

const TOKEN_LIFETIME_SECONDS: i64 = 24 * 60 * 60;

/// Makes ring the crypto provider of this process. This crate calls it; call it before creating a
/// [`kube::Client`] without this crate.
pub fn install_crypto_provider() {
    // An error means that a provider is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// A client configuration from a kubeconfig, with kube's own retries off: they would hide failures
/// from tests.
pub(crate) async fn client_config(kubeconfig: &Path) -> Result<kube::Config> {
    let file = Kubeconfig::read_from(kubeconfig)?;
    let mut config =
        kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    Ok(config)
}

impl Cluster {
    /// An admin's client, bound to the tokio runtime of the caller like every [`kube::Client`]:
    /// create one in each test, never share one through a `static`.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn client(&self) -> kube::Client {
        self.try_client()
            .expect("this configuration made a client when the cluster started")
    }

    pub(crate) fn try_client(&self) -> Result<kube::Client> {
        install_crypto_provider();
        Ok(kube::Client::try_from(self.config.clone())?)
    }

    /// A kubeconfig of a service account, which must exist, with a token for a day. `server_url`
    /// replaces the API server's address.
    pub async fn service_account_kubeconfig(
        &self,
        namespace: &str,
        name: &str,
        server_url: Option<&str>,
    ) -> Result<PathBuf> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        let spec = TokenRequestSpec {
            expiration_seconds: Some(TOKEN_LIFETIME_SECONDS),
            ..Default::default()
        };
        let request = TokenRequest {
            spec,
            ..Default::default()
        };
        let answer = accounts
            .create_token_request(name, &PostParams::default(), &request)
            .await
            .with_context(|| {
                format!("requesting a token of the service account {namespace}/{name}")
            })?;
        let token = answer
            .status
            .context("the API server answered without a token")?
            .token;
        let cluster = kubeconfig::cluster(server_url.unwrap_or(self.url()), &self.files.authority);
        let path = self.new_file(&format!("{namespace}-{name}-"), ".kubeconfig")?;
        kubeconfig::write(&path, &cluster, &kubeconfig::token_user(&token))?;
        Ok(path)
    }

    /// A client of a service account, which must exist, with a token for a day.
    pub async fn service_account_client(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<kube::Client> {
        let kubeconfig = self.service_account_kubeconfig(namespace, name, None);
        let config = client_config(&kubeconfig.await?).await?;
        Ok(kube::Client::try_from(config)?)
    }

    fn new_file(&self, prefix: &str, suffix: &str) -> Result<PathBuf> {
        let file = tempfile::Builder::new()
            .prefix(prefix)
            .suffix(suffix)
            .tempfile_in(self.dir())?;
        Ok(file.into_temp_path().keep()?)
    }
}
