//! The removal of what Volume Warden wrote, by a process that holds its Leases or as a dry run.

use super::{DrainOptions, InTree};
use crate::{
    cli::print::{keep_first_error, print, print_step},
    clock::Clock,
    cluster::{Apply, Elector, LatestTime, Leadership, LeaseName},
    component::ComponentRef,
    drain::{
        Drain, DrainConfig, Outcome,
        leases::{self, FoundLease},
    },
    plain::Plain,
    telemetry::Metrics,
};
use anyhow::bail;
use futures::future::{join_all, select_all};
use kube::{Api, Client};
use std::{process::ExitCode, sync::Arc, time::Duration};
use tokio::time::timeout;

/// Maximum time for which `drain` waits for the Leases. A Lease that is not renewed expires sooner.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(20);
/// Time that `drain` waits once it holds the Leases, if a leader held one before: a write that the
/// leader sent before it released the Lease takes at most 4 s.
const LAST_WRITE: Duration = Duration::from_secs(4);
/// Maximum time for which `drain` waits, before it exits, for the publication of the Events about
/// writes that the API server refused.
const EVENTS_TIMEOUT: Duration = Duration::from_secs(10);
/// Exit code of `drain` if it is complete except for objects that are being deleted and in use.
const IN_USE: u8 = 3;

/// What is removed from which cluster, and the Leases that must be held for that.
pub(super) struct Removal<'a> {
    pub(super) options: &'a DrainOptions,
    /// The components whose writes are removed.
    pub(super) components: Vec<ComponentRef>,
    pub(super) client: Client,
    /// The Lease of the installation.
    pub(super) lease: LeaseName,
    /// The Leases of these components, in the namespace of that Lease and in those in which Volume
    /// Warden is installed.
    pub(super) found: Vec<FoundLease>,
    pub(super) metrics: Arc<Metrics>,
}

impl Removal<'_> {
    /// Prints which Leases would prevent the drain, and what it would remove. A dry run writes
    /// nothing, so it acquires no Lease.
    pub(super) async fn dry_run(&self) -> anyhow::Result<ExitCode> {
        for found in self
            .found
            .iter()
            .filter(|found| found.prevents(&self.lease))
        {
            let message = found.description();
            let until = if found.holder.is_empty() {
                "exists in another namespace"
            } else {
                "is held"
            };
            print_step(format_args!(
                "{message}: without --dry-run, drain removes nothing while it {until}"
            ))?;
        }
        // This elector never runs, so the Lease is not acquired.
        let (_elector, leadership) = self.elector(self.lease.clone());
        exit_code(&self.remove(leadership).await?)
    }

    /// Creates the elector for this Lease, which has yet to be run.
    pub(super) fn elector(&self, lease: LeaseName) -> (Elector, Leadership) {
        let leases = Api::namespaced(self.client.clone(), &lease.namespace);
        Elector::new(
            leases,
            lease,
            self.metrics.clone(),
            LatestTime::new(Clock::system()),
        )
    }

    /// Acquires all Leases and, while it holds them, removes what Volume Warden has written.
    pub(super) async fn drain_as_leader(
        &self,
        leaderships: Vec<Leadership>,
    ) -> anyhow::Result<ExitCode> {
        let gained = join_all(leaderships.iter().map(Leadership::gained));
        if timeout(ACQUIRE_TIMEOUT, gained).await.is_err() {
            bail!("{}", self.not_acquired().await);
        }
        if !self.found.is_empty() {
            tokio::time::sleep(LAST_WRITE).await;
        }
        let Some(first) = leaderships.first().cloned() else {
            bail!("there is no Lease to hold");
        };
        let lost = select_all(leaderships.iter().map(|each| Box::pin(each.lost())));
        let outcome = tokio::select! {
            outcome = self.remove(first) => outcome?,
            _ = lost => bail!("a Lease was lost; run volume-warden drain again"),
        };
        self.check_not_held().await?;
        exit_code(&outcome)
    }

    /// Checks that no other process holds one of the Leases.
    ///
    /// # Errors
    /// When one does: a Volume Warden that started during the drain, which writes again what the
    /// drain has removed.
    pub(super) async fn check_not_held(&self) -> anyhow::Result<()> {
        match self.held_by_others().await?.first() {
            None => Ok(()),
            Some(begun) => bail!(
                "another Volume Warden started during the drain: {}. Stop it, and run \
                 volume-warden drain again",
                begun.description()
            ),
        }
    }

    async fn not_acquired(&self) -> String {
        let held = self.held_by_others().await.unwrap_or_default();
        let lease = || {
            let (namespace, name) = (&self.lease.namespace, &self.lease.name);
            format!("the Lease {namespace}/{name} was not acquired")
        };
        let problem = held.first().map_or_else(lease, FoundLease::description);
        format!(
            "{problem}, after {ACQUIRE_TIMEOUT:?} of waiting. If a running Volume Warden holds it, \
             scale it to 0 first: it would write again what drain removes; if not, the log lines \
             above state why"
        )
    }

    async fn held_by_others(&self) -> anyhow::Result<Vec<FoundLease>> {
        let lease = &self.lease;
        let mut found = leases::of(&self.client, &self.components, &lease.namespace).await?;
        found.retain(|found| !found.holder.is_empty() && found.holder != lease.identity);
        Ok(found)
    }

    async fn remove(&self, leadership: Leadership) -> anyhow::Result<Outcome> {
        let options = self.options;
        let in_flight = options.cluster.max_in_flight.into();
        let apply = Apply::new(
            self.client.clone(),
            leadership,
            in_flight,
            options.dry_run,
            self.metrics.clone(),
        );
        let drain = Drain {
            client: self.client.clone(),
            apply: Arc::new(apply),
            namespace: options.cluster.namespace(),
            system_namespace: options.cluster.system_namespace(),
            config: DrainConfig {
                components: self.components.clone(),
                in_tree: options.in_tree == InTree::On,
                purge_trash: options.purge_trash,
                id: options.controller.controller_id.clone(),
            },
            in_flight,
        };
        // If a line cannot be printed, the drain continues. The first error is returned at the end.
        let mut printed = Ok(());
        let mut print_line =
            |line: &str| keep_first_error(&mut printed, print(&Plain(line).to_string()));
        let outcome = drain.run(&mut print_line).await;
        // The process must not end before the Events about refused writes are published in the
        // background.
        let _ = timeout(EVENTS_TIMEOUT, drain.apply.reported()).await;
        let outcome = outcome?;
        printed.and_then(|()| print(&outcome.to_string()))?;
        Ok(outcome)
    }
}

fn exit_code(outcome: &Outcome) -> anyhow::Result<ExitCode> {
    match outcome.incomplete_reason() {
        Some(incomplete_reason) => bail!("{incomplete_reason}; run volume-warden drain again"),
        None if !outcome.in_use.is_empty() => Ok(ExitCode::from(IN_USE)),
        None => Ok(ExitCode::SUCCESS),
    }
}
