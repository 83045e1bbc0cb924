//! The cert-manager overlay, applied unchanged, with cert-manager's own CRDs. `played` simulates
//! the behavior of cert-manager; `itself` runs cert-manager's controllers. Both simulate the
//! kubelet, which updates mounted files by renaming a symbolic link.

mod itself;
mod played;

use super::{TIMEOUT, strict_client::StrictClient};
use crate::support::{BINARY, deployment, manifests, repository};
use anyhow::{Context, Result, ensure};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api,
    api::{ApiResource, DynamicObject},
    core::GroupVersionKind,
};
use serde_json::Value;
use std::{collections::BTreeMap, fs, os::unix::fs::symlink, path::Path};
use volume_warden_controlplane::{Cluster, Warden, eventually_within};

const NAMESPACE: &str = "volume-warden";
/// The Secret of the served certificate.
const SECRET: &str = "volume-warden-tls";
/// The directory of the certificate in the Deployment's pod.
const MOUNT_PATH: &str = "/etc/volume-warden/tls";

/// The overlay, applied to a cluster, and the directory in which the test simulates the mounted
/// Secret.
struct Overlay<'a> {
    cluster: &'a Cluster,
    secrets: Api<Secret>,
    mount: tempfile::TempDir,
}

impl<'a> Overlay<'a> {
    async fn install(cluster: &'a Cluster) -> Result<Self> {
        cluster.install_cert_manager_kinds().await?;
        let overlay = repository().join("manifests/overlays/cert-manager");
        manifests::apply(cluster, &overlay).await?;
        Ok(Self {
            cluster,
            secrets: Api::namespaced(cluster.client(), NAMESPACE),
            mount: tempfile::tempdir()?,
        })
    }

    /// Reads an object of one of cert-manager's kinds.
    async fn object(&self, kind: &str, name: &str) -> Result<Value> {
        let kind = GroupVersionKind::gvk("cert-manager.io", "v1", kind);
        let resource = ApiResource::from_gvk(&kind);
        let client = self.cluster.client();
        let api: Api<DynamicObject> = Api::namespaced_with(client, NAMESPACE, &resource);
        Ok(serde_json::to_value(api.get(name).await?)?)
    }

    async fn data(&self, secret: &str) -> Result<BTreeMap<String, ByteString>> {
        self.secrets.get(secret).await?.data.context("data")
    }

    /// Updates the mount as the kubelet does: writes a new directory, and renames `..data` to
    /// point at it.
    async fn mount(&self) -> Result<()> {
        let (root, data) = (self.mount.path(), self.data(SECRET).await?);
        let generation = fs::read_dir(root)?.count().to_string();
        let directory = root.join(&generation);
        fs::create_dir(&directory)?;
        for (key, value) in data {
            fs::write(directory.join(&key), value.0)?;
            let link = root.join(&key);
            if !link.is_symlink() {
                symlink(Path::new("..data").join(&key), link)?;
            }
        }
        symlink(generation, root.join("..data_tmp"))?;
        fs::rename(root.join("..data_tmp"), root.join("..data"))?;
        Ok(())
    }

    /// A client that trusts the published caBundle, and no expired CA.
    fn strict_client(&self) -> StrictClient {
        StrictClient::new(self.cluster.client())
    }

    /// Starts Volume Warden with the arguments of the Deployment, and with the simulated mount.
    async fn start(&self) -> Result<Warden> {
        let mut warden = Warden::builder(self.cluster, BINARY).serving();
        for argument in deployment::arguments(self.cluster, NAMESPACE).await? {
            let mount = self.mount.path().to_string_lossy();
            warden = warden.arg(argument.replace(MOUNT_PATH, &mount));
        }
        warden.start().await
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> Result<&'a str> {
    let found = object.pointer(pointer).and_then(Value::as_str);
    found.with_context(|| format!("no {pointer} in {object}"))
}

/// Waits until another certificate than `before` is served, and clients as strict as the API
/// server trust it.
async fn new_certificate_is_served(
    warden: &Warden,
    strict_client: &StrictClient,
    before: &[u8],
) -> Result<()> {
    let what = "the new certificate is served and trusted";
    eventually_within(TIMEOUT, what, async || {
        let served = strict_client
            .served_certificate(warden.webhook_port())
            .await?;
        ensure!(served != before, "the old certificate is served");
        ensure!(warden.ready().await?, "not ready");
        anyhow::Ok(())
    })
    .await
}
