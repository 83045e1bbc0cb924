//! An in-memory StorageOS, and clients for it.

use std::{fs, path::Path, time::Duration};
use tempfile::TempDir;
use volume_warden::backend::{
    Backend, Deletion, Failure, Listed, StorageOs,
    storageos::{Endpoint, Options},
};
use volume_warden_storageos as fake;

/// Far longer than any step takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);
/// A time limit of a client that a test waits for.
pub const SHORT: Duration = Duration::from_secs(1);
/// A time limit of a client that no test reaches.
pub const NEVER: Duration = Duration::from_secs(3600);

/// The files of a mounted Secret.
pub struct Secrets(TempDir);

impl Secrets {
    pub fn empty() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    /// With the credentials that the server accepts.
    pub fn valid() -> Self {
        let secrets = Self::empty();
        secrets.write("username", fake::USER);
        secrets.write("password", fake::PASSWORD);
        secrets
    }

    pub fn write(&self, file: &str, text: &str) {
        fs::write(self.0.path().join(file), text).expect("writes");
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Options of a client for `endpoint`, without an interval between logins and without a time limit.
pub fn options(endpoint: &str, secrets: &Secrets) -> Options {
    let endpoint = Endpoint::parse(endpoint, true).expect("an endpoint");
    Options {
        secrets: secrets.path().to_owned(),
        login_interval: Duration::ZERO,
        request_limit: NEVER,
        call_limit: NEVER,
        ..Options::new(endpoint)
    }
}

/// A StorageOS with a client, and the client's credentials.
pub struct BackendFixture {
    pub fake: fake::StorageOs,
    pub client: StorageOs,
    pub secrets: Secrets,
}

impl BackendFixture {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// With `change` applied to the options of the client.
    pub fn with(change: impl Fn(&mut Options)) -> Self {
        let fake = fake::StorageOs::start().expect("starts");
        let secrets = Secrets::valid();
        let mut options = options(&fake.endpoint(), &secrets);
        change(&mut options);
        let client = StorageOs::new(options);
        Self {
            fake,
            client,
            secrets,
        }
    }

    /// Another client, whose requests time out after [`SHORT`]. It has already logged in, so a
    /// later call can time out only in its own request.
    pub async fn client_with_short_timeout(&self) -> StorageOs {
        let client = StorageOs::new(Options {
            request_limit: SHORT,
            ..options(&self.fake.endpoint(), &self.secrets)
        });
        eventually("the client has logged in", async || {
            client.list().await.is_ok()
        })
        .await;
        client
    }

    /// Creates a namespace, and returns it as a list has it.
    pub async fn create_listed(&self, name: &str) -> Listed {
        self.fake.create(name);
        self.listed(name).await
    }

    /// The namespace as a new list has it.
    pub async fn listed(&self, name: &str) -> Listed {
        let listing = self.client.list().await.expect("lists");
        let mut namespaces = listing.namespaces.into_iter();
        let namespace = namespaces.find(|namespace| namespace.name == name);
        namespace.expect("is in the list")
    }

    pub async fn delete(&self, namespace: &Listed) -> Result<Deletion, Failure> {
        self.client.delete(namespace).await
    }

    /// The error of a list, which must fail.
    pub async fn list_error(&self) -> Failure {
        self.client.list().await.expect_err("fails")
    }

    pub fn logins(&self) -> usize {
        self.fake.calls(fake::Endpoint::Login)
    }
}

/// Polls until `check` is true.
pub async fn eventually(what: &str, mut check: impl AsyncFnMut() -> bool) {
    let checked = async {
        while !check().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let done = tokio::time::timeout(TIMEOUT, checked).await;
    assert!(done.is_ok(), "waited {TIMEOUT:?} until {what}");
}
