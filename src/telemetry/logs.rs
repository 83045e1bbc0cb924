//! Configures log lines on standard error.

use tracing::Subscriber;
use tracing_subscriber::{
    EnvFilter, Layer, layer::SubscriberExt, registry::LookupSpan, util::SubscriberInitExt,
};

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// One JSON object per line, for machines.
    #[default]
    Json,
    /// Plain text, for a person at a terminal.
    Text,
}

/// Starts logging. `RUST_LOG` sets the levels. By default, kube's own modules only warn, because
/// they log every request.
pub fn init(format: Format) {
    // If logging was started before, as in tests, the first start remains in effect.
    let _ = tracing_subscriber::registry()
        .with(lines(format))
        .try_init();
}

/// Returns the layer that writes log lines in this format.
pub(super) fn lines<S>(format: Format) -> impl Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,kube=warn"));
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = match format {
        Format::Json => layer
            .json()
            .flatten_event(true)
            .with_span_list(false)
            .boxed(),
        Format::Text => layer
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .boxed(),
    };
    lines.with_filter(filter)
}
