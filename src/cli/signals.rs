//! Waits for the signals that end the process: SIGTERM and SIGINT, or Ctrl-C on Windows.

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};
#[cfg(windows)]
use tokio::signal::windows::{CtrlC, ctrl_c};

/// Receives SIGTERM and SIGINT. Once created, these signals no longer end the process by default.
#[cfg(unix)]
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

#[cfg(unix)]
impl Signals {
    /// Installs the signal handlers.
    ///
    /// # Errors
    /// When the operating system refuses a signal handler.
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next signal and returns its name.
    pub(super) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Receives Ctrl-C. On Windows only the client commands are supported.
#[cfg(windows)]
pub(super) struct Signals(CtrlC);

#[cfg(windows)]
impl Signals {
    /// Installs the handler of Ctrl-C.
    ///
    /// # Errors
    /// When the operating system refuses the handler.
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self(ctrl_c()?))
    }

    /// Waits for Ctrl-C and returns its name.
    pub(super) async fn next(&mut self) -> &'static str {
        self.0.recv().await;
        "Ctrl-C"
    }
}
