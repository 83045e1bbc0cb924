//! The measurement during the removal of the finalizers.

use crate::{
    Size,
    gone::{Gone, all_gone},
    protected::Space,
};
use anyhow::Result;
use std::time::Instant;
use volume_warden_controlplane::{Calls, Cluster, Component, Mark};

/// A measurement that has started.
pub struct Run<'a> {
    cluster: &'a Cluster,
    mark: Mark,
    gone: Gone,
    api_server: f64,
    started: Instant,
}

/// The results of a measurement.
pub struct Measured {
    /// Seconds from the start to the deletion of the last claim.
    pub seconds: f64,
    /// Processor time of kube-apiserver in this time, in seconds.
    pub api_server: f64,
    /// The calls to kube-apiserver.
    pub calls: Calls,
}

impl<'a> Run<'a> {
    /// Starts the measurement. All claims must exist.
    pub async fn begin(cluster: &'a Cluster, space: &Space, size: Size) -> Result<Self> {
        Ok(Self {
            cluster,
            mark: cluster.audit().mark()?,
            gone: all_gone(&space.claims, size.claims).await?,
            api_server: api_server(cluster)?,
            started: Instant::now(),
        })
    }

    /// Waits until the last claim is deleted.
    pub async fn end(self) -> Result<Measured> {
        Ok(Measured {
            seconds: self.gone.after(self.started).await?,
            api_server: api_server(self.cluster)? - self.api_server,
            calls: self.cluster.audit().since(self.mark)?,
        })
    }
}

fn api_server(cluster: &Cluster) -> Result<f64> {
    cluster.process(Component::Apiserver)?.cpu_seconds()
}
