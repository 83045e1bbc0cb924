//! The metric of greeter.

use prometheus_client::metrics::counter::Counter;
use volume_warden::telemetry::Metrics;

/// Claims that the reconciler wrote.
pub fn register(metrics: &Metrics) -> Counter {
    let greetings = Counter::default();
    metrics.register(|registry| {
        let help = "Claims that got the finalizer in the background";
        registry.register("greeter_greetings", help, greetings.clone());
    });
    greetings
}
