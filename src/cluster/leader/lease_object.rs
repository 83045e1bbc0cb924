//! The Lease of Volume Warden as the object of Events that are about no claim, volume or pod, such
//! as those about certificates: the Lease exists as long as Volume Warden runs.

use super::lease_name::LeaseName;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::ObjectReference};
use kube::{Api, Client};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};

const READ_TIMEOUT: Duration = Duration::from_secs(4);
/// Age from which the uid is read again: the Lease may have been recreated with another uid.
const MAX_AGE: Duration = Duration::from_secs(60);

/// The Lease of Volume Warden, as the object to which Events are attached.
#[derive(Clone)]
pub struct LeaseObject {
    leases: Api<Lease>,
    lease: Arc<LeaseName>,
    /// The uid, and when it was read.
    uid: Arc<Mutex<Option<(String, Instant)>>>,
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
    /// Events. None if the Lease does not exist or cannot be read, and its uid was not read in the
    /// last minute.
    pub async fn reference(&self) -> Option<ObjectReference> {
        let uid = self.uid().await?;
        Some(ObjectReference {
            api_version: Some("coordination.k8s.io/v1".to_owned()),
            kind: Some("Lease".to_owned()),
            namespace: Some(self.lease.namespace.clone()),
            name: Some(self.lease.name.clone()),
            uid: Some(uid),
            ..ObjectReference::default()
        })
    }

    /// Returns the uid of the Lease. A uid that was read is returned for a minute without a new
    /// read.
    async fn uid(&self) -> Option<String> {
        let mut known = self.uid.lock().await;
        if let Some((uid, read)) = &*known
            && read.elapsed() < MAX_AGE
        {
            return Some(uid.clone());
        }
        let lease = timeout(READ_TIMEOUT, self.leases.get(&self.lease.name)).await;
        let uid = lease.ok().and_then(Result::ok)?.metadata.uid?;
        *known = Some((uid.clone(), Instant::now()));
        Some(uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::test_server::answering;
    use serde_json::json;

    /// The Lease is recreated, and read again after a minute.
    #[tokio::test(start_paused = true)]
    async fn the_uid_is_that_of_a_recreated_lease() {
        let reads = Arc::new(parking_lot::Mutex::new(0));
        let counted = reads.clone();
        let client = answering(move |_, _| {
            let mut reads = counted.lock();
            *reads += 1;
            let lease = json!({"metadata": {"name": "warden", "uid": reads.to_string()}});
            (200, lease)
        });
        let lease = LeaseName {
            namespace: "ns".to_owned(),
            name: "warden".to_owned(),
            identity: "a".to_owned(),
            former: None,
            labels: Default::default(),
        };
        let object = LeaseObject::new(client, lease);
        let uid = async || object.reference().await.expect("a reference").uid;
        assert_eq!(uid().await.as_deref(), Some("1"));
        assert_eq!(
            uid().await.as_deref(),
            Some("1"),
            "it is not read each time"
        );
        tokio::time::advance(MAX_AGE).await;
        assert_eq!(uid().await.as_deref(), Some("2"));
        assert_eq!(*reads.lock(), 2);
    }
}
