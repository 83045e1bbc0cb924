//! The replicas of a history: their starts, crashes and disruptions.

use crate::{
    admission::Reviews,
    cluster::Cluster,
    plan::{Disruption, Plan},
    replica::{self, Replica},
};
use std::{sync::Arc, time::Duration};

/// Time until a crashed replica is started again.
const RESTART: Duration = Duration::from_millis(900);

/// The replicas of a history.
pub(super) struct Replicas<'a> {
    cluster: Arc<Cluster>,
    reviews: Arc<Reviews>,
    plan: &'a Plan,
    slots: Vec<Slot>,
}

/// A place in which one replica after another runs.
struct Slot {
    index: usize,
    incarnation: u32,
    replica: Replica,
}

impl<'a> Replicas<'a> {
    /// Starts all replicas of the plan.
    pub(super) async fn start(
        cluster: &Arc<Cluster>,
        reviews: &Arc<Reviews>,
        plan: &'a Plan,
    ) -> anyhow::Result<Self> {
        let mut replicas = Self {
            cluster: cluster.clone(),
            reviews: reviews.clone(),
            plan,
            slots: Vec::new(),
        };
        for index in 0..plan.replicas {
            let replica = replicas.launch(index, 0).await?;
            replicas.arrange_crashes(index, &replica);
            replicas.slots.push(Slot {
                index,
                incarnation: 0,
                replica,
            });
        }
        Ok(replicas)
    }

    /// Carries out the disruptions of the plan in the order of their times.
    pub(super) async fn disrupt(&mut self) -> anyhow::Result<()> {
        let mut all = self.plan.disruptions.clone();
        all.sort_by_key(|(at, _)| *at);
        for (at, disruption) in all {
            self.wait_until(at).await?;
            let text = format!("{disruption:?}");
            let now = self.cluster.schedule.now();
            self.cluster
                .trace
                .record(now, &text, || text.to_uppercase());
            self.one(now, disruption).await?;
        }
        Ok(())
    }

    /// Waits until this virtual millisecond, and starts crashed replicas again.
    pub(super) async fn wait_until(&mut self, at: u64) -> anyhow::Result<()> {
        while self.cluster.schedule.now() < at {
            let left = Duration::from_millis(at - self.cluster.schedule.now());
            tokio::time::sleep(left.min(RESTART)).await;
            for place in 0..self.slots.len() {
                self.restart(place, false).await?;
            }
        }
        Ok(())
    }

    /// Returns a message for each replica that is not ready, with what it waits for.
    pub(super) fn unready(&self) -> Vec<String> {
        let slots = self.slots.iter().map(|slot| &slot.replica);
        let running = slots.filter(|replica| !replica.connection().is_cut());
        let unready = running.filter_map(|replica| {
            let missing = replica.missing();
            (!missing.is_empty())
                .then(|| format!("{} is not ready: {}", replica.name(), missing.join(", ")))
        });
        unready.collect()
    }

    async fn one(&mut self, now: u64, disruption: Disruption) -> anyhow::Result<()> {
        let connection = |replica: usize| {
            let slot = self.slots.get(replica);
            slot.map(|slot| slot.replica.connection())
        };
        match disruption {
            // `arrange_crashes` sets this up when the replica starts.
            Disruption::CrashAt { .. } => {}
            Disruption::Hold {
                replica,
                milliseconds,
            } => {
                if let Some(connection) = connection(replica) {
                    connection.hold(now + milliseconds);
                }
            }
            Disruption::Pause {
                replica,
                milliseconds,
            } => {
                if let Some(connection) = connection(replica) {
                    connection.pause(now + milliseconds);
                }
            }
            Disruption::Restart { replica } => self.restart(replica, true).await?,
            Disruption::EndWatches => self.cluster.server.end_watches(),
            Disruption::Compact => {
                self.cluster.server.compact();
                self.cluster.server.end_watches();
            }
        }
        Ok(())
    }

    /// Starts the replica again if it has crashed, or unconditionally if `in_any_case`.
    async fn restart(&mut self, place: usize, in_any_case: bool) -> anyhow::Result<()> {
        let Some(slot) = self.slots.get(place) else {
            return Ok(());
        };
        let crashed = slot.replica.connection().is_cut();
        if !crashed && !in_any_case {
            return Ok(());
        }
        let incarnation = slot.incarnation + 1;
        let next = Slot {
            index: slot.index,
            incarnation,
            replica: self.launch(slot.index, incarnation).await?,
        };
        let last = std::mem::replace(&mut self.slots[place], next);
        if crashed {
            last.replica.kill()
        } else {
            last.replica.terminate().await
        }
        let name = self.slots[place].replica.name();
        let now = self.cluster.schedule.now();
        self.cluster
            .trace
            .record(now, ("start", name), || format!("{name} STARTS"));
        Ok(())
    }

    async fn launch(&self, index: usize, incarnation: u32) -> anyhow::Result<Replica> {
        let name = replica::name(index, incarnation);
        // With two replicas, only the clock of the second is wrong. A single replica has a wrong
        // clock.
        let wrong = match self.plan.replicas {
            1 => 1,
            _ => i64::try_from(index).unwrap_or_default(),
        };
        let offset = self.plan.clock_skew * wrong;
        Replica::start(&self.cluster, &self.reviews, name, &self.plan.start, offset).await
    }

    /// Sets up the crashes in the plan for the first replica in a place.
    fn arrange_crashes(&self, index: usize, started: &Replica) {
        for (_, disruption) in &self.plan.disruptions {
            if let Disruption::CrashAt {
                replica,
                request,
                after_effect,
            } = disruption
                && *replica == index
            {
                started.connection().crash_at(*request, *after_effect);
            }
        }
    }
}
