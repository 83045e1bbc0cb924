//! What Volume Warden tells about itself: metrics, health, logs.

pub mod health;
mod labels;
pub mod logs;
mod metrics;
mod process;

pub use metrics::Metrics;
