//! Mounted files that other programs write. Volume Warden uses their content for TLS, and reloads
//! it when it changes.

use super::ServingCertificate;
use anyhow::Context;
use std::{path::Path, time::Duration};
use tokio_util::sync::CancellationToken;

/// Interval of checks for changed files. The files are polled, because an inotify watch on a
/// mounted file gets no events after the kubelet first replaces the files.
pub(super) const POLL: Duration = Duration::from_secs(10);

/// Mounted files, and how their content is put into service.
pub trait Source: Send + Sync + Sized {
    /// The content of the files.
    type Content: PartialEq + Send + Sync;

    /// Describes the content of the files in log lines.
    const WHAT: &'static str;

    /// Returns the file that log lines name.
    fn file(&self) -> &Path;

    /// Reads the current content of the files.
    fn read(&self) -> impl Future<Output = anyhow::Result<Self::Content>> + Send;

    /// Puts the content of the files into service.
    ///
    /// # Errors
    /// When the content cannot be used. The previous content stays in service.
    fn put(&self, content: &Self::Content, serving: &ServingCertificate) -> anyhow::Result<()>;

    /// Reads the files and puts their content into service at start, so that a wrong mount is
    /// reported then, and not at the first review.
    fn load(
        self,
        serving: &ServingCertificate,
    ) -> impl Future<Output = anyhow::Result<Loaded<Self>>> + Send {
        async {
            let served = self.read().await?;
            self.put(&served, serving)?;
            Ok(Loaded {
                source: self,
                served,
            })
        }
    }
}

/// Files whose content is in service. Later content is compared with that content, so that a
/// replacement right after the first read is noticed, too.
pub struct Loaded<S: Source> {
    source: S,
    served: S::Content,
}

impl<S: Source> Loaded<S> {
    /// Returns the file that log lines name.
    pub fn file(&self) -> &Path {
        self.source.file()
    }

    /// Checks the files for changed content until `stop`. An error is logged unless it is the same
    /// as at the previous check, and the previous content stays in service, because the kubelet may
    /// be replacing the files.
    pub async fn follow(mut self, serving: ServingCertificate, stop: CancellationToken) {
        let (what, mut reported) = (S::WHAT, None);
        loop {
            tokio::select! { () = stop.cancelled() => return, () = tokio::time::sleep(POLL) => {} }
            let file = self.file().display().to_string();
            match self.reload(&serving).await {
                Ok(None) => reported = None,
                Ok(Some(content)) => {
                    tracing::info!(file, what, "mounted file reloaded");
                    self.served = content;
                    reported = None;
                }
                Err(error) => {
                    let error = format!("{error:#}");
                    if reported.as_ref() != Some(&error) {
                        tracing::error!(
                            file,
                            what,
                            error,
                            "cannot reload the mounted file; the previous content stays in service"
                        );
                    }
                    reported = Some(error);
                }
            }
        }
    }

    /// Reads the files and puts changed content into service; none if the content is unchanged.
    async fn reload(&self, serving: &ServingCertificate) -> anyhow::Result<Option<S::Content>> {
        let content = self.source.read().await?;
        if content == self.served {
            return Ok(None);
        }
        let put = self.source.put(&content, serving);
        put.context("the new content cannot be used")?;
        Ok(Some(content))
    }
}

/// Reads a text file.
pub(super) async fn read(path: &Path) -> anyhow::Result<String> {
    tokio::fs::read_to_string(path)
        .await
        .with_context(|| format!("cannot read {}", path.display()))
}
