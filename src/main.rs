//! The `volume-warden` binary.

use std::process::ExitCode;

/// On Linux, mimalloc replaces the allocator of the C library: that of musl serves one thread at a
/// time, and that of glibc returns less unused memory to the system.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    volume_warden::main(volume_warden::COMPONENTS)
}
