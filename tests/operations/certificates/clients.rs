//! The API server authenticates with a client certificate, configured as in certs/README.md.

use super::strict_client::StrictClient;
use crate::support::{BINARY, dry_run, manifests, repository, webhooks_answer};
use anyhow::{Context, Result, ensure};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};
use serde_json::json;
use std::{fs, path::Path};
use volume_warden_controlplane::{Cluster, Warden, eventually};

/// The directory of the files in certs/README.md.
const DIRECTORY: &str = "/etc/kubernetes/webhooks";
const README: &str = include_str!("../../../certs/README.md");

/// The example in certs/README.md that begins with the line `first`, with the files in `directory`.
fn example(first: &str, directory: &Path) -> Result<String> {
    let begin = README.find(first).context("the example")?;
    let lines = README[begin..].lines();
    let lines =
        lines.take_while(|line| line.is_empty() || line.starts_with("       ") || *line == first);
    let text: Vec<_> = lines
        .map(|line| line.strip_prefix("       ").unwrap_or(line))
        .collect();
    Ok(text
        .join("\n")
        .replace(DIRECTORY, &directory.to_string_lossy()))
}

/// Writes a CA and a client certificate to the files that the examples name.
fn certificates(directory: &Path) -> Result<()> {
    let mut parameters = CertificateParams::new(vec![])?;
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(parameters, KeyPair::generate()?)?;
    let (mut parameters, key) = (CertificateParams::new(vec![])?, KeyPair::generate()?);
    let name = &mut parameters.distinguished_name;
    name.push(DnType::CommonName, "kube-apiserver");
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let certificate = parameters.signed_by(&key, &authority)?;
    fs::write(directory.join("ca.crt"), authority.pem())?;
    fs::write(directory.join("client.crt"), certificate.pem())?;
    fs::write(directory.join("client.key"), key.serialize_pem())?;
    Ok(())
}

/// Volume Warden refuses a client without a certificate, and an API server whose certificate has a
/// name that `--client-allowed-name` does not list.
#[tokio::test]
async fn only_the_api_server_may_call() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let directory = directory.path();
    certificates(directory)?;
    let admission = example("       apiVersion: apiserver.config.k8s.io/v1", directory)?;
    let kubeconfig = example("       apiVersion: v1\n", directory)?;
    fs::write(directory.join("admission.yaml"), admission)?;
    fs::write(directory.join("kubeconfig.yaml"), kubeconfig)?;
    let file = |name: &str| directory.join(name).to_string_lossy().into_owned();
    let cluster = Cluster::api_server()
        .name("clients")
        .apiserver_arg(format!(
            "--admission-control-config-file={}",
            file("admission.yaml")
        ))
        .start()
        .await?;
    manifests::apply(&cluster, &repository().join("manifests")).await?;
    let start = |name: &str| {
        Warden::builder(&cluster, BINARY)
            .name("warden")
            .arg(format!("--client-ca-file={}", file("ca.crt")))
            .arg(format!("--client-allowed-name={name}"))
            .serving()
            .start()
    };
    let warden = start("kube-apiserver,another").await?;
    webhooks_answer(&cluster.client()).await?;

    let strict_client = StrictClient::new(cluster.client());
    let response = strict_client.request(warden.webhook_port()).await;
    ensure!(
        response.is_err(),
        "a client without a certificate was accepted"
    );
    eventually("the log names the refused client", async || {
        let log = warden.process().log();
        ensure!(log.contains("is not valid by --client-ca-file"));
        anyhow::Ok(())
    })
    .await?;

    drop(warden);
    let warden = start("another-client").await?;
    eventually(
        "the API server is refused because of its name",
        async || {
            let claim = crate::support::claim("probe", json!({}))?;
            let claims: kube::Api<k8s_openapi::api::core::v1::PersistentVolumeClaim> =
                kube::Api::namespaced(cluster.client(), "default");
            let created = claims.create(&dry_run(), &claim).await?;
            ensure!(
                created.metadata.finalizers.is_none(),
                "the claim was reviewed"
            );
            let log = warden.process().log();
            ensure!(log.contains("kube-apiserver") && log.contains("--client-allowed-name"));
            anyhow::Ok(())
        },
    )
    .await?;
    drop(warden);
    cluster.stop().await;
    Ok(())
}
