//! TLS of the webhook server: the serving certificate, from mounted files or from a self-signed CA
//! in a Secret that all replicas share; whether the API server trusts it; when it expires; and
//! which clients may connect.

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
mod serving_certificate;
#[cfg(test)]
mod test_api;
mod trust;
mod warnings;

pub use clients::Clients;
pub use files::{Loaded, Source};
pub use lifetimes::Lifetimes;
pub use mounted::{Mounted, check_trust};
pub use self_signed::{SelfSigned, Settings};
pub use serving_certificate::ServingCertificate;
pub use warnings::Warnings;
#[cfg(feature = "simulation")]
pub use warnings::reasons;

/// Installs ring as the crypto provider of the process. Call it before any TLS client or server is
/// created: both use the provider of the process, and panic if it is ambiguous.
pub fn install_crypto() {
    // An error means that a crypto provider is installed already, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
