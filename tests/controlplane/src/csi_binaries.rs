//! The CSI driver of the tests, and the sidecars of Kubernetes for CSI drivers.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use crate::binaries::{locate_apart, pinned_version};
use crate::go_build::{download, go_build};

const MODULE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/csi-driver");
const GO_MOD: &str = include_str!("../csi-driver/go.mod");
const PINS: [&str; 3] = [
    GO_MOD,
    include_str!("../csi-driver/go.sum"),
    include_str!("../csi-driver/main.go"),
];
const SPECIFICATION: &str = "github.com/container-storage-interface/spec";
const DRIVER: &str = "csi-driver";

/// A released sidecar, built from its own module and with its own dependencies.
#[derive(Debug)]
pub(crate) struct Released {
    pub(crate) name: &'static str,
    module: &'static str,
    version: &'static str,
    /// The checksum of the module, which also pins its dependencies.
    sum: &'static str,
}

pub(crate) const PROVISIONER: Released = Released {
    name: "csi-provisioner",
    module: "github.com/kubernetes-csi/external-provisioner/v6",
    version: "v6.3.0",
    sum: "h1:cC5Y10GbdTHXUTBBz0g7jKZKm7AJJk586WV5rVNWdck=",
};
pub(crate) const ATTACHER: Released = Released {
    name: "csi-attacher",
    module: "github.com/kubernetes-csi/external-attacher/v4",
    version: "v4.13.0",
    sum: "h1:lvr4pjyBc6TV57EB78mNrsg/KgaGFL5wc4Xe/i9Y+bM=",
};

/// Finds the CSI driver, and builds it on this user's first use.
pub(crate) fn driver() -> Result<PathBuf> {
    let version = pinned_version(GO_MOD, SPECIFICATION)?;
    let build = |output: &Path| go_build("the CSI driver", MODULE, "-s -w", &["."], output);
    Ok(locate_apart(&[DRIVER], version, &PINS, build)?.join(DRIVER))
}

impl Released {
    /// Finds the sidecar, and builds it on this user's first use, which takes minutes.
    pub(crate) fn locate(&self) -> Result<PathBuf> {
        let directory = locate_apart(&[self.name], self.version, &[self.sum], |output| {
            self.build(output)
        })?;
        Ok(directory.join(self.name))
    }

    fn build(&self, output: &Path) -> Result<()> {
        let version = self.version;
        let module = download(&format!("{}@{version}", self.module), output)?;
        ensure!(
            module.sum == self.sum,
            "{} {version} has the checksum {}, not {}",
            self.module,
            module.sum,
            self.sum
        );
        let flags = format!("-s -w -X main.version={version}");
        let package = format!("./cmd/{}", self.name);
        go_build(self.name, module.dir, &flags, &[&package], output)
    }
}
