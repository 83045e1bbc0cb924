//! Leader election with client-go's Lease protocol.
//!
//! Source: `staging/src/k8s.io/client-go/tools/leaderelection/leaderelection.go`. Every write is a
//! compare-and-swap on `resourceVersion`. The Lease of another holder counts as expired when the
//! *local* monotonic clock has seen no change of it for its whole duration, so wall clocks need not
//! agree. No crate is used, because none steps down in time when it loses the API server.
//!
//! A Lease does not prevent late writes of a former holder, so destructive writes also carry
//! preconditions.

use super::leadership::Leadership;
use crate::awaited::Awaited;
use crate::clock::Clock;
use crate::cluster::api::existing;
use crate::cluster::api::is_absent;
use crate::cluster::api::within;
use crate::telemetry::Metrics;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api,
    api::{ObjectMeta, PostParams},
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Lease duration: other replicas wait this long after the last renewal before they acquire the
/// Lease.
const DURATION: Duration = Duration::from_secs(15);
/// Renew deadline: this replica stops writing this long after the *beginning* of its last renewal.
/// Another replica acquires the Lease so much later that a write under way has ended.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// Interval between two renewals of the Lease.
const RENEW_PERIOD: Duration = Duration::from_secs(2);
/// Interval between reads of a Lease that another replica holds. Including the read and the write,
/// the next replica leads less than 2 s after the Lease is released.
const FOLLOW_PERIOD: Duration = Duration::from_millis(1500);
/// Time limit of one call of the leader election.
const CALL_LIMIT: Duration = Duration::from_secs(5);

/// The Lease for which this replica competes, and the identity of the replica.
#[derive(Clone, Debug)]
pub struct LeaseName {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Identity of the holder, unique to this process.
    pub identity: String,
    /// Labels that are added to those of the Lease, so that `drain` finds it whatever its name is.
    pub labels: BTreeMap<String, String>,
}

/// Competes for the Lease in the leader election.
pub struct Elector {
    api: Api<Lease>,
    lease: LeaseName,
    until: Arc<Awaited<Option<Instant>>>,
    metrics: Arc<Metrics>,
    /// The clock for the times in the Lease. They only inform: a Lease expires by the local time
    /// since this replica saw it change.
    clock: Clock,
    /// The Lease as this replica last read or wrote it, and when it first saw that spec.
    seen: Option<(Lease, Instant)>,
    /// Whether another replica may have written the Lease since: then it is read before it is
    /// written.
    stale: bool,
}

impl Elector {
    /// Creates an elector that has not started, and the [`Leadership`] that it controls.
    pub fn new(
        api: Api<Lease>,
        lease: LeaseName,
        metrics: Arc<Metrics>,
        clock: Clock,
    ) -> (Self, Leadership) {
        let until = Arc::new(Awaited::new(None));
        let leadership = Leadership::until(until.clone());
        (
            Self {
                api,
                lease,
                until,
                metrics,
                clock,
                seen: None,
                stale: true,
            },
            leadership,
        )
    }

    /// Creates a leadership that a test grants and revokes.
    #[cfg(test)]
    pub(crate) fn by_hand() -> (Arc<Awaited<Option<Instant>>>, Leadership) {
        let until = Arc::new(Awaited::new(None));
        (until.clone(), Leadership::until(until))
    }

    /// Competes for the Lease until `stop`, then releases the Lease, so that another replica does
    /// not have to wait until it expires.
    pub async fn run(mut self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            self.step_down_if_late();
            let began = Instant::now();
            match self.attempt().await {
                Ok(true) => self.lead(began + RENEW_DEADLINE),
                Ok(false) => self.follow("another replica leads"),
                Err(error) => {
                    tracing::warn!(lease = self.lease.name, %error, "cannot reach the Lease")
                }
            }
            self.step_down_if_late();
            let pause = match self.until.get().is_some() {
                true => RENEW_PERIOD,
                false => FOLLOW_PERIOD,
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
            tracing::warn!(lease = self.lease.name, why, "this replica no longer leads");
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

    /// Returns true if this replica holds the Lease by a write that the API server accepted.
    async fn attempt(&mut self) -> kube::Result<bool> {
        if !self.stale
            && let Some((held, _)) = self
                .seen
                .clone()
                .filter(|(lease, _)| holder(lease) == self.lease.identity)
            && self.write(held).await?
        {
            // The holder renews without a read. If another client wrote the Lease, perhaps only a
            // label, the compare-and-swap fails, and the Lease is read below.
            return Ok(true);
        }
        let read = within(CALL_LIMIT, self.api.get(&self.lease.name)).await;
        match existing(read)? {
            None => self.create().await,
            Some(lease) => {
                self.remember(lease.clone());
                let is_holder = holder(&lease) == self.lease.identity;
                if is_holder || holder(&lease).is_empty() || self.expired() {
                    self.write(lease).await
                } else {
                    Ok(false)
                }
            }
        }
    }

    fn remember(&mut self, lease: Lease) {
        let known = self.seen.take().filter(|(seen, _)| seen.spec == lease.spec);
        let since = known.map_or_else(Instant::now, |(_, since)| since);
        self.seen = Some((lease, since));
        self.stale = false;
    }

    fn expired(&self) -> bool {
        self.seen.as_ref().is_some_and(|(lease, since)| {
            let seconds = lease
                .spec
                .as_ref()
                .and_then(|spec| spec.lease_duration_seconds)
                .unwrap_or(0);
            since.elapsed() > Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
        })
    }

    async fn create(&mut self) -> kube::Result<bool> {
        let metadata = ObjectMeta {
            name: Some(self.lease.name.clone()),
            labels: Some(self.lease.labels.clone()),
            ..ObjectMeta::default()
        };
        let lease = Lease {
            metadata,
            spec: Some(self.spec(&LeaseSpec::default())),
        };
        let written = within(CALL_LIMIT, self.api.create(&PostParams::default(), &lease)).await;
        self.written(written)
    }

    async fn write(&mut self, mut lease: Lease) -> kube::Result<bool> {
        lease.spec = Some(self.spec(&lease.spec.unwrap_or_default()));
        let labels = lease.metadata.labels.get_or_insert_default();
        labels.extend(self.lease.labels.clone());
        // The API server compares metadata.resourceVersion, which makes this write a
        // compare-and-swap.
        let written = within(
            CALL_LIMIT,
            self.api
                .replace(&self.lease.name, &PostParams::default(), &lease),
        )
        .await;
        self.written(written)
    }

    fn written(&mut self, written: kube::Result<Lease>) -> kube::Result<bool> {
        // After a failed write, only a read can show whether it was applied.
        self.stale = true;
        match written {
            Ok(lease) => {
                self.remember(lease);
                Ok(true)
            }
            Err(error) if is_absent(&error) => Ok(false),
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the spec that replaces `before`. A change of the holder counts as a transition.
    fn spec(&self, before: &LeaseSpec) -> LeaseSpec {
        let now = MicroTime(self.clock.timestamp());
        let is_holder = before.holder_identity.as_deref() == Some(&self.lease.identity);
        let transitions = before.lease_transitions.unwrap_or(0);
        let first = before.holder_identity.is_none() && before.lease_transitions.is_none();
        LeaseSpec {
            holder_identity: Some(self.lease.identity.clone()),
            lease_duration_seconds: Some(DURATION.as_secs().try_into().unwrap_or(i32::MAX)),
            acquire_time: if is_holder {
                before.acquire_time.clone()
            } else {
                Some(now.clone())
            },
            renew_time: Some(now),
            lease_transitions: Some(if is_holder || first {
                transitions
            } else {
                transitions + 1
            }),
            ..LeaseSpec::default()
        }
    }

    async fn release(mut self) {
        self.follow("this replica is stopping");
        let Some((mut lease, _)) = self
            .seen
            .take()
            .filter(|(lease, _)| holder(lease) == self.lease.identity)
        else {
            return;
        };
        if let Some(spec) = &mut lease.spec {
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
        }
        if let Err(error) = within(
            CALL_LIMIT,
            self.api
                .replace(&self.lease.name, &PostParams::default(), &lease),
        )
        .await
        {
            tracing::info!(lease = self.lease.name, %error, "the Lease was not released; it expires");
        }
    }
}

fn holder(lease: &Lease) -> &str {
    lease
        .spec
        .as_ref()
        .and_then(|spec| spec.holder_identity.as_deref())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// A renewal that is one second late counts as a loss: a task that waits for the loss is woken,
    /// although this replica leads again by then.
    #[tokio::test(start_paused = true)]
    async fn a_late_renewal_is_a_loss() {
        let (lead, leadership) = Elector::by_hand();
        lead.replace(Some(Instant::now() + seconds(10)));
        let watched = leadership.clone();
        let lost = tokio::spawn(async move { watched.lost().await });
        tokio::time::sleep(seconds(8)).await;
        lead.replace(Some(Instant::now() + seconds(10)));
        tokio::time::sleep(seconds(9)).await;
        assert!(leadership.holds() && !lost.is_finished(), "renewed in time");
        tokio::time::sleep(seconds(2)).await;
        lead.replace(Some(Instant::now() + seconds(10)));
        assert!(leadership.holds());
        lost.await.expect("reports even a short loss");
    }
}
