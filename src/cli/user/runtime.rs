//! The runtime of the commands of a user.

use crate::tls::install_crypto;
use std::process::ExitCode;

/// Runs a command of a user to its end, on this thread.
pub(in crate::cli) fn block_on(
    command: impl Future<Output = anyhow::Result<ExitCode>>,
) -> anyhow::Result<ExitCode> {
    install_crypto();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(command)
}
