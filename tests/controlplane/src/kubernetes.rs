//! The version of Kubernetes that the control plane runs.

use std::env;

use anyhow::{Result, bail};

/// The variable that selects the version.
const VARIABLE: &str = "VOLUME_WARDEN_KUBERNETES";

/// A supported version of Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kubernetes {
    /// The version that CI uses: the newest one whose StatefulSet controller can be configured to
    /// leave claims unchanged. This controller also runs in clusters of the newest version.
    V1_34,
    /// The newest version.
    V1_37,
}

impl Kubernetes {
    /// The version that `VOLUME_WARDEN_KUBERNETES` selects, or else 1.34.
    pub fn chosen() -> Result<Self> {
        let chosen = env::var(VARIABLE).unwrap_or_default();
        match chosen.as_str() {
            "" | "1.34" => Ok(Self::V1_34),
            "1.37" => Ok(Self::V1_37),
            other => bail!(
                "{VARIABLE} is {other}, which the tests do not support; set 1.34 (default) or 1.37"
            ),
        }
    }

    /// Whether the StatefulSet controller can be configured to leave claims unchanged. The feature
    /// gate for this is locked since 1.32, and a component emulates no version that is more than
    /// three versions older than its own.
    pub(crate) fn retention_can_be_off(self) -> bool {
        self == Self::V1_34
    }

    /// The directory of the Go module that pins it.
    pub(crate) fn go_module(self) -> &'static str {
        match self {
            Self::V1_34 => concat!(env!("CARGO_MANIFEST_DIR"), "/kubernetes"),
            Self::V1_37 => concat!(env!("CARGO_MANIFEST_DIR"), "/kubernetes-1.37"),
        }
    }

    pub(crate) fn go_mod(self) -> &'static str {
        match self {
            Self::V1_34 => include_str!("../kubernetes/go.mod"),
            Self::V1_37 => include_str!("../kubernetes-1.37/go.mod"),
        }
    }

    pub(crate) fn go_sum(self) -> &'static str {
        match self {
            Self::V1_34 => include_str!("../kubernetes/go.sum"),
            Self::V1_37 => include_str!("../kubernetes-1.37/go.sum"),
        }
    }
}
