//! Client certificates: only clients with a valid certificate are served.

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

/// Certificate parameters with this common name.
fn parameters_of(name: &str) -> CertificateParams {
    let mut parameters = CertificateParams::new(vec![]).expect("parameters");
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters
}

fn authority() -> Authority {
    let mut parameters = parameters_of("clients");
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    CertifiedIssuer::self_signed(parameters, key).expect("a CA")
}

/// `trust` with a client certificate that `authority` signs.
fn with_client_certificate(
    trust: &ClientConfig,
    authority: &Authority,
    name: &str,
    days: i64,
) -> ClientConfig {
    let mut parameters = parameters_of(name);
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    parameters.not_after = OffsetDateTime::now_utc() + Duration::days(days);
    let key = KeyPair::generate().expect("a key");
    let certificate = parameters.signed_by(&key, authority).expect("signed");
    let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).expect("a key");
    let with_certificate = ClientConfig::builder()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_client_auth_cert(vec![certificate.der().clone()], key)
        .expect("a pair");
    let mut config = trust.clone();
    config.client_auth_cert_resolver = with_certificate.client_auth_cert_resolver;
    config
}

/// A server that accepts clients whose certificate is signed by the CA in a file and has one of the
/// allowed names.
struct MutualTlsServer {
    server: TestServer,
    trust: ClientConfig,
    clients: Clients,
    loaded: Option<Loaded<Clients>>,
    _directory: TempDir,
}

impl MutualTlsServer {
    async fn start(authority: &Authority, names: &[&str]) -> Self {
        let (server, trust) = TestServer::start(UNLIMITED).await;
        let directory = tempfile::tempdir().expect("a directory");
        let clients = Clients {
            authorities: directory.path().join("ca.crt"),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        fs::write(&clients.authorities, authority.pem()).expect("writes");
        let loaded = clients.clone().load(&server.serving).await;
        let loaded = loaded.expect("loads");
        Self {
            server,
            trust,
            clients,
            loaded: Some(loaded),
            _directory: directory,
        }
    }

    async fn accepts(&self, authority: &Authority, name: &str, days: i64) -> bool {
        let client = with_client_certificate(&self.trust, authority, name, days);
        self.server.answers(&client).await
    }

    fn file(&self) -> PathBuf {
        self.clients.authorities.clone()
    }
}

#[tokio::test]
async fn a_client_needs_a_certificate_of_the_ca() {
    let (trusted, other) = (authority(), authority());
    let guarded = MutualTlsServer::start(&trusted, &[]).await;
    assert!(guarded.accepts(&trusted, "anybody", 1).await);
    assert!(
        !guarded.server.answers(&guarded.trust).await,
        "without a certificate"
    );
    assert!(
        !guarded.accepts(&other, "anybody", 1).await,
        "with a certificate of another CA"
    );
    assert!(
        !guarded.accepts(&trusted, "anybody", -1).await,
        "with an expired certificate"
    );
    // A server certificate that is installed later does not disable the check.
    let trust = guarded.server.renew().await;
    assert!(!guarded.server.answers(&trust).await);
    let client = with_client_certificate(&trust, &trusted, "anybody", 1);
    assert!(guarded.server.answers(&client).await);
}

#[tokio::test]
async fn a_client_needs_an_allowed_name() {
    let trusted = authority();
    let guarded = MutualTlsServer::start(&trusted, &["kube-apiserver", "another"]).await;
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
    let mut guarded = MutualTlsServer::start(&before, &[]).await;
    let stop = CancellationToken::new();
    let (loaded, service) = (
        guarded.loaded.take().expect("once"),
        guarded.server.serving.clone(),
    );
    let task = tokio::spawn(loaded.follow(service, stop.clone()));
    fs::write(guarded.file(), "junk").expect("writes");
    let junk = guarded.clients.clone().load(&guarded.server.serving).await;
    assert!(junk.is_err());
    assert!(
        guarded.accepts(&before, "anybody", 1).await,
        "the old CA is kept"
    );
    fs::write(guarded.file(), after.pem()).expect("writes");
    in_time(async { while !guarded.accepts(&after, "anybody", 1).await {} }).await;
    assert!(!guarded.accepts(&before, "anybody", 1).await);
    stop.cancel();
    task.await.expect("ends");
}
