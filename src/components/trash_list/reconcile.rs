//! The reconciler of trash-list. Its keys are the names of the lists.

use super::{
    NAME,
    caches::Caches,
    notices,
    reasons::{FAILED_LIST_TRASH, TRASH_LISTED, TRASH_UNLISTED},
    rule::{Step, View, decide},
};
use crate::{
    cluster::{
        Action, Applied, Apply, Basis, Caller, Creation, DEFAULT_CALL_TIMEOUT, EventDeduplicator,
        Lane, LiveGet, OnRefusal, Reconcile, ReconcileError, Reconciled, Regarding, Requeue,
        Target,
    },
    hashing::{HashMap, HashSet},
    objects::{
        Kind, Namespace, ObjectName, TrashList,
        patch::add_at,
        trash_entry::Entry,
        trash_list::{KEY, config_map},
    },
};
use parking_lot::Mutex;
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// Maximum age of the read on which the creation or deletion of a list rests.
const MAX_AGE: Duration = Duration::from_secs(10);
/// Minimum time between two writes of one list: a namespace may delete thousands of claims at once.
const PAUSE: Duration = Duration::from_secs(1);

/// Creates, updates and deletes the lists of deleted claims.
pub struct TrashListReconciler {
    /// The watches that trash-list reads.
    pub caches: Caches,
    /// Whether namespaces can opt out.
    pub opt_out: bool,
    /// Live reads of namespaces: in one that was recreated, nothing of the earlier one is listed.
    pub namespaces: Arc<LiveGet<Namespace>>,
    /// Live reads of lists before they are deleted.
    pub live: Arc<LiveGet<TrashList>>,
    /// Writes to the API server.
    pub apply: Arc<Apply>,
    /// When lists were written last.
    pub written: Mutex<HashMap<ObjectName, Instant>>,
    /// The ConfigMaps of users that Events have already reported.
    pub reported: Arc<EventDeduplicator<ObjectName, ()>>,
}

impl TrashListReconciler {
    async fn act(
        &self,
        name: &ObjectName,
        list: Option<&Arc<TrashList>>,
        step: Step,
    ) -> Reconciled {
        let applied = match (step, list) {
            (Step::Create(text), _) => self.create(name, &text).await,
            (Step::Write(text), Some(list)) => self.write(name, list, &text).await,
            (Step::Delete, Some(list)) => {
                let target = target(name, list);
                let deleted = delete(&self.live, &self.apply, NAME, &target).await;
                deleted.map_err(ReconcileError::unread(format!("the ConfigMap {name}")))?
            }
            _ => return Ok(Requeue::OnEvent),
        };
        // A write that failed also delays the next one by `PAUSE`: a user who changes the list all
        // the time makes each write fail.
        self.written.lock().insert(name.clone(), Instant::now());
        if let Some(list) = list.filter(|_| applied.written()) {
            self.caches.lists.mark_stale(name, list);
        }
        // Not before the pause: an evaluation within it would succeed, and end the backoff.
        let reconciled = applied.into_reconciled();
        reconciled.map_err(|error| ReconcileError::after(PAUSE, error.to_string()))
    }

    /// Creates the list, unless it has to wait for longer than [`MAX_AGE`]: meanwhile, the
    /// namespace may be recreated, whose users must not see the names of earlier claims.
    async fn create(&self, name: &ObjectName, text: &str) -> Applied {
        let until = Instant::now() + MAX_AGE;
        let creation = Creation {
            kind: Kind::ConfigMap,
            name,
            manifest: &config_map(name, text),
        };
        let created = self
            .apply
            .create(NAME, creation, Caller::Bulk(Some(until)), TRASH_LISTED)
            .await;
        match created {
            // The ConfigMap exists, but the watch has not delivered it yet.
            Applied::Stale if Instant::now() < until => Applied::Done,
            created => created,
        }
    }

    async fn write(&self, name: &ObjectName, list: &TrashList, text: &str) -> Applied {
        let action = Action::patch(
            "ListTrash",
            Lane::Bulk,
            vec![add_at(&["data"], json!({KEY: text}))],
            Basis::Object,
            OnRefusal::new(FAILED_LIST_TRASH),
        );
        let target = target(name, list);
        self.apply
            .perform(NAME, &target, action, TRASH_LISTED)
            .await
    }

    /// Publishes an Event once on a user's ConfigMap that has the name of the list.
    fn report(&self, name: &ObjectName, list: &TrashList, taken: bool) {
        let causes: HashSet<_> = taken.then_some(()).into_iter().collect();
        if self.reported.new_causes(name, &list.uid, causes).is_empty() {
            return;
        }
        let regarding = Regarding {
            kind: Kind::ConfigMap,
            name: name.clone(),
            uid: list.uid.clone(),
        };
        let postpone = self.reported.postponing(name, &());
        self.apply
            .publish_event_or(regarding, notices::taken(name), postpone);
    }

    /// Returns how long the list has to wait for its next write, if it was written just now.
    fn rest(&self, name: &ObjectName) -> Option<Duration> {
        let mut times = self.written.lock();
        times.retain(|_, written| written.elapsed() < PAUSE);
        let written = times.get(name)?;
        Some(PAUSE.saturating_sub(written.elapsed()))
    }
}

impl Reconcile for TrashListReconciler {
    const COMPONENT: &'static str = NAME;
    type Key = ObjectName;

    fn candidates(&self) -> Vec<ObjectName> {
        self.reported
            .retain(|name| self.caches.lists.read().get(name).is_some());
        self.caches.candidates()
    }

    async fn reconcile(&self, name: &ObjectName) -> Reconciled {
        if let Some(rest) = self.rest(name) {
            let why = "the list was written less than a second ago".to_owned();
            return Ok(Requeue::After(rest, why));
        }
        let (known, list) = {
            let lists = self.caches.lists.read();
            (lists.get(name), lists.get_fresh(name))
        };
        let volumes = self.caches.volumes_of(&name.namespace);
        let mut entries = volumes.iter();
        let nothing = !entries.any(|(name, volume)| Entry::of(name, volume).is_some());
        // Either Volume Warden has just written the list, and the watch delivers the result, which
        // enqueues it again; or there is no list, and nothing to list.
        if list.is_none() && (known.is_some() || nothing) {
            return Ok(Requeue::OnEvent);
        }
        let of = ObjectName::cluster_scoped(name.namespace.clone());
        let namespace = self
            .namespaces
            .get(&of, DEFAULT_CALL_TIMEOUT)
            .await
            .map_err(ReconcileError::unread("the namespace"))?;
        let excluded = namespace.as_ref().is_some_and(|found| found.excluded);
        let step = decide(&View {
            namespace: namespace.as_ref(),
            excluded: self.opt_out && excluded,
            volumes: &volumes,
            list: list.as_deref(),
        });
        if let Some(list) = &list {
            self.report(name, list, step == Step::Report);
        }
        self.act(name, list.as_ref(), step).await
    }
}

fn target<'a>(name: &'a ObjectName, list: &'a TrashList) -> Target<'a> {
    Target {
        resource_version: Some(list.resource_version.clone()),
        ..Target::new(Kind::ConfigMap, name, &list.uid)
    }
}

/// Deletes a list, if a live read shows that it has not changed.
///
/// # Errors
/// When it could not be read.
pub async fn delete(
    live: &LiveGet<TrashList>,
    apply: &Apply,
    component: &'static str,
    target: &Target<'_>,
) -> kube::Result<Applied> {
    let read = live.read(target.name, DEFAULT_CALL_TIMEOUT).await?;
    let proof = read.proof(MAX_AGE);
    let Some(list) = read.value else {
        return Ok(Applied::Done);
    };
    let version = target.resource_version.as_ref();
    let same = list.uid == target.uid && Some(&list.resource_version) == version;
    if !same || !list.owned {
        return Ok(Applied::Stale);
    }
    let action = Action::delete(proof);
    Ok(apply
        .perform(component, target, action, TRASH_UNLISTED)
        .await)
}
