//! Creation and deletion of namespaces in Kubernetes.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, api::PostParams};
use serde_json::json;
use volume_warden_controlplane::eventually;

pub async fn create_namespace(namespaces: &Api<Namespace>, name: &str) -> Result<()> {
    let namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
    namespaces
        .create(&PostParams::default(), &namespace)
        .await
        .with_context(|| format!("namespace {name}"))?;
    Ok(())
}

pub async fn is_gone(namespaces: &Api<Namespace>, name: &str) -> Result<()> {
    eventually(&format!("namespace {name} is gone"), async || {
        let found = namespaces.get_opt(name).await?;
        ensure!(
            found.is_none(),
            "{:?}",
            found.and_then(|found| found.status)
        );
        Ok(())
    })
    .await
}
