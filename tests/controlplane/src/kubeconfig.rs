//! Kubeconfig files, written as JSON, which is valid YAML.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::credentials::CertificateFiles;

/// A cluster entry. Plain HTTP needs no certificate authority.
pub(crate) fn cluster(url: &str, authority: &Path) -> Value {
    if url.starts_with("https://") {
        json!({"server": url, "certificate-authority": authority})
    } else {
        json!({"server": url})
    }
}

/// A user with a client certificate.
pub(crate) fn certificate_user(files: &CertificateFiles) -> Value {
    json!({"client-certificate": files.certificate, "client-key": files.key})
}

/// A user with a bearer token.
pub(crate) fn token_user(token: &str) -> Value {
    json!({"token": token})
}

/// Writes a kubeconfig of one cluster, one user and one context.
pub(crate) fn write(path: &Path, cluster: &Value, user: &Value) -> Result<()> {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    });
    save(path, &config)
}

/// Copies a kubeconfig, with another server that is reached over plain HTTP.
pub(crate) fn redirect(from: &Path, to: &Path, url: &str) -> Result<()> {
    let text = fs::read(from).with_context(|| format!("reading {}", from.display()))?;
    let mut config: Value = serde_json::from_slice(&text).with_context(|| {
        format!(
            "{} was not written by this crate: it is no JSON",
            from.display()
        )
    })?;
    config["clusters"][0]["cluster"] = json!({"server": url});
    save(to, &config)
}

fn save(path: &Path, config: &Value) -> Result<()> {
    fs::write(path, serde_json::to_vec_pretty(config)?)
        .with_context(|| format!("writing {}", path.display()))
}
