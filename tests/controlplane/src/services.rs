//! Resolves cluster IPs to Services.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, ListParams};

use crate::util::lock;

const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// Resolves the cluster IPs that the API server dials to the names of Services.
#[derive(Debug)]
pub(crate) struct Services {
    config: kube::Config,
    /// Entries are never removed: a recreated Service gets another one of the 254 addresses.
    names: Mutex<HashMap<IpAddr, String>>,
}

impl Services {
    pub(crate) fn new(config: kube::Config) -> Self {
        Self {
            config,
            names: Mutex::default(),
        }
    }

    /// `name.namespace.svc` for a cluster IP; a host name is returned unchanged. Blocks.
    pub(crate) fn name(&self, host: &str) -> Result<String> {
        let Ok(address) = host.parse::<IpAddr>() else {
            return Ok(host.to_owned());
        };
        let known = lock(&self.names).get(&address).cloned();
        if let Some(name) = known {
            return Ok(name);
        }
        let name = self
            .look_up(address)
            .with_context(|| format!("looking for the Service at {address}"))?;
        lock(&self.names).insert(address, name.clone());
        Ok(name)
    }

    fn look_up(&self, address: IpAddr) -> Result<String> {
        // The threads of the proxy have no runtime, and need one only here.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let services: Api<Service> = Api::all(kube::Client::try_from(self.config.clone())?);
            let at = ListParams::default().fields(&format!("spec.clusterIP={address}"));
            let found = tokio::time::timeout(LOOKUP_TIMEOUT, services.list(&at)).await??;
            let metadata = found
                .items
                .into_iter()
                .next()
                .context("no Service has this address")?
                .metadata;
            let (name, namespace) = metadata
                .name
                .zip(metadata.namespace)
                .context("the Service has no name")?;
            Ok(format!("{name}.{namespace}.svc"))
        })
    }
}
