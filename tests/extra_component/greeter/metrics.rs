//! The metric of greeter.

use prometheus_client::metrics::counter::Counter;
use volume_warden::telemetry::Metrics;

/// Registers the counter of claims that the reconciler wrote.
pub fn register(metrics: &Metrics) -> Counter {
    let help = "Claims that got the finalizer in the background";
    metrics.register(|own| own.add("greeter_greetings", help))
}
