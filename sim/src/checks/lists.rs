//! S11: how many LISTs of pods a replica waits for at the same time.

use super::Found;
use crate::{cluster::Cluster, network::is_watch, plan::Plan, replica::is_replica};
use bytes::Bytes;
use http::{Method, Request};
use std::{collections::BTreeMap, sync::Arc};

/// The LISTs of pods for which replicas wait.
#[derive(Default)]
pub struct Lists {
    /// The number of LISTs, by client and path.
    waiting: BTreeMap<(String, String), usize>,
}

impl Lists {
    /// Records that a client begins to wait for a LIST of pods.
    fn list(&mut self, plan: &Plan, client: &str, path: &str) -> Found {
        let count = self
            .waiting
            .entry((client.into(), path.into()))
            .or_default();
        *count += 1;
        let most = readers_of_pods(plan);
        let why =
            || format!("{client} waits for {count} LISTs of {path} at once: more than {most}");
        (*count > most).then(|| ("S11", why()))
    }

    fn listed(&mut self, client: &str, path: &str) {
        let count = self.waiting.get_mut(&(client.into(), path.into()));
        if let Some(count) = count {
            *count = count.saturating_sub(1);
        }
    }
}

/// How many parts of one replica list the pods of a namespace. Each shares its LISTs among all
/// callers, so that it waits for at most one at a time: the `live_pods` of `src/assembly.rs`, those
/// of the condition Unused and of pvc-expiry, and the watch of a process for one namespace.
fn readers_of_pods(plan: &Plan) -> usize {
    2 + usize::from(plan.expire_unused().is_some()) + usize::from(plan.start.namespace.is_some())
}

/// Marks that a client waits for a LIST of pods, until it is dropped.
pub struct Listing {
    cluster: Arc<Cluster>,
    client: Arc<str>,
    path: String,
}

impl Listing {
    /// Counts the request if it is a LIST of the pods of a namespace by a replica.
    pub fn begin(
        cluster: &Arc<Cluster>,
        client: &Arc<str>,
        request: &Request<Bytes>,
    ) -> Option<Self> {
        let path = request.uri().path();
        let judged = is_replica(client)
            && request.method() == Method::GET
            && path.starts_with("/api/v1/namespaces/")
            && path.ends_with("/pods")
            && !is_watch(request);
        if !judged {
            return None;
        }
        let now = cluster.schedule.now();
        let checks = &cluster.checks;
        checks.with_lists(now, |lists, plan| lists.list(plan, client, path));
        Some(Self {
            cluster: cluster.clone(),
            client: client.clone(),
            path: path.to_owned(),
        })
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        let now = self.cluster.schedule.now();
        self.cluster.checks.with_lists(now, |lists, _| {
            lists.listed(&self.client, &self.path);
            None
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reader_lists_once_at_a_time() {
        let (mut lists, plan) = (Lists::default(), Plan::new(1));
        let most = readers_of_pods(&plan);
        for _ in 0..most {
            assert_eq!(lists.list(&plan, "replica-0.0", "pods"), None);
        }
        assert_eq!(lists.list(&plan, "replica-1.0", "pods"), None);
        lists.listed("replica-0.0", "pods");
        assert_eq!(lists.list(&plan, "replica-0.0", "pods"), None);
        assert!(lists.list(&plan, "replica-0.0", "pods").is_some());
    }
}
