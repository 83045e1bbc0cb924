//! Which server the client trusts, and which client the server trusts.

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

fn pair(authority: &Authority, name: &str) -> Pair {
    authority.issue(name).expect("a certificate")
}

fn serve(serving: Serving) -> fake::StorageOs {
    Closed::new()
        .expect("a port")
        .open(&serving)
        .expect("opens")
}

/// A server with a certificate for `name`, signed by `authority`.
fn served_by(authority: &Authority, name: &str) -> fake::StorageOs {
    serve(Serving {
        tls: Some(pair(authority, name)),
        ..Serving::default()
    })
}

/// Options of a client that trusts the CA in the file `ca` beside its secrets.
fn trusting(fake: &fake::StorageOs, secrets: &Secrets, authority: &Authority) -> Options {
    secrets.write("ca", &authority.certificate());
    let mut options = options(&fake.endpoint(), secrets);
    options.tls.authority = Some(secrets.path().join("ca"));
    options
}

async fn refused(options: Options) -> Failure {
    let client = StorageOs::new(options);
    let failure = client.list().await.expect_err("is refused");
    assert_eq!(failure.outcome(), Outcome::Transport);
    failure
}

#[tokio::test]
async fn ns_33_a_private_authority_is_trusted_and_another_is_not() {
    let (trusted, other, secrets) = (authority(), authority(), Secrets::right());
    let fake = served_by(&trusted, "127.0.0.1");
    let client = StorageOs::new(trusting(&fake, &secrets, &trusted));
    client.list().await.expect("lists");

    let before = fake.requests().len();
    let failure = refused(trusting(&fake, &secrets, &other)).await;
    assert!(
        failure.to_string().contains("invalid peer certificate"),
        "{failure}"
    );
    refused(options(&fake.endpoint(), &secrets)).await;
    assert_eq!(fake.requests().len(), before, "no password was sent");
}

#[tokio::test]
async fn ns_33_a_certificate_for_another_name_is_not_trusted() {
    let (trusted, secrets) = (authority(), Secrets::right());
    let fake = served_by(&trusted, "elsewhere");
    let failure = refused(trusting(&fake, &secrets, &trusted)).await;
    assert!(
        failure.to_string().contains("not valid for name"),
        "{failure}"
    );
}

#[tokio::test]
async fn a_changed_authority_is_read_again() {
    let (trusted, other, secrets) = (authority(), authority(), Secrets::right());
    let fake = served_by(&trusted, "127.0.0.1");
    let mut options = trusting(&fake, &secrets, &other);
    options.tls.authority = Some(secrets.path().join("later"));
    let client = StorageOs::new(options);
    let failure = client.list().await.expect_err("there is none yet");
    assert!(
        failure.to_string().contains("later: No such file"),
        "{failure}"
    );
    secrets.write("later", "no certificate");
    let failure = client.list().await.expect_err("there is none in it");
    assert!(
        failure.to_string().contains("no certificate in PEM"),
        "{failure}"
    );
    secrets.write("later", &other.certificate());
    client.list().await.expect_err("it is the wrong one");
    secrets.write(
        "later",
        &format!("{}{}", other.certificate(), trusted.certificate()),
    );
    client.list().await.expect("lists");
}

#[tokio::test]
async fn a_client_certificate_is_sent_to_a_server_that_requests_one() {
    let (trusted, clients, secrets) = (authority(), authority(), Secrets::right());
    let fake = serve(Serving {
        tls: Some(pair(&trusted, "127.0.0.1")),
        clients: Some(clients.certificate()),
        path: "",
    });
    let anonymous = trusting(&fake, &secrets, &trusted);
    refused(anonymous.clone()).await;

    let files = (secrets.path().join("crt"), secrets.path().join("key"));
    let mut known = anonymous;
    known.tls.identity = Some(files.clone());
    let client = StorageOs::new(known);
    let failure = client.list().await.expect_err("there is none yet");
    assert!(
        failure.to_string().contains("crt: No such file"),
        "{failure}"
    );
    for (authority, does) in [(&trusted, false), (&clients, true)] {
        let pair = pair(authority, "volume-warden");
        fs::write(&files.0, pair.certificate.trim_end()).expect("writes");
        fs::write(&files.1, pair.key).expect("writes");
        assert_eq!(client.list().await.is_ok(), does);
    }
}

#[tokio::test]
async fn a_server_without_tls_gets_no_password() {
    let (fake, secrets) = (fake::StorageOs::start().expect("starts"), Secrets::right());
    let plain = Endpoint::parse(&fake.endpoint(), false);
    assert_eq!(plain, Err(EndpointError::PlainHttp));
    let secure = fake.endpoint().replace("http://", "https://");
    refused(options(&secure, &secrets)).await;
    assert!(fake.requests().is_empty());
}
