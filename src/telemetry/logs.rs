//! Configures log lines on standard error.

use crate::plain::Plain;
use tracing::{Level, Metadata, Subscriber, level_filters::LevelFilter};
use tracing_subscriber::{
    EnvFilter, Layer,
    field::MakeExt,
    filter::{FilterExt as _, FilterFn, filter_fn},
    fmt::{FormatFields, format::debug_fn},
    layer::SubscriberExt,
    registry::LookupSpan,
    util::SubscriberInitExt,
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

/// Starts logging. `RUST_LOG` sets the levels; the default is `info`, and `warn` for kube's own
/// modules. Of [`CLIENT`], at most errors are logged.
pub fn init(format: Format) {
    // If logging was started before, as in tests, the first start remains in effect.
    let _ = tracing_subscriber::registry()
        .with(lines(format))
        .try_init();
}

/// What is logged unless `RUST_LOG` says otherwise.
const FILTER: &str = "info,kube=warn";
/// kube's client. It warns of an answer that it cannot parse with the whole answer, which may be a
/// Secret; its callers log the error.
const CLIENT: &str = "kube_client::client";

/// Returns the layer that writes log lines in this format.
pub(super) fn lines<S>(format: Format) -> impl Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(FILTER));
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = match format {
        Format::Json => layer
            .json()
            .flatten_event(true)
            .with_span_list(false)
            .boxed(),
        Format::Text => layer
            .fmt_fields(escaped())
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .boxed(),
    };
    lines.with_filter(filter.and(without_answers()))
}

/// Leaves out what [`CLIENT`] logs below the level of errors.
fn without_answers() -> FilterFn {
    let logs: fn(&Metadata<'_>) -> bool =
        |line| *line.level() == Level::ERROR || !line.target().starts_with(CLIENT);
    filter_fn(logs).with_max_level_hint(LevelFilter::TRACE)
}

/// Returns the format of the fields of a text line. An error that quotes foreign text with a line
/// break does not begin a new line, as it would with the default format.
fn escaped() -> impl for<'writer> FormatFields<'writer> {
    debug_fn(|writer, field, value| {
        let value = Plain(format_args!("{value:?}"));
        match field.name() {
            "message" => write!(writer, "{value}"),
            name => write!(writer, "{name}={value}"),
        }
    })
    .delimited(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use std::sync::Arc;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let mut written = self.0.lock();
            written.extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn no_filter_makes_the_client_log_answers() {
        for (filter, expected) in [
            ("trace", "failed other "),
            ("info,kube_client::client=debug", "failed other "),
            ("off", ""),
        ] {
            let written = Written::default();
            let writer = written.clone();
            let lines = tracing_subscriber::fmt::layer()
                .event_format(
                    tracing_subscriber::fmt::format()
                        .with_level(false)
                        .with_target(false)
                        .without_time(),
                )
                .with_writer(move || writer.clone())
                .with_filter(EnvFilter::new(filter).and(without_answers()));
            tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), || {
                tracing::warn!(target: "kube_client::client", "answer");
                tracing::error!(target: "kube_client::client", "failed");
                tracing::warn!(target: "kube_client::config", "other");
            });
            let written = String::from_utf8(written.0.lock().clone()).expect("UTF-8");
            assert_eq!(written.replace('\n', " "), expected, "{filter}");
        }
    }

    #[test]
    fn foreign_text_stays_on_one_line_of_text() {
        let written = Written::default();
        let writer = written.clone();
        let subscriber = tracing_subscriber::fmt()
            .fmt_fields(escaped())
            .with_writer(move || writer.clone())
            .without_time()
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            let error = "a\n INFO volume-warden: all is well\u{1b}[2J";
            tracing::warn!(pod = "web-0", %error, "the claim\nwas not created");
        });
        let written = String::from_utf8(written.0.lock().clone()).expect("UTF-8");
        let expected = "the claim\\nwas not created pod=\"web-0\" error=a\\n INFO volume-warden: all is well\\u{1b}[2J\n";
        assert!(written.ends_with(expected), "{written}");
        assert_eq!(written.lines().count(), 1, "{written}");
    }
}
