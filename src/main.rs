//! The `volume-warden` binary.

use std::process::ExitCode;

/// The memory allocator mimalloc. That of musl serves one thread at a time, and that of glibc keeps
/// more memory that is not in use.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    volume_warden::cli::main(volume_warden::components::ALL)
}
