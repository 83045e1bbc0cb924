//! Telemetry of Volume Warden: metrics, health, logs, traces.

pub mod admission;
mod build;
mod certificate;
pub mod health;
mod held;
mod http;
pub(crate) mod labels;
mod log_limiter;
pub mod logs;
mod metrics;
#[cfg(feature = "otlp")]
pub mod otlp;
mod process;
mod registrar;
mod scrapes;
#[cfg(test)]
pub(crate) mod test_log;
mod watches;
mod work;

pub use certificate::CertificateMetrics;
pub use held::HeldMetrics;
pub use log_limiter::{LogLimiter, NamespaceLogLimiter};
pub use metrics::Metrics;
pub use registrar::Registrar;
pub use work::FAILED;
