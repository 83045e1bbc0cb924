//! The certificate of both webhook servers.

use anyhow::Result;
use reqwest::{Certificate as Root, Client};
use std::path::Path;
use tempfile::TempDir;

/// The only name in the certificate.
const HOST: &str = "localhost";

/// A certificate in files, and a client configuration that trusts it.
pub struct Certificate {
    files: TempDir,
    root: Root,
}

impl Certificate {
    /// Creates a certificate with a P-256 key, the most common kind.
    pub fn new() -> Result<Self> {
        let made = rcgen::generate_simple_self_signed([HOST.to_owned()])?;
        let files = tempfile::tempdir()?;
        std::fs::write(files.path().join("tls.crt"), made.cert.pem())?;
        std::fs::write(
            files.path().join("tls.key"),
            made.signing_key.serialize_pem(),
        )?;
        let root = Root::from_pem(made.cert.pem().as_bytes())?;
        Ok(Self { files, root })
    }

    /// The directory of `tls.crt` and `tls.key`.
    pub fn directory(&self) -> &Path {
        self.files.path()
    }

    /// A client that trusts only this certificate.
    pub fn client(&self) -> Result<Client> {
        let client = Client::builder().tls_certs_only([self.root.clone()]);
        Ok(client.build()?)
    }
}

/// The URL of a webhook on this machine.
pub fn url(port: u16, path: &str) -> String {
    format!("https://{HOST}:{port}{path}")
}
