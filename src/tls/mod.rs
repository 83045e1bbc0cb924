//! Where the served certificate comes from: mounted files, or a CA of our own in a Secret that all replicas share.

mod ca_bundle;
mod config;
mod mounted;
mod pki;
mod self_signed;

pub use ca_bundle::Configuration;
pub use mounted::Mounted;
pub use self_signed::SelfSigned;

/// Makes ring the process's crypto provider. Call it first: the client and the server both need one, and two would panic.
pub fn install_crypto() {
    // An error says that one is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
