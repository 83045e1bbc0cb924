//! Version and commit of Volume Warden.

/// The version of Volume Warden, from `Cargo.toml`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit from which the binary was built; `unknown` if `build.rs` finds none, as in a debug
/// build without the environment variable `VOLUME_WARDEN_COMMIT`.
pub const COMMIT: &str = env!("VOLUME_WARDEN_COMMIT");

/// Version and commit as `--version` prints them.
pub const VERSION_AND_COMMIT: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("VOLUME_WARDEN_COMMIT"),
    ")"
);
