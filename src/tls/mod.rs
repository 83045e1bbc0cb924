//! Where the served certificate comes from: mounted files, or a self-signed CA in a Secret that
//! all replicas share. Whether the API server trusts it, when it ends, and who may call.

mod ca_bundle;
mod clients;
mod config;
mod expiry;
mod files;
mod lifetimes;
mod material;
mod mounted;
mod pki;
mod secret;
mod self_signed;
mod service;
#[cfg(test)]
mod test_api;
mod trust;
mod warnings;

pub use clients::Clients;
pub use files::{Loaded, Source};
pub use lifetimes::Lifetimes;
pub use mounted::{Mounted, judge};
pub use self_signed::{SelfSigned, Settings};
pub use service::Service;
pub use warnings::Warnings;

/// Installs ring as the crypto provider of the process. Call it first: the client and the server
/// both need one, and two would panic.
pub fn install_crypto() {
    // An error says that one is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
