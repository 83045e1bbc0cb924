//! Only clients with a valid certificate are served.

use crate::support::*;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};
use rustls::{
    ClientConfig,
    pki_types::{PrivateKeyDer, pem::PemObject},
};
use std::{fs, path::PathBuf};
use tempfile::TempDir;
use time::{Duration, OffsetDateTime};
use tokio_util::sync::CancellationToken;
use volume_warden::tls::{Clients, Loaded, Source};

type Authority = CertifiedIssuer<'static, KeyPair>;

fn named(name: &str) -> CertificateParams {
    let mut parameters = CertificateParams::new(vec![]).expect("parameters");
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters
}

fn authority() -> Authority {
    let mut parameters = named("clients");
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    CertifiedIssuer::self_signed(parameters, key).expect("a CA")
}

/// `trust`, with a client certificate of that CA.
fn showing(trust: &ClientConfig, authority: &Authority, name: &str, days: i64) -> ClientConfig {
    let mut parameters = named(name);
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    parameters.not_after = OffsetDateTime::now_utc() + Duration::days(days);
    let key = KeyPair::generate().expect("a key");
    let certificate = parameters.signed_by(&key, authority).expect("signed");
    let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).expect("a key");
    let shown = ClientConfig::builder()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_client_auth_cert(vec![certificate.der().clone()], key)
        .expect("a pair");
    let mut config = trust.clone();
    config.client_auth_cert_resolver = shown.client_auth_cert_resolver;
    config
}

/// A server that accepts clients with a certificate of the CA in a file and one of these names.
struct GuardedSite {
    site: Site,
    trust: ClientConfig,
    clients: Clients,
    loaded: Option<Loaded<Clients>>,
    _directory: TempDir,
}

impl GuardedSite {
    async fn open(authority: &Authority, names: &[&str]) -> Self {
        let (site, trust) = Site::open(UNLIMITED).await;
        let directory = tempfile::tempdir().expect("a directory");
        let clients = Clients {
            authorities: directory.path().join("ca.crt"),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        fs::write(&clients.authorities, authority.pem()).expect("writes");
        let loaded = clients.clone().load(&site.serving).await;
        let loaded = loaded.expect("loads");
        Self {
            site,
            trust,
            clients,
            loaded: Some(loaded),
            _directory: directory,
        }
    }

    async fn accepts(&self, authority: &Authority, name: &str, days: i64) -> bool {
        let client = showing(&self.trust, authority, name, days);
        self.site.answers(&client).await
    }

    fn file(&self) -> PathBuf {
        self.clients.authorities.clone()
    }
}

#[tokio::test]
async fn a_client_needs_a_certificate_of_the_ca() {
    let (trusted, other) = (authority(), authority());
    let guarded = GuardedSite::open(&trusted, &[]).await;
    assert!(guarded.accepts(&trusted, "anybody", 1).await);
    assert!(!guarded.site.answers(&guarded.trust).await, "with none");
    assert!(
        !guarded.accepts(&other, "anybody", 1).await,
        "of another CA"
    );
    assert!(!guarded.accepts(&trusted, "anybody", -1).await, "expired");
    // A server certificate that is installed later does not disable the check.
    let trust = guarded.site.renew().await;
    assert!(!guarded.site.answers(&trust).await);
    let client = showing(&trust, &trusted, "anybody", 1);
    assert!(guarded.site.answers(&client).await);
}

#[tokio::test]
async fn a_client_needs_an_allowed_name() {
    let trusted = authority();
    let guarded = GuardedSite::open(&trusted, &["kube-apiserver", "another"]).await;
    for (name, allowed) in [
        ("kube-apiserver", true),
        ("another", true),
        ("kube-apiserver2", false),
        ("", false),
    ] {
        assert_eq!(guarded.accepts(&trusted, name, 1).await, allowed, "{name}");
    }
}

#[tokio::test]
async fn a_changed_file_is_read_again() {
    let (before, after) = (authority(), authority());
    let mut guarded = GuardedSite::open(&before, &[]).await;
    let stop = CancellationToken::new();
    let (loaded, service) = (
        guarded.loaded.take().expect("once"),
        guarded.site.serving.clone(),
    );
    let task = tokio::spawn(loaded.follow(service, stop.clone()));
    fs::write(guarded.file(), "junk").expect("writes");
    let junk = guarded.clients.clone().load(&guarded.site.serving).await;
    assert!(junk.is_err());
    assert!(
        guarded.accepts(&before, "anybody", 1).await,
        "the old one is kept"
    );
    fs::write(guarded.file(), after.pem()).expect("writes");
    soon(async { while !guarded.accepts(&after, "anybody", 1).await {} }).await;
    assert!(!guarded.accepts(&before, "anybody", 1).await);
    stop.cancel();
    task.await.expect("ends");
}
