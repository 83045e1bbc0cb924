//! The contract of a storage backend, run on a StorageOS cluster in memory.

use super::{Endpoint, Options, StorageOs};
use crate::backend::{
    Backend,
    contract::{BackendFixture, contract},
};
use serde_json::json;
use std::{fs, time::Duration};
use tempfile::TempDir;
use volume_warden_storageos::{self as fake, FOR_EVER, Fault};

struct Cluster {
    fake: fake::StorageOs,
    client: StorageOs,
    _secrets: TempDir,
}

impl Cluster {
    async fn new() -> Self {
        let fake = fake::StorageOs::start().expect("starts");
        let secrets = tempfile::tempdir().expect("a directory");
        fs::write(secrets.path().join("username"), fake::USER).expect("writes");
        fs::write(secrets.path().join("password"), fake::PASSWORD).expect("writes");
        let endpoint = Endpoint::parse(&fake.endpoint(), true).expect("an endpoint");
        let client = StorageOs::new(Options {
            secrets: secrets.path().to_owned(),
            login_interval: Duration::ZERO,
            ..Options::new(endpoint)
        });
        Self {
            fake,
            client,
            _secrets: secrets,
        }
    }
}

impl BackendFixture for Cluster {
    fn backend(&self) -> &dyn Backend {
        &self.client
    }

    async fn create(&self, name: &str) {
        self.fake.create(name);
    }

    async fn fill(&self, name: &str) {
        self.fake.fill(name);
    }

    async fn empty(&self, name: &str) {
        self.fake.empty(name);
    }

    async fn remove(&self, name: &str) {
        self.fake.remove(name);
    }

    async fn has(&self, name: &str) -> bool {
        self.fake.names().iter().any(|each| each == name)
    }

    async fn create_invalid_entries(&self) -> usize {
        let others = [
            json!({"id": "x"}),
            json!({"name": "y"}),
            json!(null),
            json!(["z"]),
        ];
        let count = others.len();
        others
            .into_iter()
            .for_each(|other| self.fake.list_also(other));
        count
    }

    async fn fail(&self) {
        for endpoint in [fake::Endpoint::List, fake::Endpoint::Delete] {
            self.fake.fault(endpoint, Fault::CutBefore, FOR_EVER);
        }
    }

    async fn mend(&self) {
        self.fake.clear_faults();
    }
}

contract!(Cluster::new());
