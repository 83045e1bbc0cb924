//! The tasks of the process. The process ends when any task ends, because a partly running process
//! would look healthy.

use crate::cli::signals::Signals;
use std::time::Duration;
use tokio::{runtime::Handle, task::JoinSet};
use tokio_util::sync::CancellationToken;

/// A set of named tasks with a common stop token.
pub(super) struct Tasks {
    set: JoinSet<&'static str>,
    /// Cancelled when the process stops; every task then ends.
    pub(super) stop: CancellationToken,
}

impl Tasks {
    pub(super) fn new() -> Self {
        Self {
            set: JoinSet::new(),
            stop: CancellationToken::new(),
        }
    }

    /// Starts a task, which must end when `stop` is cancelled.
    pub(super) fn spawn(
        &mut self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        self.spawn_on(&Handle::current(), name, task);
    }

    /// Starts a task as [`Self::spawn`] does, on this runtime.
    pub(super) fn spawn_on(
        &mut self,
        runtime: &Handle,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let task = async move {
            task.await;
            name
        };
        self.set.spawn_on(task, runtime);
    }

    /// Starts a task that never ends. It is aborted when `needed` has passed after `stop`, because
    /// other tasks need it until then.
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

    /// Waits until a signal arrives or a task ends. Then cancels `stop`, and waits at most
    /// `timeout` for the other tasks to end; another signal ends this second wait immediately.
    ///
    /// # Errors
    /// When a task ended before the first signal.
    pub(super) async fn supervise(
        mut self,
        mut signals: Signals,
        timeout: Duration,
    ) -> anyhow::Result<()> {
        let failed = tokio::select! {
            _ = signals.next() => None,
            Some(ended) = self.set.join_next() => Some(ended.unwrap_or("unknown (it panicked)")),
        };
        tracing::info!("Volume Warden stops");
        self.stop.cancel();
        let all = async { while self.set.join_next().await.is_some() {} };
        tokio::select! {
            _ = tokio::time::timeout(timeout, all) => {}
            _ = signals.next() => {}
        }
        match failed {
            Some(task) => anyhow::bail!("task exited unexpectedly: {task}"),
            None => Ok(()),
        }
    }
}
