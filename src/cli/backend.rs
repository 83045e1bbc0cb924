//! The flags that say which storage backend there is.

use super::{Cli, go_duration};
use crate::{
    backend::{
        Backend, Directory, StorageOs,
        storageos::{Endpoint, Options, TlsFiles},
    },
    components::namespace_gc::Scope,
};
use clap::{ArgAction, Args, CommandFactory, ValueEnum, error::ErrorKind};
use std::{path::PathBuf, sync::Arc, time::Duration};

#[derive(Debug, Args)]
#[command(next_help_heading = "namespace-gc: storage backend")]
pub(super) struct BackendOptions {
    /// Storage from which namespaces are removed that Kubernetes no longer has. Without it namespace-gc is inactive.
    #[arg(long, env = "VOLUME_WARDEN_STORAGE_BACKEND", value_enum)]
    storage_backend: Option<Kind>,

    /// Directory with a directory for each namespace. It has to hold a file .volume-warden-root.
    #[arg(
        long,
        env = "VOLUME_WARDEN_DIRECTORY_ROOT",
        required_if_eq("storage_backend", "directory"),
        value_name = "DIRECTORY"
    )]
    directory_root: Option<PathBuf>,

    /// The API of StorageOS: a host, host:port or URL. Without a scheme it is https, or http with --insecure-http; without a port,
    /// 5705.
    #[arg(
        long,
        env = "VOLUME_WARDEN_API_ENDPOINT",
        default_value = "storageos",
        value_name = "ENDPOINT"
    )]
    api_endpoint: String,

    /// Directory of the files username and password, read at each login.
    #[arg(
        long,
        env = "VOLUME_WARDEN_API_SECRET_PATH",
        default_value = "/etc/storageos/secrets/api",
        value_name = "DIRECTORY"
    )]
    api_secret_path: PathBuf,

    /// How long a token is used before it is refreshed, where the server does not tell its life.
    #[arg(
        long,
        env = "VOLUME_WARDEN_API_REFRESH_INTERVAL",
        default_value = "1m",
        value_parser = go_duration::parse,
        value_name = "DURATION"
    )]
    api_refresh_interval: Duration,

    /// Between one login and the next, whoever needs it.
    #[arg(
        long,
        env = "VOLUME_WARDEN_API_RETRY_INTERVAL",
        default_value = "5s",
        value_parser = go_duration::parse_pause,
        value_name = "DURATION"
    )]
    api_retry_interval: Duration,

    /// The only authorities to trust, PEM, read again when it changes [default: those of the system]
    #[arg(long, env = "VOLUME_WARDEN_API_CA_FILE", value_name = "FILE")]
    api_ca_file: Option<PathBuf>,

    /// A certificate to show to the server, PEM, read again when it changes.
    #[arg(
        long,
        env = "VOLUME_WARDEN_API_CLIENT_CERT_FILE",
        requires = "api_client_key_file",
        value_name = "FILE"
    )]
    api_client_cert_file: Option<PathBuf>,

    /// Its private key, PEM.
    #[arg(
        long,
        env = "VOLUME_WARDEN_API_CLIENT_KEY_FILE",
        requires = "api_client_cert_file",
        value_name = "FILE"
    )]
    api_client_key_file: Option<PathBuf>,

    /// Let the password and the tokens go over plain HTTP, where everyone on the way can read them.
    #[arg(
        long,
        env = "VOLUME_WARDEN_INSECURE_HTTP",
        num_args = 0..=1,
        require_equals = true,
        action = ArgAction::Set,
        default_value_t,
        default_missing_value = "true",
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
    pub(super) fn is_named(&self) -> bool {
        self.storage_backend.is_some()
    }

    /// What a collection may take where nobody says: a directory may be shared with others.
    pub(super) fn scope(&self) -> Scope {
        match self.storage_backend {
            Some(Kind::Directory) => Scope::Seen,
            Some(Kind::StorageOs) | None => Scope::All,
        }
    }

    /// The backend that is named.
    ///
    /// # Errors
    /// When the root is none, or the endpoint cannot be used, which is a wrong command line.
    pub(super) async fn backend(&self) -> anyhow::Result<Option<Arc<dyn Backend>>> {
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
        let endpoint = Endpoint::parse(&self.api_endpoint, self.insecure_http);
        let endpoint = endpoint.map_err(|error| {
            // Without the value: it may hold a password.
            let told = format!("--api-endpoint: {error}");
            Cli::command().error(ErrorKind::ValueValidation, told)
        })?;
        if endpoint.is_plain() {
            tracing::warn!(%endpoint, "the password and the tokens go over plain HTTP");
        }
        let identity = self.api_client_cert_file.clone();
        Ok(Options {
            secrets: self.api_secret_path.clone(),
            tls: TlsFiles {
                authority: self.api_ca_file.clone(),
                identity: identity.zip(self.api_client_key_file.clone()),
            },
            refresh_interval: self.api_refresh_interval,
            login_interval: self.api_retry_interval,
            ..Options::new(endpoint)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Command;
    use clap::Parser;

    fn storageos(flags: &[&str]) -> anyhow::Result<Options> {
        let line = ["volume-warden", "run", "--storage-backend=storageos"];
        match Cli::try_parse_from(line.iter().chain(flags))?.command {
            Command::Run(options) => options.backend.storageos(),
            other => panic!("{other:?}"),
        }
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
            "--api-endpoint=http://host:1",
            "--insecure-http",
            "--api-secret-path=/secrets",
            "--api-refresh-interval=11s",
            "--api-retry-interval=12s",
            "--api-ca-file=/ca",
            "--api-client-cert-file=/cert",
            "--api-client-key-file=/key",
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
        let plain = storageos(&["--api-endpoint=http://host"]).expect_err("plain");
        assert!(plain.to_string().contains("--insecure-http"), "{plain}");
        let secret = storageos(&["--api-endpoint=https://admin:hunter2@host"]);
        let secret = secret.expect_err("a password").to_string();
        assert!(!secret.contains("hunter2"), "{secret}");
        assert!(storageos(&["--api-retry-interval=0"]).is_err());
    }
}
