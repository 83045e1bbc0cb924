//! The CAs and the client certificate of the client.

use crate::support::{Secrets, options};
use std::fs;
use volume_warden::backend::{
    Backend, Failure, Outcome, StorageOs,
    storageos::{Endpoint, EndpointError, Options},
};
use volume_warden_storageos::{self as fake, Authority, Closed, Pair, Serving};

fn authority() -> Authority {
    Authority::new().expect("an authority")
}

fn issue(authority: &Authority, name: &str) -> Pair {
    authority.issue(name).expect("a certificate")
}

fn serve(serving: Serving) -> fake::StorageOs {
    Closed::new()
        .expect("a port")
        .open(&serving)
        .expect("opens")
}

/// A server with a certificate for `name`, signed by `authority`.
fn serve_with_certificate(authority: &Authority, name: &str) -> fake::StorageOs {
    serve(Serving {
        tls: Some(issue(authority, name)),
        ..Serving::default()
    })
}

/// Options of a client that trusts `authority`, whose certificate is in the file `ca`.
fn options_with_ca(fake: &fake::StorageOs, secrets: &Secrets, authority: &Authority) -> Options {
    secrets.write("ca", &authority.certificate());
    let mut options = options(&fake.endpoint(), secrets);
    options.tls.authority = Some(secrets.path().join("ca"));
    options
}

/// The error of a client that cannot connect.
async fn connection_error(options: Options) -> Failure {
    let client = StorageOs::new(options);
    let failure = client.list().await.expect_err("is refused");
    assert_eq!(failure.outcome(), Outcome::Transport);
    failure
}

#[tokio::test]
async fn ns_33_a_private_authority_is_trusted_and_another_is_not() {
    let (trusted, other, secrets) = (authority(), authority(), Secrets::valid());
    let fake = serve_with_certificate(&trusted, "127.0.0.1");
    let client = StorageOs::new(options_with_ca(&fake, &secrets, &trusted));
    client.list().await.expect("lists");

    let before = fake.requests().len();
    let failure = connection_error(options_with_ca(&fake, &secrets, &other)).await;
    assert!(
        failure.to_string().contains("invalid peer certificate"),
        "{failure}"
    );
    connection_error(options(&fake.endpoint(), &secrets)).await;
    assert_eq!(fake.requests().len(), before, "no password was sent");
}

#[tokio::test]
async fn ns_33_a_certificate_for_another_name_is_not_trusted() {
    let (trusted, secrets) = (authority(), Secrets::valid());
    let fake = serve_with_certificate(&trusted, "elsewhere");
    let failure = connection_error(options_with_ca(&fake, &secrets, &trusted)).await;
    assert!(
        failure.to_string().contains("not valid for name"),
        "{failure}"
    );
}

#[tokio::test]
async fn a_changed_authority_is_read_again() {
    let (trusted, other, secrets) = (authority(), authority(), Secrets::valid());
    let fake = serve_with_certificate(&trusted, "127.0.0.1");
    let mut options = options_with_ca(&fake, &secrets, &other);
    options.tls.authority = Some(secrets.path().join("later"));
    let client = StorageOs::new(options);
    let failure = client.list().await.expect_err("the file does not exist");
    assert!(
        failure.to_string().contains("later: No such file"),
        "{failure}"
    );
    secrets.write("later", "no certificate");
    let failure = client
        .list()
        .await
        .expect_err("the file has no certificate");
    assert!(
        failure.to_string().contains("no certificate in PEM"),
        "{failure}"
    );
    secrets.write("later", &other.certificate());
    client.list().await.expect_err("the CA is another one");
    secrets.write(
        "later",
        &format!("{}{}", other.certificate(), trusted.certificate()),
    );
    client.list().await.expect("lists");
}

#[tokio::test]
async fn a_client_certificate_is_sent_to_a_server_that_requests_one() {
    let (trusted, clients, secrets) = (authority(), authority(), Secrets::valid());
    let fake = serve(Serving {
        tls: Some(issue(&trusted, "127.0.0.1")),
        clients: Some(clients.certificate()),
        path: "",
    });
    let anonymous = options_with_ca(&fake, &secrets, &trusted);
    connection_error(anonymous.clone()).await;

    let files = (secrets.path().join("crt"), secrets.path().join("key"));
    let mut identified = anonymous;
    identified.tls.identity = Some(files.clone());
    let client = StorageOs::new(identified);
    let failure = client.list().await.expect_err("the file does not exist");
    assert!(
        failure.to_string().contains("crt: No such file"),
        "{failure}"
    );
    for (authority, succeeds) in [(&trusted, false), (&clients, true)] {
        let pair = issue(authority, "volume-warden");
        fs::write(&files.0, pair.certificate.trim_end()).expect("writes");
        fs::write(&files.1, pair.key).expect("writes");
        assert_eq!(client.list().await.is_ok(), succeeds);
    }
}

#[tokio::test]
async fn a_server_without_tls_gets_no_password() {
    let (fake, secrets) = (fake::StorageOs::start().expect("starts"), Secrets::valid());
    let plain = Endpoint::parse(&fake.endpoint(), false);
    assert_eq!(plain, Err(EndpointError::PlainHttp));
    let secure = fake.endpoint().replace("http://", "https://");
    connection_error(options(&secure, &secrets)).await;
    assert!(fake.requests().is_empty());
}
