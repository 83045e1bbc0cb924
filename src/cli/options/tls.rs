//! The flags of the serving certificate and of client authentication.

use crate::{
    admission::Rotation,
    go_duration,
    tls::{Clients, Lifetimes, Mounted},
};
use clap::{Args, error::ErrorKind};
use std::{path::PathBuf, time::Duration};

#[derive(Debug, Args)]
#[command(next_help_heading = "TLS")]
pub(in crate::cli) struct TlsOptions {
    /// Certificate chain to serve, PEM, reloaded when it changes. Without it Volume Warden creates
    /// a CA and a certificate and publishes the CA in its webhook configurations.
    #[arg(long, requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,

    /// Private key of the certificate, PEM.
    #[arg(long, requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,

    /// Secret of the self-signed certificate, shared by all replicas.
    #[arg(long, default_value = "volume-warden-tls", value_name = "NAME")]
    tls_secret_name: String,

    /// Service that the webhook configurations name. The self-signed certificate is valid for it.
    #[arg(long, default_value = "volume-warden", value_name = "NAME")]
    pub(in crate::cli) service_name: String,

    /// Secret that stores the path of the webhooks. The API server is the only client that learns
    /// this path.
    #[arg(long, default_value = "volume-warden-serving", value_name = "NAME")]
    pub(in crate::cli) webhook_path_secret: String,

    /// Age at which the path of the webhooks is replaced, at least 10s. The previous path is
    /// accepted for another hour, and as long as a webhook configuration has it.
    #[arg(long, default_value = "720h", value_parser = rotation)]
    webhook_path_rotation: Duration,

    /// Lifetime of a self-signed CA, which is replaced after two thirds of its lifetime.
    #[arg(
        long,
        default_value = "8760h",
        value_parser = go_duration::parse,
        // With mounted files no certificate is created, so this flag would have no effect.
        conflicts_with = "tls_cert_file",
    )]
    tls_ca_lifetime: Duration,

    /// Lifetime of a self-signed certificate, at most half of the CA's. The certificate is renewed
    /// after two thirds of its lifetime.
    #[arg(
        long,
        default_value = "2160h",
        value_parser = go_duration::parse,
        // With mounted files no certificate is created, so this flag would have no effect.
        conflicts_with = "tls_cert_file",
    )]
    tls_certificate_lifetime: Duration,

    /// Client CAs, PEM, reloaded when the file changes: only a client with a certificate of one of
    /// them may call the webhooks. Configure the API server to present such a certificate.
    #[arg(long)]
    client_ca_file: Option<PathBuf>,

    /// Accepted common names of client certificates [default: any]
    #[arg(
        long,
        requires = "client_ca_file",
        value_delimiter = ',',
        value_parser = clap::builder::NonEmptyStringValueParser::new(),
        value_name = "NAME,…"
    )]
    client_allowed_name: Vec<String>,
}

/// Parses a rotation interval. The minimum lets replicas read the Secret several times before a
/// new path is published.
fn rotation(text: &str) -> Result<Duration, String> {
    let every = go_duration::parse(text)?;
    if every < Duration::from_secs(10) {
        return Err("the rotation interval must be at least 10s".to_owned());
    }
    Ok(every)
}

impl TlsOptions {
    pub(in crate::cli) fn rotation(&self) -> Rotation {
        Rotation {
            every: self.webhook_path_rotation,
        }
    }

    /// Returns the name of the Secret of the self-signed certificate.
    ///
    /// # Errors
    /// A usage error, when the Secret also stores the path of the webhooks: each of the two would
    /// remove the content of the other.
    pub(in crate::cli) fn secret_name(&self) -> Result<String, clap::Error> {
        if self.tls_secret_name == self.webhook_path_secret {
            let message = "--tls-secret-name and --webhook-path-secret have to name two Secrets";
            return Err(clap::Error::raw(ErrorKind::ValueValidation, message));
        }
        Ok(self.tls_secret_name.clone())
    }

    /// Returns the lifetimes of self-signed certificates.
    ///
    /// # Errors
    /// A usage error, when the lifetimes are not valid together.
    pub(in crate::cli) fn lifetimes(&self) -> Result<Lifetimes, clap::Error> {
        let lifetimes = Lifetimes::new(self.tls_ca_lifetime, self.tls_certificate_lifetime);
        lifetimes.map_err(|error| {
            let message = format!("--tls-ca-lifetime, --tls-certificate-lifetime: {error}");
            clap::Error::raw(ErrorKind::ValueValidation, message)
        })
    }

    /// Returns the mounted certificate files, if they are configured.
    pub(in crate::cli) fn mounted(&self) -> Option<Mounted> {
        let files = self
            .tls_cert_file
            .clone()
            .zip(self.tls_private_key_file.clone());
        files.map(|(certificate, key)| Mounted { certificate, key })
    }

    /// Returns the requirements for client certificates; `None` accepts every client.
    pub(in crate::cli) fn clients(&self) -> Option<Clients> {
        self.client_ca_file.clone().map(|authorities| Clients {
            authorities,
            names: self.client_allowed_name.clone(),
        })
    }
}
