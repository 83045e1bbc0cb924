//! What Volume Warden tells about itself: metrics, health, logs.

mod backend;
pub mod health;
mod labels;
pub mod logs;
mod metrics;
mod process;

pub use backend::BackendMetrics;
pub use metrics::Metrics;
