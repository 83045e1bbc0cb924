//! Mounted files that are written outside Volume Warden: their content is put into service, and so
//! is every later version.

use super::Service;
use anyhow::Context;
use std::{path::Path, time::Duration};
use tokio_util::sync::CancellationToken;

/// Polled, because an inotify watch on a mounted file gets no more events after the kubelet first
/// replaces the files.
pub(super) const POLL: Duration = Duration::from_secs(10);

/// A kind of mounted file, and how its content is put into service.
pub trait Source: Send + Sync + Sized {
    /// As it is in the files.
    type Content: PartialEq + Send + Sync;

    /// What the files hold, in log lines.
    const WHAT: &'static str;

    /// The file to name in log lines.
    fn file(&self) -> &Path;

    /// The current content.
    fn read(&self) -> impl Future<Output = anyhow::Result<Self::Content>> + Send;

    /// Puts it into service.
    ///
    /// # Errors
    /// When the content cannot be used. The previous content stays in service.
    fn put(&self, content: &Self::Content, service: &Service) -> anyhow::Result<()>;

    /// Puts the present content into service, so that a wrong mount is reported at the start and
    /// not at the first review.
    fn load(self, service: &Service) -> impl Future<Output = anyhow::Result<Loaded<Self>>> + Send {
        async {
            let served = self.read().await?;
            self.put(&served, service)?;
            Ok(Loaded {
                source: self,
                served,
            })
        }
    }
}

/// Files whose content is in service. Only that content is followed by other: a swap right after
/// it was read is one, too.
pub struct Loaded<S: Source> {
    source: S,
    served: S::Content,
}

impl<S: Source> Loaded<S> {
    /// Where it comes from.
    pub fn file(&self) -> &Path {
        self.source.file()
    }

    /// Checks for changed content until `stop`. An error is logged once, and the previous content
    /// stays in service: the kubelet may have been replacing the files.
    pub async fn follow(mut self, service: Service, stop: CancellationToken) {
        let (what, mut reported) = (S::WHAT, None);
        loop {
            tokio::select! { () = stop.cancelled() => return, () = tokio::time::sleep(POLL) => {} }
            let file = self.file().display().to_string();
            match self.look(&service).await {
                Ok(None) => reported = None,
                Ok(Some(content)) => {
                    tracing::info!(file, what, "reloaded");
                    self.served = content;
                    reported = None;
                }
                Err(error) => {
                    let error = format!("{error:#}");
                    if reported.as_ref() != Some(&error) {
                        tracing::error!(file, what, error, "the previous content stays in service");
                    }
                    reported = Some(error);
                }
            }
        }
    }

    /// Other content, once it is in service.
    async fn look(&self, service: &Service) -> anyhow::Result<Option<S::Content>> {
        let content = self.source.read().await?;
        if content == self.served {
            return Ok(None);
        }
        let put = self.source.put(&content, service);
        put.context("the new content cannot be used")?;
        Ok(Some(content))
    }
}

/// The text of a file.
pub(super) async fn read(path: &Path) -> anyhow::Result<String> {
    tokio::fs::read_to_string(path)
        .await
        .with_context(|| format!("cannot read {}", path.display()))
}
