//! A certificate in files, as cert-manager and every Secret mount provide it.

use super::config::{Pair, server_config, validity};
use crate::{admission::Certificate, telemetry::Metrics};
use anyhow::Context;
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// Polled, because an inotify watch on a mounted file goes deaf after the kubelet's first swap.
const POLL: Duration = Duration::from_secs(10);

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
    pub async fn load(&self, certificate: &Certificate, metrics: &Metrics) -> anyhow::Result<()> {
        serve(&self.read().await?, certificate, metrics)
    }

    /// Looks for other content until `stop`. A pair that does not do is told, and the old one stays: the kubelet may have been
    /// in the middle of a swap.
    pub async fn follow(
        self,
        certificate: Certificate,
        metrics: Arc<Metrics>,
        stop: CancellationToken,
    ) {
        let mut served = self.read().await.ok();
        loop {
            tokio::select! { () = stop.cancelled() => return, () = tokio::time::sleep(POLL) => {} }
            let read = match self.read().await {
                Ok(pair) if Some(&pair) == served.as_ref() => continue,
                Ok(pair) => serve(&pair, &certificate, &metrics).map(|()| pair),
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
        let read = |path: PathBuf| async move {
            tokio::fs::read_to_string(&path)
                .await
                .with_context(|| format!("cannot read {}", path.display()))
        };
        Ok(Pair {
            certificate: read(self.certificate.clone()).await?,
            key: read(self.key.clone()).await?,
        })
    }
}

/// Puts the pair into service.
pub(super) fn serve(
    pair: &Pair,
    certificate: &Certificate,
    metrics: &Metrics,
) -> anyhow::Result<()> {
    let config = server_config(pair)?;
    metrics.certificate_expires(validity(&pair.certificate)?.1);
    certificate.store(Some(config));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::pki::Authority;
    use std::os::unix::fs::symlink;

    fn pair() -> Pair {
        let now = time::OffsetDateTime::now_utc();
        Authority::generate(now)
            .and_then(|authority| authority.issue(&["localhost".into()], now))
            .expect("pair")
    }

    /// What the kubelet does: a new directory, and `..data` renamed over to point at it.
    fn mount(root: &std::path::Path, generation: &str, pair: &Pair) {
        let directory = root.join(generation);
        std::fs::create_dir(&directory).expect("directory");
        std::fs::write(directory.join("tls.crt"), &pair.certificate).expect("certificate");
        std::fs::write(directory.join("tls.key"), &pair.key).expect("key");
        symlink(generation, root.join("..data_tmp")).expect("link");
        std::fs::rename(root.join("..data_tmp"), root.join("..data")).expect("rename");
    }

    async fn settle() {
        for _ in 0..20 {
            tokio::time::sleep(POLL / 4).await;
            // File reads run on other threads, which paused time does not wait for.
            tokio::task::spawn_blocking(std::thread::yield_now)
                .await
                .expect("yields");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_swapped_mount_is_followed_and_a_mismatched_pair_is_not() {
        super::super::install_crypto();
        let root = tempfile::tempdir().expect("directory");
        let (first, second) = (pair(), pair());
        mount(root.path(), "1", &first);
        let files = Mounted {
            certificate: root.path().join("..data/tls.crt"),
            key: root.path().join("..data/tls.key"),
        };
        let (certificate, metrics) = (Certificate::default(), Arc::new(Metrics::new()));
        files.load(&certificate, &metrics).await.expect("loads");
        let stop = CancellationToken::new();
        let task = tokio::spawn(files.follow(certificate.clone(), metrics, stop.clone()));
        let serving = || {
            certificate
                .load_full()
                .map(|config| Arc::as_ptr(&config) as usize)
        };

        let before = serving();
        settle().await;
        mount(
            root.path(),
            "2",
            &Pair {
                certificate: second.certificate.clone(),
                key: first.key.clone(),
            },
        );
        settle().await;
        assert_eq!(serving(), before, "a key of another certificate is refused");
        mount(root.path(), "3", &second);
        settle().await;
        assert_ne!(serving(), before);
        stop.cancel();
        task.await.expect("ends");
    }

    #[tokio::test]
    async fn a_missing_file_is_told_by_name() {
        let files = Mounted {
            certificate: "/nowhere/tls.crt".into(),
            key: "/nowhere/tls.key".into(),
        };
        let error = files
            .load(&Certificate::default(), &Metrics::new())
            .await
            .expect_err("fails");
        assert!(format!("{error:#}").contains("/nowhere/tls.crt"));
    }
}
