//! One collection: finds and deletes orphaned namespaces of the storage backend.

use super::{
    KnownNames, Options, Origin, Removal, Remover, Report, Row, Scope, Seen, Unreadable, Verdict,
    judge_all,
};
use crate::{
    backend::{Failure, Listed, Listing},
    cluster::SharedList,
    hashing::{HashMap, HashSet},
    objects::Namespace,
};
use futures::{StreamExt, stream::FuturesUnordered};
use kube::Client;
use std::{collections::BTreeSet, sync::Arc, time::SystemTime};

/// Why a collection ended before it deleted anything.
#[derive(Debug, thiserror::Error)]
pub enum Abort {
    /// The backend could not be listed.
    #[error("the storage backend could not be listed: {0}")]
    Backend(Failure),
    /// The namespaces of Kubernetes could not be listed.
    #[error("the namespaces of Kubernetes could not be listed: {0}")]
    Kubernetes(Arc<kube::Error>),
    /// Kubernetes listed no namespaces, which is impossible in a working cluster.
    #[error("Kubernetes listed no namespaces, so nothing is deleted")]
    Empty,
    /// The backend and Kubernetes have no namespace in common, except for protected ones.
    #[error(
        "none of the {0} namespaces in the storage backend exists in Kubernetes, except for \
         protected ones, so the storage backend or the kubeconfig may be of another cluster; \
         nothing was deleted. If they belong together, add --force"
    )]
    NothingInCommon(usize),
    /// The record of the namespaces that this cluster once had could not be read.
    #[error("the names of the namespaces that this cluster once had could not be read: {0}")]
    Seen(Unreadable),
}

impl Abort {
    /// The label value in metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Backend(_) => "BackendFailed",
            Self::Kubernetes(_) => "KubernetesFailed",
            Self::Empty => "KubernetesEmpty",
            Self::NothingInCommon(_) => "NothingInCommon",
            Self::Seen(_) => "SeenFailed",
        }
    }
}

/// A callback for each namespace whose removal has ended, with the result.
pub type Done<'a> = &'a (dyn Fn(&Listed, &Removal) + Send + Sync);

/// Runs collections: each finds and deletes orphaned namespaces of the storage backend.
pub struct Collection {
    remover: Arc<Remover>,
    live: Arc<SharedList<Namespace>>,
    /// The names of the namespaces that this cluster once had; used only with `Scope::Seen`.
    pub seen: Arc<Seen>,
    /// The options of namespace-gc.
    pub options: Arc<Options>,
    /// Whether anything is deleted only if the backend and Kubernetes have a namespace in common
    /// that is not protected. If they have none, one of the two may be of another cluster.
    one_cluster: bool,
}

/// What a collection found, before it deletes.
struct Snapshot {
    /// The time at which both judgements of a collection measure ages, so that no namespace
    /// outgrows the grace period between them.
    at: SystemTime,
    listing: Arc<Listing>,
    kubernetes: HashSet<String>,
    seen: HashSet<String>,
}

/// What one collection found and did.
#[derive(Debug)]
pub struct Collected {
    /// The verdict on each namespace of the backend, and the result of its removal.
    pub report: Report,
    /// Names of namespaces that this cluster once had, and that neither Kubernetes nor the backend
    /// has any more. Empty unless the scope is `Scope::Seen`.
    pub gone: HashSet<String>,
    /// Names of Kubernetes namespaces that are not recorded, for example because the record was
    /// deleted or restored from a backup.
    pub unrecorded: BTreeSet<String>,
}

impl Collection {
    /// Creates a collection whose deletions `remover` carries out, by the options of `remover`.
    pub fn new(client: &Client, remover: Arc<Remover>, seen: Arc<Seen>) -> Self {
        let (options, metrics) = (remover.options.clone(), remover.metrics.clone());
        Self {
            remover,
            live: SharedList::new(metrics, client),
            seen,
            options,
            one_cluster: false,
        }
    }

    /// Makes the collection delete nothing if the backend and Kubernetes have no namespace in
    /// common, except for protected ones, which every cluster has: an administrator may have
    /// chosen the wrong kubeconfig.
    pub fn of_one_cluster(mut self) -> Self {
        self.one_cluster = true;
        self
    }

    /// Lists the backend and Kubernetes. If namespaces are orphans, it waits, lists Kubernetes
    /// again, and deletes those that are still orphans. `waiting` are names that the reconciler
    /// retries, so the collection leaves them; `done` is called after each removal.
    ///
    /// # Errors
    /// If a list could not be read or is implausible, see [`Abort`]. Nothing was deleted then.
    pub async fn run(&self, waiting: &HashSet<String>, done: Done<'_>) -> Result<Collected, Abort> {
        let mut found = self.read().await?;
        let orphans = self.judge(&found, waiting).contains(&Verdict::Orphan);
        if orphans {
            tokio::time::sleep(self.options.confirm_after).await;
            // A namespace that existed at the first LIST is kept: when
            // Kubernetes deletes it, the reconciler removes it from the backend.
            found.kubernetes.extend(self.kubernetes().await?);
        }
        let verdicts = self.judge(&found, waiting);
        if self.one_cluster && verdicts.contains(&Verdict::Orphan) && !found.overlaps(&self.options)
        {
            return Err(Abort::NothingInCommon(found.listing.namespaces.len()));
        }
        let removals = self.remove(&found.listing, &verdicts, done).await;
        Ok(found.conclude(verdicts, removals))
    }

    /// Lists the backend before Kubernetes, so that a namespace that is created in both meanwhile
    /// is found in Kubernetes.
    async fn read(&self) -> Result<Snapshot, Abort> {
        let seen = match self.options.scope {
            Scope::Seen => self.seen.read().await.map_err(Abort::Seen)?,
            Scope::All => HashSet::default(),
        };
        let backend = &self.remover.backend;
        let listing = backend.list().await.map_err(Abort::Backend)?;
        let mut listing = Listing::clone(&listing);
        listing.namespaces.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Snapshot {
            at: self.remover.clock.system_time(),
            listing: Arc::new(listing),
            kubernetes: self.kubernetes().await?,
            seen,
        })
    }

    async fn kubernetes(&self) -> Result<HashSet<String>, Abort> {
        let namespaces = self
            .live
            .list(&"".into())
            .await
            .map_err(Abort::Kubernetes)?;
        let names = namespaces
            .value
            .objects()
            .map(|(name, _)| name.name.to_string());
        let names: HashSet<_> = names.collect();
        if names.is_empty() {
            return Err(Abort::Empty);
        }
        Ok(names)
    }

    fn judge(&self, found: &Snapshot, waiting: &HashSet<String>) -> Vec<Verdict> {
        let known = KnownNames {
            kubernetes: &found.kubernetes,
            seen: &found.seen,
            waiting,
            now: found.at,
        };
        judge_all(&found.listing.namespaces, &known, &self.options)
    }

    /// Removes the orphans. Returns the results by index in the list. A failure does not stop
    /// other removals. The remover limits how many run at once.
    async fn remove(
        &self,
        listing: &Listing,
        verdicts: &[Verdict],
        done: Done<'_>,
    ) -> HashMap<usize, Removal> {
        let mut removals = FuturesUnordered::new();
        for (place, listed) in listing.namespaces.iter().enumerate() {
            if verdicts.get(place) == Some(&Verdict::Orphan) {
                removals.push(self.remove_one(place, listed));
            }
        }
        let mut removed = HashMap::default();
        while let Some((place, listed, removal)) = removals.next().await {
            done(listed, &removal);
            removed.insert(place, removal);
        }
        removed
    }

    async fn remove_one<'a>(
        &self,
        place: usize,
        listed: &'a Listed,
    ) -> (usize, &'a Listed, Removal) {
        let removal = self.remover.remove_listed(listed, Origin::Collected, None);
        (place, listed, removal.await)
    }
}

impl Snapshot {
    /// Whether a namespace that is not protected is in the backend and in Kubernetes.
    fn overlaps(&self, options: &Options) -> bool {
        let mut names = self.listing.namespaces.iter().map(|listed| &listed.name);
        names.any(|name| self.kubernetes.contains(name) && !options.protects(name))
    }

    fn conclude(self, verdicts: Vec<Verdict>, mut removals: HashMap<usize, Removal>) -> Collected {
        let namespaces = self.listing.namespaces.iter().zip(verdicts).enumerate();
        let rows = namespaces.map(|(place, (listed, verdict))| Row {
            name: listed.name.clone(),
            verdict,
            removal: removals.remove(&place),
        });
        let rows: Vec<_> = rows.collect();
        // A proxy may have answered that a namespace is absent. If it is, the next listing shows
        // it.
        let left = |row: &&Row| !matches!(row.removal, Some(Removal::Deleted));
        let left: HashSet<_> = rows.iter().filter(left).map(|row| &row.name).collect();
        let here = |name: &String| self.kubernetes.contains(name) || left.contains(name);
        let gone = self
            .seen
            .iter()
            .filter(|name| !here(name))
            .cloned()
            .collect();
        let unrecorded = self.kubernetes.difference(&self.seen).cloned().collect();
        let skipped = self.listing.skipped;
        Collected {
            report: Report { rows, skipped },
            gone,
            unrecorded,
        }
    }
}
