//! A certificate in files, as cert-manager and every Secret mount provide it, and a caBundle that somebody else fills in.

use super::{
    Service, Warnings,
    ca_bundle::{Configuration, Configurations},
    config::Pair,
};
use anyhow::Context;
use kube::Client;
use std::{path::PathBuf, time::Duration};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Polled, because an inotify watch on a mounted file goes deaf after the kubelet's first swap.
pub(super) const POLL: Duration = Duration::from_secs(10);
/// How soon it is seen that a caBundle does not fit any more.
const LOOK: Duration = Duration::from_secs(30);
/// How soon it is seen that it fits again.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// A certificate and a key in two files.
#[derive(Clone, Debug)]
pub struct Mounted {
    /// PEM, leaf first.
    pub certificate: PathBuf,
    /// PEM.
    pub key: PathBuf,
}

impl Mounted {
    /// Loads the pair, so that a wrong mount is told at the start and not at the first review.
    ///
    /// # Errors
    /// When a file is missing or its content does not do.
    pub async fn load(&self, service: &Service) -> anyhow::Result<()> {
        service.put(&self.read().await?)
    }

    /// Looks for other content until `stop`. A pair that does not do is told, and the old one stays: the kubelet may have been
    /// in the middle of a swap.
    pub async fn follow(self, service: Service, stop: CancellationToken) {
        let mut served = self.read().await.ok();
        loop {
            tokio::select! { () = stop.cancelled() => return, () = tokio::time::sleep(POLL) => {} }
            let read = match self.read().await {
                Ok(pair) if Some(&pair) == served.as_ref() => continue,
                Ok(pair) => service.put(&pair).map(|()| pair),
                Err(error) => Err(error),
            };
            match read {
                Ok(pair) => {
                    tracing::info!(file = %self.certificate.display(), "certificate reloaded");
                    served = Some(pair);
                }
                Err(error) => tracing::error!(
                    error = format!("{error:#}"),
                    "the new certificate does not do, the old one is kept"
                ),
            }
        }
    }

    async fn read(&self) -> anyhow::Result<Pair> {
        Ok(Pair {
            certificate: read(&self.certificate).await?,
            key: read(&self.key).await?,
        })
    }
}

/// The text of a file.
pub(super) async fn read(path: &std::path::Path) -> anyhow::Result<String> {
    tokio::fs::read_to_string(path)
        .await
        .with_context(|| format!("cannot read {}", path.display()))
}

/// Judges until `stop` what is served by what somebody else has published. If that cannot be read, the last judgement stays.
pub async fn judge(
    service: Service,
    (client, configurations): (Client, Vec<Configuration>),
    warnings: Warnings,
    stop: CancellationToken,
) {
    let mut configurations = Configurations::new(client, configurations);
    loop {
        let well = match configurations.read().await {
            Ok(found) => service.judge(&found),
            Err(error) => {
                tracing::warn!(%error, "the webhook configurations cannot be read");
                true
            }
        };
        warnings.look(&service);
        let (looked, certificate) = (Instant::now(), service.certificate.load_full());
        let same = || {
            let now = service.certificate.load();
            now.as_ref().map(std::sync::Arc::as_ptr)
                == certificate.as_ref().map(std::sync::Arc::as_ptr)
        };
        let pause = if well { LOOK } else { LOOK_AGAIN };
        while looked.elapsed() < pause && same() {
            tokio::select! { () = stop.cancelled() => return, () = tokio::time::sleep(LOOK_AGAIN) => {} }
        }
    }
}

#[cfg(test)]
mod tests;
