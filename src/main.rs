//! The `volume-warden` binary.

use std::process::ExitCode;

/// The memory allocator mimalloc, because that of musl serves one thread at a time.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    volume_warden::cli::main(volume_warden::components::ALL)
}
