//! The Lease of Volume Warden as the object of Events that are about no claim, volume or pod, such
//! as those about certificates: the Lease exists as long as Volume Warden runs.

use super::lease_name::LeaseName;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::ObjectReference};
use kube::{Api, Client};
use std::{sync::Arc, time::Duration};
use tokio::{sync::OnceCell, time::timeout};

const LOOK: Duration = Duration::from_secs(4);

/// The Lease of Volume Warden, as the object to which Events are attached.
#[derive(Clone)]
pub struct LeaseObject {
    leases: Api<Lease>,
    lease: Arc<LeaseName>,
    uid: Arc<OnceCell<String>>,
}

impl LeaseObject {
    /// Creates the reference without reading the Lease.
    pub fn new(client: Client, lease: LeaseName) -> Self {
        Self {
            leases: Api::namespaced(client, &lease.namespace),
            lease: Arc::new(lease),
            uid: Arc::default(),
        }
    }

    /// Returns the reference with the uid of the Lease, by which `kubectl describe` finds the
    /// Events. None while the Lease does not exist or cannot be read.
    pub async fn reference(&self) -> Option<ObjectReference> {
        let uid = self.uid.get_or_try_init(|| self.read_uid()).await.ok()?;
        Some(ObjectReference {
            api_version: Some("coordination.k8s.io/v1".to_owned()),
            kind: Some("Lease".to_owned()),
            namespace: Some(self.lease.namespace.clone()),
            name: Some(self.lease.name.clone()),
            uid: Some(uid.clone()),
            ..ObjectReference::default()
        })
    }

    async fn read_uid(&self) -> Result<String, ()> {
        let lease = timeout(LOOK, self.leases.get(&self.lease.name)).await;
        let lease = lease.ok().and_then(Result::ok);
        lease.and_then(|lease| lease.metadata.uid).ok_or(())
    }
}
