//! What Volume Warden tells about itself: metrics, health, logs.

mod admission;
mod backend;
mod build;
mod certificate;
mod feeds;
pub mod health;
mod http;
mod labels;
pub mod logs;
mod metrics;
#[cfg(feature = "otlp")]
pub mod otlp;
mod process;
mod protection;
mod provisioning;
mod releasing;
mod retention;
mod scrapes;
mod sparse;
mod work;

pub use backend::BackendMetrics;
pub use metrics::Metrics;
pub use sparse::Sparse;
