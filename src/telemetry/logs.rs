//! Logs on standard error.

use tracing_subscriber::{EnvFilter, layer::SubscriberExt, util::SubscriberInitExt};

/// How a log line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// One JSON object per line, for machines.
    #[default]
    Json,
    /// For a person at a terminal.
    Text,
}

/// Starts logging. `RUST_LOG` chooses what, as usual; kube's own modules only warn unless told otherwise, because they log
/// every request.
pub fn init(format: Format) {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,kube=warn"));
    let registry = tracing_subscriber::registry().with(filter);
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    // A second start, as tests do, leaves the first as it is.
    let _ = match format {
        Format::Json => registry
            .with(layer.json().flatten_event(true).with_span_list(false))
            .try_init(),
        Format::Text => registry
            .with(layer.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())))
            .try_init(),
    };
}
