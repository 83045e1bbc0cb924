//! Version and commit of Volume Warden.

/// The version of its package.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit it was built from, or `unknown`: see `build.rs`.
pub const COMMIT: &str = env!("VOLUME_WARDEN_COMMIT");

/// Both, for people.
pub const VERSION_AND_COMMIT: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("VOLUME_WARDEN_COMMIT"),
    ")"
);
