//! The log lines of a test, for the tests that read them.

use std::{cell::RefCell, sync::Once};
use tracing_subscriber::fmt::MakeWriter;

thread_local! {
    /// The log lines that this thread has written.
    static LINES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Appends each log line to [`LINES`] of the thread that logs.
struct Lines;

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LINES.with_borrow_mut(|lines| lines.write(bytes))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        Self
    }
}

/// The log lines of this thread, from the level info.
pub(crate) struct Log;

impl Log {
    /// Begins with no lines. Logs to [`LINES`] in all threads: with a subscriber for one thread
    /// only, another thread that reaches a log statement first would switch that statement off for
    /// the whole process.
    pub(crate) fn begin() -> Self {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| tracing_subscriber::fmt().with_writer(Lines).init());
        LINES.take();
        Self
    }

    /// Returns the lines since the beginning, or since the last call.
    pub(crate) fn lines(&self) -> String {
        String::from_utf8(LINES.take()).expect("text")
    }
}
