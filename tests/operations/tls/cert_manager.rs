//! The cert-manager overlay, applied unchanged. cert-manager's controllers do not run here: the Go module that the
//! proxy has is without their commands. So this plays their contract, as far as the overlay relies on it. Issuers and Certificates are read as they were applied;
//! Secrets get `tls.crt`, `tls.key` and `ca.crt`; whatever is annotated with `cert-manager.io/inject-ca-from` gets the `ca.crt`
//! of that Certificate's Secret as its caBundle; and the kubelet swaps mounted files by renaming a link.

use super::{PATIENCE, publish, visitor::Visitor};
use crate::support::{BINARY, repository, webhooks_answer};
use anyhow::{Context, Result, ensure};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs, os::unix::fs::symlink, path::Path};
use volume_warden::tls::Clock;
use volume_warden_controlplane::{Cluster, Warden, eventually, eventually_within};

const NAMESPACE: &str = "volume-warden";
const MOUNTED: &str = "/etc/volume-warden/tls";

/// cert-manager's kinds, of whatever shape.
fn definition(kind: &str) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.cert-manager.io")},
        "spec": {
            "group": "cert-manager.io", "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

type Authority = CertifiedIssuer<'static, KeyPair>;

/// cert-manager and a kubelet, by hand.
struct CertManager<'a> {
    cluster: &'a Cluster,
    secrets: Api<Secret>,
    mount: tempfile::TempDir,
}

impl<'a> CertManager<'a> {
    async fn install(cluster: &'a Cluster) -> Result<Self> {
        for kind in ["Issuer", "Certificate"] {
            let definition = definition(kind).to_string();
            cluster
                .kubectl_with_stdin(&["apply", "-f", "-"], &definition)
                .await?;
        }
        let overlay = repository().join("manifests/overlays/cert-manager");
        eventually(
            "cert-manager's kinds are there, and the overlay",
            async || cluster.apply_kustomization(&overlay).await.map(drop),
        )
        .await?;
        Ok(Self {
            cluster,
            secrets: Api::namespaced(cluster.client(), NAMESPACE),
            mount: tempfile::tempdir()?,
        })
    }

    async fn object(&self, kind: &str, name: &str) -> Result<Value> {
        let get = ["get", kind, name, "-n", NAMESPACE, "-o", "json"];
        Ok(serde_json::from_str(&self.cluster.kubectl(&get).await?)?)
    }

    /// The CA that the issuer of the served certificate signs with: of the Certificate whose Secret that issuer names.
    async fn authority(&self, key: &KeyPair) -> Result<Authority> {
        let served = self
            .object("certificate.cert-manager.io", "volume-warden")
            .await?;
        let issuer = text(&served, "/spec/issuerRef/name")?;
        let issuer = self.object("issuer.cert-manager.io", issuer).await?;
        let secret = text(&issuer, "/spec/ca/secretName")?;
        let authority = self
            .object("certificate.cert-manager.io", "volume-warden-ca")
            .await?;
        ensure!(text(&authority, "/spec/secretName")? == secret);
        ensure!(authority["spec"]["isCA"] == true);
        let kept = text(&authority, "/spec/privateKey/rotationPolicy")?;
        ensure!(kept == "Never", "a new key would not be announced");
        let mut parameters = CertificateParams::new(vec![])?;
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let name = text(&authority, "/spec/commonName")?;
        parameters.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::from_pem(&key.serialize_pem())?;
        Ok(CertifiedIssuer::self_signed(parameters, key)?)
    }

    /// Writes the Secret of the served Certificate.
    async fn issue(&self, authority: &Authority) -> Result<()> {
        let served = self
            .object("certificate.cert-manager.io", "volume-warden")
            .await?;
        let names: Vec<String> = serde_json::from_value(served["spec"]["dnsNames"].clone())?;
        let (mut parameters, key) = (CertificateParams::new(names)?, KeyPair::generate()?);
        parameters.use_authority_key_identifier_extension = true;
        let certificate = parameters.signed_by(&key, authority)?;
        let entries = [
            ("tls.crt", certificate.pem()),
            ("tls.key", key.serialize_pem()),
            ("ca.crt", authority.pem()),
        ];
        let data: BTreeMap<_, _> = entries
            .into_iter()
            .map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes())))
            .collect();
        let name = text(&served, "/spec/secretName")?;
        let secret: Secret = serde_json::from_value(json!({
            "metadata": {"name": name}, "type": "kubernetes.io/tls", "data": data,
        }))?;
        if self.secrets.get_opt(name).await?.is_none() {
            self.secrets.create(&PostParams::default(), &secret).await?;
        } else {
            let data = json!({"data": data});
            let merge = Patch::Merge(data);
            self.secrets
                .patch(name, &PatchParams::default(), &merge)
                .await?;
        }
        Ok(())
    }

    async fn data(&self, secret: &str) -> Result<BTreeMap<String, ByteString>> {
        self.secrets.get(secret).await?.data.context("data")
    }

    /// What cainjector does: fills in the caBundle of whatever is annotated, by default with the Secret's.
    async fn inject(&self, other: Option<&str>) -> Result<()> {
        for kind in [
            "mutatingwebhookconfigurations",
            "validatingwebhookconfigurations",
        ] {
            let list = ["get", kind, "-o", "json"];
            let list: Value = serde_json::from_str(&self.cluster.kubectl(&list).await?)?;
            for configuration in list["items"].as_array().context("a list")? {
                let from = text(
                    configuration,
                    "/metadata/annotations/cert-manager.io~1inject-ca-from",
                )?;
                let certificate = from
                    .strip_prefix("volume-warden/")
                    .context("its namespace")?;
                let certificate = self
                    .object("certificate.cert-manager.io", certificate)
                    .await?;
                let data = self.data(text(&certificate, "/spec/secretName")?).await?;
                let injected = match other {
                    Some(other) => other.to_owned(),
                    None => String::from_utf8(data.get("ca.crt").context("a CA")?.0.clone())?,
                };
                publish(self.cluster, kind, configuration, &injected).await?;
            }
        }
        Ok(())
    }

    /// What the kubelet does: a new directory, and `..data` renamed over to point at it.
    async fn mount(&self) -> Result<()> {
        let (root, data) = (self.mount.path(), self.data("volume-warden-tls").await?);
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

    /// The program as the Deployment starts it, with that mount.
    async fn start(&self) -> Result<Warden> {
        let deployment = self.object("deployment", "volume-warden").await?;
        let arguments = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
        let arguments: Vec<String> = serde_json::from_value(arguments.clone())?;
        let mut warden = Warden::builder(self.cluster, BINARY).serving();
        for argument in arguments.iter().filter(|argument| *argument != "run") {
            let mount = self.mount.path().to_string_lossy();
            warden = warden.arg(argument.replace(MOUNTED, &mount));
        }
        warden.start().await
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> Result<&'a str> {
    let found = object.pointer(pointer).and_then(Value::as_str);
    found.with_context(|| format!("no {pointer} in {object}"))
}

/// A leaf of its own time, a CA renewed in either order, a foreign CA published and taken back.
#[tokio::test]
async fn what_cert_manager_does_is_followed() -> Result<()> {
    let cluster = Cluster::ours().name("cert-manager").start().await?;
    let manager = CertManager::install(&cluster).await?;
    let key = KeyPair::generate()?;
    let authority = manager.authority(&key).await?;
    manager.issue(&authority).await?;
    manager.mount().await?;
    manager.inject(None).await?;
    let warden = manager.start().await?;
    webhooks_answer(&cluster.client()).await?;
    let visitor = Visitor {
        client: cluster.client(),
        clock: Clock::system(),
    };
    let served = async || visitor.served(warden.webhook_port()).await;
    let follows = async |before: Vec<u8>| {
        eventually_within(
            PATIENCE,
            "the new certificate is served, and trusted",
            async || {
                let served = served().await?;
                ensure!(served != before, "the old one is served");
                ensure!(warden.ready().await, "not ready");
                anyhow::Ok(())
            },
        )
        .await
    };

    let first = served().await?;
    manager.issue(&authority).await?;
    manager.mount().await?;
    follows(first).await?;

    // The CA is renewed, with its key: its caBundle arrives before the files, then after them.
    let second = served().await?;
    let renewed = manager.authority(&key).await?;
    manager.issue(&renewed).await?;
    manager.inject(None).await?;
    ensure!(
        served().await? == second,
        "the old one is trusted by the new CA"
    );
    manager.mount().await?;
    follows(second).await?;
    let third = served().await?;
    manager.issue(&manager.authority(&key).await?).await?;
    manager.mount().await?;
    follows(third).await?;
    manager.inject(None).await?;
    served().await?;

    let foreign = rcgen::generate_simple_self_signed(["foreign".to_owned()])?;
    manager.inject(Some(&foreign.cert.pem())).await?;
    eventually_within(PATIENCE, "it is not ready", async || {
        anyhow::Ok(!warden.ready().await)
    })
    .await?;
    let log = warden.process().log();
    ensure!(log.contains("the API server will not trust the certificate for webhook"));
    manager.inject(None).await?;
    eventually_within(PATIENCE, "it is ready", async || {
        anyhow::Ok(warden.ready().await)
    })
    .await?;

    let calls = cluster.audit().all()?.by_user_agent("volume-warden/");
    let forbidden: Vec<_> = calls.iter().filter(|call| call.code == 403).collect();
    ensure!(forbidden.is_empty() && !calls.is_empty(), "{forbidden:?}");
    ensure!(
        !calls.iter().any(|call| call.resource == "secrets"),
        "no Secret is read"
    );
    drop(warden);
    cluster.stop().await;
    Ok(())
}
