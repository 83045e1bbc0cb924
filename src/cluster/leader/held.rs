//! One Lease of the leader election: its acquisition, renewal and release.

use super::lease_name::{LeaseName, holder};
use super::observation::Observation;
use crate::cluster::api::{LatestTime, existing, is_absent, within};
use crate::objects::keys::OWN;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api,
    api::{ObjectMeta, PostParams},
};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// Lease duration: other replicas wait this long after the last renewal before they acquire a Lease
/// that was not released.
pub(crate) const LEASE_DURATION: Duration = Duration::from_secs(15);
/// Time limit of one call of the leader election.
const CALL_LIMIT: Duration = Duration::from_secs(5);

/// One Lease that this replica competes for or holds.
pub(super) struct HeldLease {
    api: Api<Lease>,
    lease: LeaseName,
    /// The times in the `spec` of the Lease only inform: the Lease of another replica counts as
    /// expired once this replica, by its own monotonic clock, has seen no change of the `spec` for
    /// the Lease duration.
    time: LatestTime,
    /// The Lease as this replica last read or wrote it, and when it first saw that spec.
    seen: Option<(Lease, Instant)>,
    /// Whether `seen` may be out of date: at the start, and after a failed write. Then this replica
    /// reads the Lease before it writes it.
    stale: bool,
    /// Whether this replica has already logged that the holder runs other components.
    reported: bool,
    /// Whether labels of components that only an earlier holder ran are removed from the Lease.
    pub(super) replaces_labels: bool,
    /// Since when the cluster has been watched, which the holder writes into the Lease.
    observation: Arc<Observation>,
    /// When the API server last answered an attempt.
    answered: Instant,
}

impl HeldLease {
    pub(super) fn new(api: Api<Lease>, lease: LeaseName, time: LatestTime) -> Self {
        Self {
            api,
            lease,
            time,
            seen: None,
            stale: true,
            reported: false,
            replaces_labels: false,
            observation: Arc::default(),
            answered: Instant::now(),
        }
    }

    /// Sets the time since when the cluster has been watched without a break. This replica writes
    /// it into the Lease while it holds the Lease, and updates it from the Lease of another holder.
    pub(super) fn observe(&mut self, observation: Arc<Observation>) {
        self.observation = observation;
    }

    pub(super) fn name(&self) -> &str {
        &self.lease.name
    }

    /// Tries to acquire or renew the Lease. Returns true if the API server accepted the write;
    /// false if another replica holds the Lease, or if another client wrote or deleted it first.
    ///
    /// While the API server does not answer, the watches of this replica may miss changes, so each
    /// attempt first passes the time since the last answer to [`Observation::interrupt`].
    pub(super) async fn attempt(&mut self) -> kube::Result<bool> {
        let silent = self.answered.elapsed();
        self.observation.interrupt(silent, self.time.now());
        let held = self.acquire().await?;
        self.answered = Instant::now();
        Ok(held)
    }

    async fn acquire(&mut self) -> kube::Result<bool> {
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
            // The deletion of a Lease does not stop its holder, which leads until its deadline.
            None if self.is_held_by_another() => Ok(false),
            None => self.create().await,
            Some(lease) => {
                let known = self.seen.as_ref();
                let renewed = known.is_some_and(|(known, _)| known.spec != lease.spec);
                let released_by = known
                    .filter(|(_, since)| since.elapsed() <= LEASE_DURATION)
                    .map(|(known, _)| holder(known).to_owned())
                    .filter(|former| holder(&lease).is_empty() && *former != self.lease.identity);
                if let Some(former) = released_by {
                    self.observation.take_over(&lease, &former);
                }
                self.remember(lease.clone());
                let is_holder = holder(&lease) == self.lease.identity;
                if is_holder || holder(&lease).is_empty() || self.expired() {
                    self.write(lease).await
                } else {
                    self.observation.follow(&lease, renewed);
                    self.report_other_components(&lease);
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

    /// Whether another replica holds the Lease that was seen last, and that Lease has not expired.
    fn is_held_by_another(&self) -> bool {
        let holder = self.seen.as_ref().map_or("", |(lease, _)| holder(lease));
        !holder.is_empty() && holder != self.lease.identity && !self.expired()
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
        if self.replaces_labels {
            labels.retain(|key, _| !key.starts_with(OWN));
        }
        labels.extend(self.lease.labels.clone());
        self.observation.write(&mut lease, &self.lease.identity);
        // The API server compares metadata.resourceVersion, which makes this write a
        // compare-and-swap.
        let parameters = PostParams::default();
        let write = self.api.replace(&self.lease.name, &parameters, &lease);
        let written = within(CALL_LIMIT, write).await;
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

    /// Returns the spec that replaces `before`. A change of the holder counts as a transition; the
    /// first holder does not.
    fn spec(&self, before: &LeaseSpec) -> LeaseSpec {
        let now = MicroTime(self.time.now());
        let is_holder = before.holder_identity.as_deref() == Some(&self.lease.identity);
        let transitions = before.lease_transitions.unwrap_or(0);
        let first = before.holder_identity.is_none() && before.lease_transitions.is_none();
        LeaseSpec {
            holder_identity: Some(self.lease.identity.clone()),
            lease_duration_seconds: Some(LEASE_DURATION.as_secs().try_into().unwrap_or(i32::MAX)),
            acquire_time: if is_holder {
                before.acquire_time.clone()
            } else {
                Some(now.clone())
            },
            renew_time: Some(now),
            lease_transitions: Some(if is_holder || first {
                transitions
            } else {
                transitions.saturating_add(1)
            }),
            ..LeaseSpec::default()
        }
    }

    /// Releases the Lease, if this replica holds it as far as it knows: the holder becomes empty,
    /// so that another replica can acquire the Lease at once.
    pub(super) async fn release(mut self) {
        let Some((mut lease, _)) = self
            .seen
            .take()
            .filter(|(lease, _)| holder(lease) == self.lease.identity)
        else {
            return;
        };
        // Another replica takes the observation over, so what this one may have missed counts.
        let silent = self.answered.elapsed();
        self.observation.interrupt(silent, self.time.now());
        self.observation.write(&mut lease, &self.lease.identity);
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
            tracing::info!(lease = self.lease.name, %error, "the Lease could not be released; \
                another replica becomes the leader when it expires");
        }
    }

    /// Logs once that the Lease lacks a label of this replica, so its holder runs other components:
    /// two installations may compete for one Lease by mistake.
    fn report_other_components(&mut self, lease: &Lease) {
        let found = lease.metadata.labels.as_ref();
        let differs = |label: &String| found.is_none_or(|labels| !labels.contains_key(label));
        if !self.reported && self.lease.labels.keys().any(differs) {
            self.reported = true;
            tracing::warn!(
                lease = self.lease.name,
                holder = holder(lease),
                "the Lease is held by a process with other components; unless this is an upgrade, \
                 give each installation its own --service-name or --leader-elect-resource-name"
            );
        }
    }
}
