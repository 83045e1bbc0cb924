//! An in-memory cluster and a client for it.

use std::{fs, path::Path, time::Duration};
use tempfile::TempDir;
use volume_warden::backend::{
    Backend, Deletion, Failure, Listed, StorageOs,
    storageos::{Endpoint, Options},
};
use volume_warden_storageos as fake;

/// Far longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// A time limit that a test waits for.
pub const SHORT: Duration = Duration::from_secs(1);
/// A time limit that no test reaches.
pub const NEVER: Duration = Duration::from_secs(3600);

/// The files of a mounted Secret.
pub struct Secrets(TempDir);

impl Secrets {
    pub fn none() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    pub fn right() -> Self {
        let secrets = Self::none();
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

/// Options for a client of `endpoint`. They limit neither the rate of logins nor the time to wait
/// for a response.
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

pub struct Scene {
    pub fake: fake::StorageOs,
    pub client: StorageOs,
    pub secrets: Secrets,
}

impl Scene {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl Fn(&mut Options)) -> Self {
        let fake = fake::StorageOs::start().expect("starts");
        let secrets = Secrets::right();
        let mut options = options(&fake.endpoint(), &secrets);
        change(&mut options);
        let client = StorageOs::new(options);
        Self {
            fake,
            client,
            secrets,
        }
    }

    /// Another client, with a short time limit. It has logged in, so only the next call can time
    /// out.
    pub async fn hurried(&self) -> StorageOs {
        let client = StorageOs::new(Options {
            request_limit: SHORT,
            ..options(&self.fake.endpoint(), &self.secrets)
        });
        eventually("it has logged in", async || client.list().await.is_ok()).await;
        client
    }

    /// Creates a namespace, and returns it as listed.
    pub async fn listed(&self, name: &str) -> Listed {
        self.fake.create(name);
        self.relisted(name).await
    }

    pub async fn relisted(&self, name: &str) -> Listed {
        let listing = self.client.list().await.expect("lists");
        let mut namespaces = listing.namespaces.into_iter();
        let namespace = namespaces.find(|namespace| namespace.name == name);
        namespace.expect("is in the list")
    }

    pub async fn delete(&self, namespace: &Listed) -> Result<Deletion, Failure> {
        self.client.delete(namespace).await
    }

    pub async fn list_fails(&self) -> Failure {
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
    let done = tokio::time::timeout(PATIENCE, checked).await;
    assert!(done.is_ok(), "waited in vain until {what}");
}
