//! The tasks of the process: a process that only looks alive is worse than none, so it ends when one of them does.

use super::signals::Signals;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// See the module.
pub(super) struct Tasks {
    set: JoinSet<&'static str>,
    /// Asks every task to end.
    pub(super) stop: CancellationToken,
}

impl Tasks {
    pub(super) fn new() -> Self {
        Self {
            set: JoinSet::new(),
            stop: CancellationToken::new(),
        }
    }

    /// A task that ends by itself with `stop`.
    pub(super) fn spawn(
        &mut self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        self.set.spawn(async move {
            task.await;
            name
        });
    }

    /// A task that never ends, and is cut off so long after `stop`: others need it until then.
    pub(super) fn spawn_endless(
        &mut self,
        name: &'static str,
        needed: Duration,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let stop = self.stop.clone();
        let end = async move {
            stop.cancelled().await;
            tokio::time::sleep(needed).await;
        };
        self.spawn(name, async {
            tokio::select! { () = task => {}, () = end => {} }
        });
    }

    /// Waits for one of the signals, then for the tasks to end, at most `patience` long. A second signal ends it at once.
    ///
    /// # Errors
    /// When a task ended that nobody had asked to.
    pub(super) async fn watch_over(
        mut self,
        mut signals: Signals,
        patience: Duration,
    ) -> anyhow::Result<()> {
        let failed = tokio::select! {
            _ = signals.next() => None,
            Some(ended) = self.set.join_next() => Some(ended.unwrap_or("a task, by a panic,")),
        };
        tracing::info!("stopping");
        self.stop.cancel();
        let all = async { while self.set.join_next().await.is_some() {} };
        tokio::select! {
            _ = tokio::time::timeout(patience, all) => {}
            _ = signals.next() => {}
        }
        match failed {
            Some(task) => anyhow::bail!("{task} ended although nobody asked it to"),
            None => Ok(()),
        }
    }
}
