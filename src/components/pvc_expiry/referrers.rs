//! Reads which workloads (StatefulSets, Deployments, CronJobs and Jobs) and custom resources name
//! claims that no pod uses now.

use crate::{
    cluster::ReconcileError,
    inventory::{Listed, ReferencePath, References, is_finished, read_workloads},
    objects::ObjectName,
};
use kube::Client;
use std::sync::Arc;
use tokio::{sync::Mutex, time::Instant};

/// Reads the objects of one namespace at a time, so that the claims of a namespace share a read.
pub struct Referrers {
    client: Client,
    paths: Vec<ReferencePath>,
    last: Mutex<Option<Read>>,
}

/// The workloads and custom resources of one namespace, as they were read last.
struct Read {
    namespace: Arc<str>,
    began: Instant,
    listed: Listed,
}

impl Referrers {
    /// Creates a reader. `paths` are those of `--expiry-references`, at which custom resources
    /// name claims.
    pub fn new(client: Client, paths: Vec<ReferencePath>) -> Self {
        Self {
            client,
            paths,
            last: Mutex::default(),
        }
    }

    /// Returns descriptions of the workloads and custom resources that name the claim, from a read
    /// that began after `since`. A Job that has ended and a VolumeSnapshot do not count: neither
    /// uses the claim again.
    ///
    /// # Errors
    /// When any kind could not be listed.
    pub async fn of(
        &self,
        name: &ObjectName,
        since: Instant,
    ) -> Result<Vec<String>, ReconcileError> {
        let mut last = self.last.lock().await;
        let known = last.take_if(|read| read.namespace == name.namespace && read.began >= since);
        let read = match known {
            Some(read) => read,
            None => self.read(&name.namespace).await?,
        };
        let found = References::new(&read.listed).to(&name.namespace, &name.name);
        *last = Some(read);
        Ok(found)
    }

    async fn read(&self, namespace: &Arc<str>) -> Result<Read, ReconcileError> {
        let began = Instant::now();
        let mut listed = read_workloads(&self.client, Some(namespace), &self.paths).await;
        if let Some(error) = listed.errors.first() {
            return Err(ReconcileError::new(error.clone()));
        }
        listed.jobs.retain(|job| !is_finished(job));
        Ok(Read {
            namespace: namespace.clone(),
            began,
            listed,
        })
    }
}
