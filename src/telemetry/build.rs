//! Metric with the version and commit of the running binary.

use crate::version::{COMMIT, VERSION};
use prometheus_client::{metrics::info::Info, registry::Registry};

pub(super) fn register(registry: &mut Registry) {
    let info = Info::new([("version", VERSION), ("commit", COMMIT)]);
    registry.register("build", "Version and commit of the running binary", info);
}
