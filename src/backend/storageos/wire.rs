//! Sends single requests to the StorageOS API.

use super::{Endpoint, Options, token::Token};
use crate::{backend::Failure, tls::install_crypto};
use http::{Method, header::AUTHORIZATION};
use parking_lot::Mutex;
use reqwest::{Certificate, Client, Identity, Response, redirect, retry};
use std::{
    error::Error,
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

/// The PEM files for TLS connections to StorageOS.
#[derive(Clone, Debug, Default)]
pub struct TlsFiles {
    /// File with the only trusted CAs; without it, the CAs of the operating system are trusted.
    pub authority: Option<PathBuf>,
    /// Files with the client certificate and its private key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// The content of the TLS files when they were last read.
#[derive(Clone, Default, PartialEq, Eq)]
struct Material {
    authority: Option<Vec<u8>>,
    identity: Option<Vec<u8>>,
}

/// A request to the StorageOS API.
#[derive(Clone, Debug)]
pub(super) struct Request<'a> {
    pub(super) method: Method,
    pub(super) path: &'a [&'a str],
    pub(super) query: &'a [(&'a str, &'a str)],
    pub(super) body: Option<Body>,
}

/// A JSON body, which may contain a password; its `Debug` output omits it.
#[derive(Clone)]
pub(super) struct Body(pub(super) Vec<u8>);

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

impl<'a> Request<'a> {
    pub(super) fn new(method: Method, path: &'a [&'a str]) -> Self {
        Self {
            method,
            path,
            query: &[],
            body: None,
        }
    }
}

/// Sends requests to one StorageOS endpoint.
pub(super) struct ApiClient {
    endpoint: Endpoint,
    files: TlsFiles,
    limit: Duration,
    client: Mutex<Option<(Material, Client)>>,
    /// Whether the last connection failed. The TLS files may have changed, so the next request
    /// reads them again.
    reload_tls_files: AtomicBool,
}

impl ApiClient {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            endpoint: options.endpoint.clone(),
            files: options.tls.clone(),
            limit: options.request_limit,
            client: Mutex::new(None),
            reload_tls_files: AtomicBool::new(false),
        }
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Sends the request and returns the response of any status. Reading the body counts towards
    /// the same time limit.
    pub(super) async fn send(
        &self,
        request: &Request<'_>,
        token: Option<&Token>,
    ) -> Result<Response, Failure> {
        let client = match self.client() {
            Some(client) if !self.reload_tls_files.swap(false, Ordering::Relaxed) => client,
            _ => self.reload().await?,
        };
        let url = self.endpoint.url(request.path, request.query);
        let mut builder = client.request(request.method.clone(), url);
        if let Some(token) = token {
            builder = builder.header(AUTHORIZATION, token.header.clone());
        }
        if let Some(Body(json)) = &request.body {
            let json = json.clone();
            builder = builder
                .header(http::header::CONTENT_TYPE, "application/json")
                .body(json);
        }
        builder.send().await.map_err(|error| {
            self.reload_tls_files
                .store(error.is_connect(), Ordering::Relaxed);
            failure(error)
        })
    }

    /// Reads the TLS files again, and builds a new client if they have changed.
    pub(super) async fn reload(&self) -> Result<Client, Failure> {
        let material = self.read().await?;
        let mut kept = self.client.lock();
        if let Some((of, client)) = &*kept
            && *of == material
        {
            return Ok(client.clone());
        }
        let client = self.build(&material)?;
        *kept = Some((material, client.clone()));
        Ok(client)
    }

    fn client(&self) -> Option<Client> {
        let kept = self.client.lock();
        kept.as_ref().map(|(_, client)| client.clone())
    }

    async fn read(&self) -> Result<Material, Failure> {
        let mut material = Material::default();
        if let Some(file) = &self.files.authority {
            material.authority = Some(bytes(file).await?);
        }
        if let Some((certificate, key)) = &self.files.identity {
            let both = [bytes(certificate).await?, bytes(key).await?];
            material.identity = Some(both.join(&b'\n'));
        }
        Ok(material)
    }

    fn build(&self, material: &Material) -> Result<Client, Failure> {
        // Without an installed crypto provider, building a client panics.
        install_crypto();
        let mut builder = Client::builder()
            .user_agent(concat!("volume-warden/", env!("CARGO_PKG_VERSION")))
            .timeout(self.limit)
            .connect_timeout(self.limit)
            .https_only(!self.endpoint.is_plain())
            // No redirects, because the token must not reach another server; no automatic retries,
            // because the failed request may have been carried out.
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .referer(false)
            .no_proxy();
        if let Some(pem) = &material.authority {
            let authorities = Certificate::from_pem_bundle(pem).unwrap_or_default();
            if authorities.is_empty() {
                return Err(Failure::transport(
                    "the CA file holds no certificate in PEM",
                ));
            }
            builder = builder.tls_certs_only(authorities);
        } else if self.endpoint.is_plain() {
            // A plain HTTP connection needs no trusted CAs, and the system may have none.
            builder = builder.tls_certs_only([]);
        }
        if let Some(pem) = &material.identity {
            let wrong = |_| Failure::transport("the client certificate and its key are not PEM");
            builder = builder.identity(Identity::from_pem(pem).map_err(wrong)?);
        }
        builder.build().map_err(failure)
    }
}

async fn bytes(file: &PathBuf) -> Result<Vec<u8>, Failure> {
    let unreadable = |error| Failure::transport(format!("cannot read {}: {error}", file.display()));
    tokio::fs::read(file).await.map_err(unreadable)
}

/// Converts an error of reqwest into a failure that describes the error and its causes, without the
/// URL of the request.
pub(super) fn failure(error: reqwest::Error) -> Failure {
    let (timeout, error) = (error.is_timeout(), error.without_url());
    let mut why = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let text = inner.to_string();
        if !why.ends_with(&text) {
            why = format!("{why}: {text}");
        }
        cause = inner.source();
    }
    if timeout {
        Failure::timeout(why)
    } else {
        Failure::transport(why)
    }
}
