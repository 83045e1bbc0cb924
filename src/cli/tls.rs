//! The flags of the certificate, and of who may call.

use crate::{
    admission::Rotation,
    go_duration,
    tls::{Clients, Lifetimes, Mounted},
};
use clap::{Args, error::ErrorKind};
use std::{path::PathBuf, time::Duration};

#[derive(Debug, Args)]
#[command(next_help_heading = "TLS")]
pub(super) struct TlsOptions {
    /// Certificate chain to serve, PEM, reloaded when it changes. Without it Volume Warden makes a CA and a certificate of its
    /// own and publishes the CA in its webhook configurations.
    #[arg(long, requires = "tls_private_key_file", value_name = "FILE")]
    tls_cert_file: Option<PathBuf>,

    /// The certificate's private key, PEM.
    #[arg(long, requires = "tls_cert_file", value_name = "FILE")]
    tls_private_key_file: Option<PathBuf>,

    /// Secret of the self-made certificate, shared by all replicas.
    #[arg(long, default_value = "volume-warden-tls", value_name = "NAME")]
    pub(super) tls_secret_name: String,

    /// Service the webhook configurations name; the self-made certificate is for it.
    #[arg(long, default_value = "volume-warden", value_name = "NAME")]
    pub(super) service_name: String,

    /// Secret that stores the path of the webhooks. The API server is the only client that learns this path.
    #[arg(long, default_value = "volume-warden-serving", value_name = "NAME")]
    pub(super) webhook_path_secret: String,

    /// Age at which the path of the webhooks is replaced, at least 10s. The path before it is accepted for another hour.
    #[arg(
        long,
        default_value = "720h",
        value_parser = rotation,
        value_name = "DURATION"
    )]
    webhook_path_rotation: Duration,

    /// For how long a self-made CA is valid. It is replaced at two thirds of that.
    #[arg(
        long,
        default_value = "8760h",
        value_parser = go_duration::parse,
        // Beside files nothing is made, and it would be without effect.
        conflicts_with = "tls_cert_file",
        value_name = "DURATION"
    )]
    tls_ca_lifetime: Duration,

    /// For how long a self-made certificate is valid; half as long as its CA at most. It is renewed at two thirds of that.
    #[arg(
        long,
        default_value = "2160h",
        value_parser = go_duration::parse,
        // Beside files nothing is made, and it would be without effect.
        conflicts_with = "tls_cert_file",
        value_name = "DURATION"
    )]
    tls_certificate_lifetime: Duration,

    /// CAs of clients, PEM, reloaded when it changes: nobody else than a client with a certificate of one of them may call the
    /// webhooks. The API server has to be told to show one.
    #[arg(long, value_name = "FILE")]
    client_ca_file: Option<PathBuf>,

    /// Common names that such a certificate may have [default: any]
    #[arg(
        long,
        requires = "client_ca_file",
        value_delimiter = ',',
        value_parser = clap::builder::NonEmptyStringValueParser::new(),
        value_name = "NAME,…"
    )]
    client_allowed_name: Vec<String>,
}

/// Replicas read the Secret several times before a new path is published.
fn rotation(text: &str) -> Result<Duration, String> {
    let every = go_duration::parse(text)?;
    if every < Duration::from_secs(10) {
        return Err("must be at least 10s".to_owned());
    }
    Ok(every)
}

impl TlsOptions {
    /// How often the path of the webhooks is replaced.
    pub(super) fn rotation(&self) -> Rotation {
        Rotation {
            every: self.webhook_path_rotation,
        }
    }

    /// Of certificates that are made here.
    ///
    /// # Errors
    /// When they cannot be kept, as a usage error.
    pub(super) fn lifetimes(&self) -> Result<Lifetimes, clap::Error> {
        let lifetimes = Lifetimes::new(self.tls_ca_lifetime, self.tls_certificate_lifetime);
        lifetimes.map_err(|told| {
            let told = format!("--tls-ca-lifetime, --tls-certificate-lifetime: {told}");
            clap::Error::raw(ErrorKind::ValueValidation, told)
        })
    }

    /// The files with the certificate, where there are any.
    pub(super) fn mounted(&self) -> Option<Mounted> {
        let files = self
            .tls_cert_file
            .clone()
            .zip(self.tls_private_key_file.clone());
        files.map(|(certificate, key)| Mounted { certificate, key })
    }

    /// Who may call, where not everybody may.
    pub(super) fn clients(&self) -> Option<Clients> {
        self.client_ca_file.clone().map(|authorities| Clients {
            authorities,
            names: self.client_allowed_name.clone(),
        })
    }
}
