//! The flags that select and configure the storage backend.

use super::Scope;
use crate::{
    backend::{
        Backend, Directory, StorageOs,
        storageos::{Endpoint, Options, TlsFiles},
    },
    go_duration,
};
use clap::{ArgAction, Args, ValueEnum, error::ErrorKind};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Which storage backend to use, and how to connect to it.
#[derive(Debug, Args)]
#[command(next_help_heading = "namespace-gc: storage backend")]
pub struct BackendOptions {
    /// Storage backend whose namespaces are deleted when Kubernetes no longer has them and they are
    /// empty. Without this flag, namespace-gc is inactive.
    #[arg(long, value_enum)]
    storage_backend: Option<Kind>,

    /// Directory with one subdirectory per namespace, for --storage-backend=directory. The
    /// directory must contain a file .volume-warden-root.
    #[arg(
        long,
        required_if_eq("storage_backend", "directory"),
        value_name = "DIRECTORY"
    )]
    directory_root: Option<PathBuf>,

    /// Address of the StorageOS API: a host, host:port or URL. The default scheme is https, or http
    /// with --insecure-http; the default port is 5705.
    #[arg(long, default_value = "storageos", value_name = "ENDPOINT")]
    storageos_endpoint: String,

    /// Directory with the files username and password for the StorageOS API, which are read at each
    /// login.
    #[arg(
        long,
        default_value = "/etc/storageos/secrets/api",
        value_name = "DIRECTORY"
    )]
    storageos_secret_path: PathBuf,

    /// Age at which a token of the StorageOS API is refreshed, if the API does not report the
    /// lifetime of the token.
    #[arg(long, default_value = "1m", value_parser = go_duration::parse)]
    storageos_refresh_interval: Duration,

    /// Minimum interval between two logins to the StorageOS API.
    #[arg(long, default_value = "5s", value_parser = go_duration::parse_at_least_1s)]
    storageos_retry_interval: Duration,

    /// PEM file with the CAs to trust for the StorageOS API, read again at each login [default: the
    /// CAs of the system]
    #[arg(long)]
    storageos_ca_file: Option<PathBuf>,

    /// PEM file with the client certificate for the StorageOS API, read again at each login.
    #[arg(long, requires = "storageos_client_key_file")]
    storageos_client_cert_file: Option<PathBuf>,

    /// PEM file with the private key of the client certificate for the StorageOS API.
    #[arg(long, requires = "storageos_client_cert_file")]
    storageos_client_key_file: Option<PathBuf>,

    /// Allow an --storageos-endpoint with http://, and use http for one without a scheme. Everyone
    /// on the network path can then read the StorageOS password and tokens.
    #[arg(long, action = ArgAction::Set, default_value_t)]
    insecure_http: bool,
}

/// Values of `--storage-backend`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// StorageOS, through its REST API v2.
    #[value(name = "storageos")]
    StorageOs,
    /// A directory with one subdirectory per namespace. Only empty subdirectories are removed.
    Directory,
}

impl BackendOptions {
    /// Returns whether `--storage-backend` is set.
    pub fn is_named(&self) -> bool {
        self.storage_backend.is_some()
    }

    /// The default of `--gc-scope` for this backend. It is `seen` for a directory, which may be
    /// shared with other clusters.
    pub fn scope(&self) -> Scope {
        match self.storage_backend {
            Some(Kind::Directory) => Scope::Seen,
            Some(Kind::StorageOs) | None => Scope::All,
        }
    }

    /// The address of the selected backend, for messages. An address that cannot be used is left
    /// out: it may contain a password.
    pub fn place(&self) -> String {
        match self.storage_backend {
            None => String::new(),
            Some(Kind::StorageOs) => match self.endpoint() {
                Ok(endpoint) => endpoint.to_string(),
                Err(_) => String::new(),
            },
            Some(Kind::Directory) => {
                let root = self.directory_root.as_deref().unwrap_or(Path::new(""));
                root.display().to_string()
            }
        }
    }

    /// The selected backend, or `None` if none is selected.
    ///
    /// # Errors
    /// When the directory is no valid root, or the endpoint cannot be used. An unusable endpoint is
    /// a usage error.
    pub async fn backend(&self) -> anyhow::Result<Option<Arc<dyn Backend>>> {
        Ok(match self.storage_backend {
            None => None,
            Some(Kind::StorageOs) => Some(Arc::new(StorageOs::new(self.storageos()?))),
            Some(Kind::Directory) => {
                // clap requires the value for this backend, so it is present.
                let root = self.directory_root.clone().unwrap_or_default();
                Some(Arc::new(Directory::open(root).await?))
            }
        })
    }

    fn endpoint(&self) -> Result<Endpoint, clap::Error> {
        let endpoint = Endpoint::parse(&self.storageos_endpoint, self.insecure_http);
        endpoint.map_err(|error| {
            // The message omits the value, which may contain a password.
            let message = format!("--storageos-endpoint: {error}");
            clap::Error::raw(ErrorKind::ValueValidation, message)
        })
    }

    fn storageos(&self) -> anyhow::Result<Options> {
        let endpoint = self.endpoint()?;
        if endpoint.is_plain() {
            tracing::warn!(%endpoint, "the StorageOS password and tokens are sent over plain HTTP");
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
    fn without_flags_the_documented_defaults_apply() {
        let endpoint = Endpoint::parse("https://storageos:5705", false).expect("an endpoint");
        let expected = format!("{:?}", Options::new(endpoint));
        let options = storageos(&[]).expect("options");
        assert_eq!(format!("{options:?}"), expected);
    }

    #[test]
    fn every_flag_sets_its_option() {
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
    fn errors_about_the_endpoint_do_not_contain_its_password() {
        let plain = storageos(&["--storageos-endpoint=http://host"]).expect_err("plain");
        assert!(plain.to_string().contains("--insecure-http"), "{plain}");
        let secret = storageos(&["--storageos-endpoint=https://admin:hunter2@host"]);
        let secret = secret.expect_err("a password").to_string();
        assert!(!secret.contains("hunter2"), "{secret}");
        assert!(storageos(&["--storageos-retry-interval=0"]).is_err());
    }
}
