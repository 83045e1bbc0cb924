//! The flags that say which storage backend there is.

use super::Scope;
use crate::{
    backend::{
        Backend, Directory, StorageOs,
        storageos::{Endpoint, Options, TlsFiles},
    },
    go_duration,
};
use clap::{ArgAction, Args, ValueEnum, error::ErrorKind};
use std::{path::PathBuf, sync::Arc, time::Duration};

/// Which storage backend to use, and how to reach it.
#[derive(Debug, Args)]
#[command(next_help_heading = "namespace-gc: storage backend")]
pub struct BackendOptions {
    /// Storage from which namespaces are removed that Kubernetes no longer has. Without it namespace-gc is inactive.
    #[arg(long, value_enum)]
    storage_backend: Option<Kind>,

    /// Directory with a directory for each namespace. It has to hold a file .volume-warden-root.
    #[arg(
        long,
        required_if_eq("storage_backend", "directory"),
        value_name = "DIRECTORY"
    )]
    directory_root: Option<PathBuf>,

    /// The API of StorageOS: a host, host:port or URL. Without a scheme it is https, or http with --insecure-http; without a port,
    /// 5705.
    #[arg(long, default_value = "storageos", value_name = "ENDPOINT")]
    storageos_endpoint: String,

    /// Directory of the files username and password, read at each login.
    #[arg(
        long,
        default_value = "/etc/storageos/secrets/api",
        value_name = "DIRECTORY"
    )]
    storageos_secret_path: PathBuf,

    /// How long a token is used before it is refreshed, where the server does not tell its life.
    #[arg(
        long,
        default_value = "1m",
        value_parser = go_duration::parse,
        value_name = "DURATION"
    )]
    storageos_refresh_interval: Duration,

    /// Between one login and the next, whoever needs it.
    #[arg(
        long,
        default_value = "5s",
        value_parser = go_duration::parse_pause,
        value_name = "DURATION"
    )]
    storageos_retry_interval: Duration,

    /// The only authorities to trust, PEM, read again when it changes [default: those of the system]
    #[arg(long, value_name = "FILE")]
    storageos_ca_file: Option<PathBuf>,

    /// A certificate to show to the server, PEM, read again when it changes.
    #[arg(long, requires = "storageos_client_key_file", value_name = "FILE")]
    storageos_client_cert_file: Option<PathBuf>,

    /// Its private key, PEM.
    #[arg(long, requires = "storageos_client_cert_file", value_name = "FILE")]
    storageos_client_key_file: Option<PathBuf>,

    /// Let the password and the tokens go over plain HTTP, where everyone on the way can read them.
    #[arg(
        long,
        action = ArgAction::Set,
        default_value_t,
        value_name = "BOOL"
    )]
    insecure_http: bool,
}

/// The storage backends that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// StorageOS, by its REST API of version 2.
    #[value(name = "storageos")]
    StorageOs,
    /// A directory for each namespace.
    Directory,
}

impl BackendOptions {
    /// Whether one is named.
    pub fn is_named(&self) -> bool {
        self.storage_backend.is_some()
    }

    /// What a collection may take where nobody says: a directory may be shared with others.
    pub fn scope(&self) -> Scope {
        match self.storage_backend {
            Some(Kind::Directory) => Scope::Seen,
            Some(Kind::StorageOs) | None => Scope::All,
        }
    }

    /// The backend that is named.
    ///
    /// # Errors
    /// When the root is none, or the endpoint cannot be used, which is a wrong command line.
    pub async fn backend(&self) -> anyhow::Result<Option<Arc<dyn Backend>>> {
        Ok(match self.storage_backend {
            None => None,
            Some(Kind::StorageOs) => Some(Arc::new(StorageOs::new(self.storageos()?))),
            Some(Kind::Directory) => {
                // Without a value the command line is refused.
                let root = self.directory_root.clone().unwrap_or_default();
                Some(Arc::new(Directory::open(root).await?))
            }
        })
    }

    fn storageos(&self) -> anyhow::Result<Options> {
        let endpoint = Endpoint::parse(&self.storageos_endpoint, self.insecure_http);
        let endpoint = endpoint.map_err(|error| {
            // Without the value: it may hold a password.
            let told = format!("--storageos-endpoint: {error}");
            clap::Error::raw(ErrorKind::ValueValidation, told)
        })?;
        if endpoint.is_plain() {
            tracing::warn!(%endpoint, "the password and the tokens go over plain HTTP");
        }
        let identity = self.storageos_client_cert_file.clone();
        Ok(Options {
            secrets: self.storageos_secret_path.clone(),
            tls: TlsFiles {
                authority: self.storageos_ca_file.clone(),
                identity: identity.zip(self.storageos_client_key_file.clone()),
            },
            refresh_interval: self.storageos_refresh_interval,
            login_interval: self.storageos_retry_interval,
            ..Options::new(endpoint)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        backend: BackendOptions,
    }

    fn storageos(flags: &[&str]) -> anyhow::Result<Options> {
        let line = ["run", "--storage-backend=storageos"];
        let arguments = Arguments::try_parse_from(line.iter().chain(flags))?;
        arguments.backend.storageos()
    }

    #[test]
    fn without_flags_it_is_as_documented() {
        let endpoint = Endpoint::parse("https://storageos:5705", false).expect("an endpoint");
        let expected = format!("{:?}", Options::new(endpoint));
        let options = storageos(&[]).expect("options");
        assert_eq!(format!("{options:?}"), expected);
    }

    #[test]
    fn every_flag_reaches_what_it_is_for() {
        let options = storageos(&[
            "--storageos-endpoint=http://host:1",
            "--insecure-http=true",
            "--storageos-secret-path=/secrets",
            "--storageos-refresh-interval=11s",
            "--storageos-retry-interval=12s",
            "--storageos-ca-file=/ca",
            "--storageos-client-cert-file=/cert",
            "--storageos-client-key-file=/key",
        ])
        .expect("options");
        assert_eq!(options.endpoint.to_string(), "http://host:1/v2");
        assert_eq!(options.secrets, PathBuf::from("/secrets"));
        assert_eq!(options.refresh_interval, Duration::from_secs(11));
        assert_eq!(options.login_interval, Duration::from_secs(12));
        let tls = format!("{:?}", options.tls);
        let expected = r#"TlsFiles { authority: Some("/ca"), identity: Some(("/cert", "/key")) }"#;
        assert_eq!(tls, expected);
    }

    #[test]
    fn what_cannot_be_used_is_told_without_what_may_be_a_password_in_it() {
        let plain = storageos(&["--storageos-endpoint=http://host"]).expect_err("plain");
        assert!(plain.to_string().contains("--insecure-http"), "{plain}");
        let secret = storageos(&["--storageos-endpoint=https://admin:hunter2@host"]);
        let secret = secret.expect_err("a password").to_string();
        assert!(!secret.contains("hunter2"), "{secret}");
        assert!(storageos(&["--storageos-retry-interval=0"]).is_err());
    }
}
