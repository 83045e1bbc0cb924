//! Removes what Volume Warden wrote on objects, before Volume Warden itself is removed.
//!
//! **Order.** No Volume Warden may run or start: [`leases`]. The webhook configurations are deleted first, because a webhook without a
//! server delays every request: [`configurations`]. Then everything is read live, the removals are [`plan`]ned, a pure function of
//! what was read, and written, one patch for each object; and all of that again, until a read that
//! began after the last write shows nothing to do.
//!
//! **Safety.** Every write is tested against uid and resourceVersion. Of what cannot be read nothing is concluded. The finalizer of an
//! object that is being deleted is all that keeps it, so it stays where the object is in use, by the rules of the two components that
//! put it there.
//!
//! **What stays on purpose.** The owner reference of a claim to the pod that asked for it: the claim was made to go with it. Labels that
//! only people write: pv-releaser's on claims, and its older one. Events, which expire. The Lease, the Secret and the ConfigMap, which go
//! with their namespace.

pub mod configurations;
pub mod leases;
mod outcome;
mod piece;
mod plan;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use outcome::Outcome;
pub use piece::Piece;
pub use plan::{InUse, Plan, Terms, plan};
pub use read::World;

use crate::cluster::{Applied, Apply};
use anyhow::bail;
use kube::Client;
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

/// Log field and metric label.
pub const NAME: &str = "drain";

/// So often all is read, for objects that others write meanwhile.
const ROUNDS: u32 = 20;
/// Wait for requests that passed the webhooks before these were deleted, and for a write that a leader began before it released its
/// Lease: longer than all webhooks of one request together.
const SETTLE: Duration = Duration::from_secs(7);
/// Before what changed meanwhile is read again.
const PAUSE: Duration = Duration::from_millis(250);

/// One run of `volume-warden drain`.
pub struct Drain {
    /// The client for live reads.
    pub client: Client,
    /// The only writer to the API server.
    pub apply: Arc<Apply>,
    /// Claims of this namespace only, where set. Volumes have none.
    pub namespace: Option<String>,
    /// What to remove.
    pub terms: Terms,
    /// Writes under way at once.
    pub in_flight: usize,
}

impl Drain {
    /// Does all of it, and calls `say` with a line for each thing done.
    ///
    /// # Errors
    /// When something could not be read, a configuration could not be deleted, or the Lease is lost.
    pub async fn run(&self, say: &mut impl FnMut(&str)) -> anyhow::Result<Outcome> {
        // A name that is misspelt would be found empty.
        read::exists(&self.client, self.namespace.as_deref()).await?;
        // Nothing is done where what comes next cannot be read.
        World::read(&self.client, self.namespace.as_deref()).await?;
        let components = &self.terms.components;
        let deleted = configurations::delete(&self.client, &self.apply, components, say).await?;
        if !deleted.is_empty() {
            tokio::time::sleep(SETTLE).await;
        }
        let mut outcome = self.remove_parts(say).await?;
        outcome.configurations = configurations::returned(&self.client, &deleted).await?;
        Ok(outcome)
    }

    async fn remove_parts(&self, say: &mut impl FnMut(&str)) -> anyhow::Result<Outcome> {
        let (mut outcome, mut history) = (Outcome::default(), History::default());
        for _ in 0..ROUNDS {
            let world = World::read(&self.client, self.namespace.as_deref()).await?;
            let plan = plan(&world, &self.terms);
            (outcome.claims, outcome.volumes) = world.count();
            outcome.in_use = plan.in_use;
            let left = history.sort(plan.pieces);
            outcome.returned = history.returned.len();
            outcome.unsettled = left.len();
            if left.is_empty() {
                break;
            }
            for (piece, applied) in self.write(left, say).await {
                match applied {
                    Applied::Done => history.done(piece),
                    Applied::Stale => {}
                    Applied::Failed(error) if !is_refusal(&error) => {}
                    Applied::NotLeading => bail!("the Lease was lost; run it again"),
                    Applied::Withheld => {
                        outcome.withheld += 1;
                        history.given_up.insert(piece.id());
                    }
                    Applied::Failed(_) => {
                        outcome.failed += 1;
                        history.given_up.insert(piece.id());
                    }
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
        outcome.changed = history.done.len();
        outcome
            .in_use
            .iter()
            .for_each(|each| say(&each.to_string()));
        Ok(outcome)
    }
}

/// The API server understood and will say the same again. What is anything else, as no answer in time, is tried again.
fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if (400..500).contains(&status.code) && status.code != 429)
}

/// What was tried so far.
#[derive(Default)]
struct History {
    /// What was removed from each object.
    done: HashMap<String, HashSet<String>>,
    /// Refused, or withheld by a dry run: not tried again.
    given_up: HashSet<String>,
    /// Objects on which another client wrote again what had been removed. They are left, because that may repeat without end.
    returned: HashSet<String>,
}

impl History {
    /// The pieces to be tried.
    fn sort(&mut self, mut pieces: Vec<Piece>) -> Vec<Piece> {
        pieces.retain(|piece| {
            let id = piece.id();
            let before = self.done.get(&id);
            let returns = |what: &String| before.is_some_and(|before| before.contains(what));
            if piece.what.iter().any(returns) {
                self.returned.insert(id.clone());
            }
            !self.given_up.contains(&id) && !self.returned.contains(&id)
        });
        pieces
    }

    fn done(&mut self, piece: Piece) {
        self.done.entry(piece.id()).or_default().extend(piece.what);
    }
}
