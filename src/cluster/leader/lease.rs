//! Leader election with client-go's Lease protocol.
//!
//! Source: `staging/src/k8s.io/client-go/tools/leaderelection/leaderelection.go`. Every update is
//! a compare-and-swap on `resourceVersion`. The Lease of another holder counts as expired when
//! this replica, by its *local* monotonic clock, has seen no change of its `spec` for its whole
//! duration, so wall clocks need not agree. No crate is used, because none steps down in time when
//! it loses the API server.
//!
//! A Lease does not prevent late writes of a former holder, so destructive writes also carry
//! preconditions.

use super::held::HeldLease;
use super::leadership::Leadership;
use super::lease_name::LeaseName;
use super::observation::Observation;
use crate::awaited::Awaited;
use crate::cluster::api::LatestTime;
use crate::telemetry::Metrics;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Renew deadline: this replica stops writing this long after the *beginning* of its last renewal.
/// Another replica can acquire a Lease that was not released only 15 s after that renewal. A write
/// that was under way has ended by then: see `WRITE_TIMEOUT`.
pub(crate) const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// Interval between two renewals of the Lease.
const RENEW_PERIOD: Duration = Duration::from_secs(2);
/// Interval between two attempts of a replica that does not lead. Including the read and the
/// write, the next replica leads less than 2 s after the Lease is released.
const FOLLOW_PERIOD: Duration = Duration::from_millis(1500);

/// Competes for the Leases in the leader election.
pub struct Elector {
    lease: LeaseName,
    /// The Lease, then that of version 0.1.0 if it has another name. All replicas acquire them in
    /// this order, and a leader holds both.
    held: Vec<HeldLease>,
    until: Arc<Awaited<Option<Instant>>>,
    metrics: Arc<Metrics>,
}

impl Elector {
    /// Creates an elector that has not started, and the [`Leadership`] that it controls.
    pub fn new(
        api: Api<Lease>,
        lease: LeaseName,
        metrics: Arc<Metrics>,
        time: LatestTime,
    ) -> (Self, Leadership) {
        let until = Arc::new(Awaited::new(None));
        let leadership = Leadership::until(until.clone());
        let former = lease.former.iter().filter(|name| **name != lease.name);
        let former = former.map(|name| LeaseName {
            name: name.clone(),
            ..lease.clone()
        });
        let leases = [lease.clone()].into_iter().chain(former);
        let held = leases.map(|lease| HeldLease::new(api.clone(), lease, time.clone()));
        let elector = Self {
            held: held.collect(),
            lease,
            until,
            metrics,
        };
        (elector, leadership)
    }

    /// Sets the time since when the cluster has been watched without a break: this replica writes
    /// it into the Lease while it leads, and reads it from the Lease while another replica leads.
    #[must_use]
    pub fn observing(mut self, observation: Arc<Observation>) -> Self {
        if let Some(lease) = self.held.first_mut() {
            lease.observe(observation);
        }
        self
    }

    /// Removes from the Lease the labels of components that this process does not run. `drain` does
    /// not call it: a drain of some components must keep the labels of the others, by which a later
    /// drain finds the Lease.
    #[must_use]
    pub fn replacing_labels(mut self) -> Self {
        self.held
            .iter_mut()
            .for_each(|lease| lease.replaces_labels = true);
        self
    }

    /// Creates a leadership that a test grants and revokes.
    #[cfg(test)]
    pub(crate) fn for_test() -> (Arc<Awaited<Option<Instant>>>, Leadership) {
        let until = Arc::new(Awaited::new(None));
        (until.clone(), Leadership::until(until))
    }

    /// Competes for the Leases until `stop`, then releases them, so that another replica does not
    /// have to wait until they expire.
    pub async fn run(mut self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            self.step_down_if_late();
            let began = Instant::now();
            match self.attempt().await {
                Ok(true) => self.lead(began + RENEW_DEADLINE),
                Ok(false) => self.follow("another replica leads"),
                Err(error) => {
                    tracing::warn!(lease = self.lease.name, %error, "cannot acquire or renew the Lease")
                }
            }
            self.step_down_if_late();
            let pause = if self.until.get().is_some() {
                RENEW_PERIOD
            } else {
                FOLLOW_PERIOD
            };
            tokio::select! { biased; () = stop.cancelled() => {}, () = tokio::time::sleep(pause) => {} }
        }
        self.release().await;
    }

    fn lead(&self, until: Instant) {
        if self.until.replace(Some(until)).is_none() {
            tracing::info!(
                lease = self.lease.name,
                identity = self.lease.identity,
                "this replica leads"
            );
        }
        self.metrics.work.leading(true);
    }

    fn follow(&self, why: &str) {
        if self.until.replace(None).is_some() {
            tracing::warn!(
                lease = self.lease.name,
                why,
                "this replica is no longer the leader, so \
                it stops its background writes"
            );
        }
        self.metrics.work.leading(false);
    }

    fn step_down_if_late(&self) {
        let late = self
            .until
            .get()
            .is_some_and(|until| Instant::now() >= until);
        if late {
            self.follow("the Lease could not be renewed in time");
        }
    }

    /// Tries to acquire or renew every Lease, in order, and stops at the first one that it does not
    /// get. Returns whether this replica holds all of them.
    async fn attempt(&mut self) -> kube::Result<bool> {
        for lease in &mut self.held {
            if !lease.attempt().await? {
                tracing::debug!(lease = lease.name(), "another replica holds the Lease");
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Releases the Leases, the last one first: a replica that acquires the first one then finds
    /// the other free.
    async fn release(mut self) {
        self.follow("this replica is stopping");
        while let Some(lease) = self.held.pop() {
            lease.release().await;
        }
    }
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod tests;
