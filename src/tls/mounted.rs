//! A serving certificate in mounted files, as cert-manager and Secret mounts provide it. Another
//! program writes the caBundle.

use super::{
    ServingCertificate, Warnings,
    config::Pair,
    files::{Source, read},
};
use crate::cluster::{Configurations, FIRST_RETRY, Pace};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Interval of checks whether the caBundle matches the certificate.
const INTERVAL: Duration = Duration::from_secs(30);

/// The files of a certificate and its private key.
#[derive(Clone, Debug)]
pub struct Mounted {
    /// PEM file with the certificate chain, leaf first.
    pub certificate: PathBuf,
    /// PEM file with the private key.
    pub key: PathBuf,
}

impl Source for Mounted {
    type Content = Pair;

    const WHAT: &'static str = "certificate";

    fn file(&self) -> &Path {
        &self.certificate
    }

    async fn read(&self) -> anyhow::Result<Pair> {
        Ok(Pair {
            certificate: read(&self.certificate).await?,
            key: read(&self.key).await?,
        })
    }

    fn put(&self, pair: &Pair, serving: &ServingCertificate) -> anyhow::Result<()> {
        serving.put(pair)
    }
}

/// Checks until `stop` whether the published caBundles trust the serving certificate, and warns if
/// it was not renewed. If the configurations cannot be read, the last result remains in effect.
pub async fn check_trust(
    serving: ServingCertificate,
    mut configurations: Configurations,
    warnings: Warnings,
    stop: CancellationToken,
) {
    let mut pace = Pace::new(INTERVAL);
    loop {
        let certificate = serving.certificate.load_full();
        let same = || {
            let now = serving.certificate.load();
            now.as_ref().map(Arc::as_ptr) == certificate.as_ref().map(Arc::as_ptr)
        };
        let well = match configurations.read().await {
            Ok(found) => {
                serving.record_success();
                serving.check_trust(&found)
            }
            Err(error) => {
                tracing::warn!(
                    %error,
                    "the webhook configurations cannot be read, so it is not checked whether \
                     their caBundles trust the serving certificate"
                );
                false
            }
        };
        warnings.check(&serving);
        let (checked, pause) = (Instant::now(), pace.after(well));
        while checked.elapsed() < pause && same() {
            tokio::select! { () = stop.cancelled() => return, () = tokio::time::sleep(FIRST_RETRY) => {} }
        }
        if !same() {
            pace.reset();
        }
    }
}

#[cfg(test)]
mod tests;
