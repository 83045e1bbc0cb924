//! Removes what Volume Warden wrote on objects, before Volume Warden itself is uninstalled.
//!
//! **Order.** `drain` first acquires the Leases, so that no Volume Warden writes meanwhile:
//! [`leases`]. It deletes the webhook configurations, because a webhook without a server delays
//! every request: [`configurations`]. Then it reads all objects live, [plans](mod@plan) the
//! removals by a pure function of these objects, and patches each object. It repeats these three
//! steps until a read that began after the last write finds nothing to remove, but at most 20 times
//! without a purge.
//!
//! **Safety.** Every write tests the uid, and the resourceVersion unless it removes a condition
//! from the status. If a list cannot be read, nothing more is written. A purge starts only within
//! seconds of the lists that it relies on; the next round reads new lists for the remaining
//! volumes. The protection finalizer can be the only thing that keeps an object that is being
//! deleted, so `drain` leaves it while a pod uses the claim, or while the volume is Bound.
//!
//! **What is left on purpose.** The owner reference of a claim to the pod that requested it,
//! because the claim must be deleted with the pod. The annotations and reservations of pv-releaser
//! on volumes. Labels that only users write: those of pv-releaser on claims, and its legacy label.
//! Events, which expire. The Lease, the Secrets and the ConfigMap, which are deleted with their
//! namespace. Volumes in the trash of pvc-trash with the copies of their objects, unless
//! `--purge-trash` is set. The annotation by which a user restores a claim.

pub mod configurations;
pub mod leases;
#[cfg(test)]
mod list_tests;
mod object_cleanup;
mod outcome;
mod plan;
mod read;
#[cfg(test)]
mod tests;
mod trash;
#[cfg(test)]
mod trash_tests;
mod write;

pub use object_cleanup::{ObjectCleanup, Precondition};
pub use outcome::Outcome;
pub use plan::{DrainConfig, InUse, plan};
pub use read::ClusterObjects;
pub use trash::Kept;

use crate::{
    cluster::{Applied, Apply, is_lasting_refusal},
    components::trash_list::TrashListing,
    hashing::{HashMap, HashSet},
};
use anyhow::bail;
use kube::Client;
use std::{sync::Arc, time::Duration};

/// Name of `drain` in log fields and metric labels.
pub const NAME: &str = "drain";

/// Reasons of the removals: Event reasons, log fields and metric labels.
pub mod reasons {
    use crate::reason::reasons;

    reasons! {
        /// The API server refused to let `volume-warden drain` remove what Volume Warden wrote on
        /// the object.
        FAILED_CLEANUP: Warning "claim, volume" = "FailedCleanup";
        /// `volume-warden drain` removed what Volume Warden wrote on the object.
        CLEANED_UP = "CleanedUp";
    }
}

/// Maximum number of rounds of reads and writes, for objects that other clients write meanwhile.
/// Rounds up to the last one that purged a volume do not count: the lists of a round support purges
/// for some seconds only.
const ROUNDS: u32 = 20;
/// Wait for requests that passed the webhooks before `drain` deleted these. It is longer than all
/// webhooks of one request together, which may take 8 s for a claim with both markers: see
/// `docs/operations/webhook-latency.md`.
const IN_FLIGHT_REQUESTS: Duration = Duration::from_secs(9);
/// Pause between two rounds, before all objects are read again.
const PAUSE: Duration = Duration::from_millis(250);

/// One run of `volume-warden drain`.
pub struct Drain {
    /// The client for live reads.
    pub client: Client,
    /// Carries out all writes on objects.
    pub apply: Arc<Apply>,
    /// The only namespace whose claims and lists of deleted claims are drained; all namespaces if
    /// none. Volumes are drained in any case.
    pub namespace: Option<String>,
    /// The namespace in which Volume Warden ran. It contains the copies of volume objects, which
    /// pvc-trash keeps in ConfigMaps.
    pub system_namespace: String,
    /// What to remove from objects.
    pub config: DrainConfig,
    /// Maximum number of concurrent writes of `drain`.
    pub in_flight: usize,
}

impl Drain {
    /// Runs all steps, and calls `print_line` with a line for each object that is changed or left.
    ///
    /// # Errors
    /// When something could not be read, a configuration could not be deleted, or the Lease is
    /// lost.
    pub async fn run(&self, print_line: &mut impl FnMut(&str)) -> anyhow::Result<Outcome> {
        // In a namespace that does not exist, for example because of a typing error, the drain
        // would find nothing and report success.
        read::exists(&self.client, self.namespace.as_deref()).await?;
        // Nothing is deleted if the objects of the next step cannot be read.
        self.read().await?;
        let components = &self.config.components;
        let deleted =
            configurations::delete(&self.client, &self.apply, components, print_line).await?;
        if deleted {
            tokio::time::sleep(IN_FLIGHT_REQUESTS).await;
        }
        let mut outcome = self.remove_parts(print_line).await?;
        if !self.apply.dry_run {
            outcome.configurations = configurations::existing_of(&self.client, components).await?;
        }
        Ok(outcome)
    }

    async fn read(&self) -> anyhow::Result<ClusterObjects> {
        let namespace = self.namespace.as_deref();
        let lists = self.config.drains(&TrashListing);
        let wanted = (self.config.purge_trash, lists);
        ClusterObjects::read(&self.client, namespace, wanted).await
    }

    async fn remove_parts(&self, print_line: &mut impl FnMut(&str)) -> anyhow::Result<Outcome> {
        let (mut outcome, mut history) = (Outcome::default(), History::default());
        let mut rounds = 0;
        while rounds < ROUNDS {
            let objects = self.read().await?;
            let plan = plan(&objects, &self.config);
            (outcome.claims, outcome.volumes) = objects.count();
            (outcome.in_use, outcome.kept) = (plan.in_use, plan.kept);
            let left = history.retain_pending(plan.cleanups);
            outcome.returned = history.returned.len();
            outcome.unfinished = left.len();
            if left.is_empty() {
                break;
            }
            rounds += 1;
            for (cleanup, applied) in self.write(left, objects.proof, print_line).await {
                if cleanup.is_purge() && matches!(applied, Applied::Done | Applied::Withheld) {
                    rounds = 0;
                }
                match applied {
                    Applied::Done => history.done(cleanup),
                    Applied::NotLeading => {
                        bail!("the Lease was lost; run volume-warden drain again")
                    }
                    Applied::Withheld => {
                        outcome.withheld += 1;
                        history.given_up.insert(cleanup.id());
                    }
                    Applied::Failed(error) if is_lasting_refusal(&error) => {
                        outcome.failed += 1;
                        history.given_up.insert(cleanup.id());
                    }
                    // Tried again.
                    Applied::Stale | Applied::Failed(_) => {}
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
        outcome.changed = history.done.len();
        let in_use = outcome.in_use.iter().map(ToString::to_string);
        let kept = outcome.kept.iter().map(ToString::to_string);
        in_use.chain(kept).for_each(|line| print_line(&line));
        Ok(outcome)
    }
}

/// The writes of `drain` so far.
#[derive(Default)]
struct History {
    /// The removed parts of each object.
    done: HashMap<String, HashSet<String>>,
    /// Objects whose write the API server refused, or a dry run withheld; they are not tried
    /// again.
    given_up: HashSet<String>,
    /// Objects on which another client wrote a removed part again. They are left unchanged, because
    /// that may repeat without end.
    returned: HashSet<String>,
}

impl History {
    /// Returns the cleanups to write: not those of objects that were given up, or on which another
    /// client wrote a removed part again.
    fn retain_pending(&mut self, mut cleanups: Vec<ObjectCleanup>) -> Vec<ObjectCleanup> {
        cleanups.retain(|cleanup| {
            let id = cleanup.id();
            let before = self.done.get(&id);
            let returns = |what: &String| before.is_some_and(|before| before.contains(what));
            if cleanup.what.iter().any(returns) {
                self.returned.insert(id.clone());
            }
            !self.given_up.contains(&id) && !self.returned.contains(&id)
        });
        cleanups
    }

    fn done(&mut self, mut cleanup: ObjectCleanup) {
        if let Some(partly_removed) = &cleanup.partly_removed {
            // The next round removes the rest of it.
            cleanup.what.retain(|what| what != partly_removed);
        }
        self.done
            .entry(cleanup.id())
            .or_default()
            .extend(cleanup.what);
    }
}
