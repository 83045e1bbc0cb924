//! The facts about a history that the invariants need.

use crate::{
    json::{claims_of, is_deleting, owners, text, uid},
    plan::Plan,
    replica::{SERVICE_ACCOUNT, is_replica},
};
use bytes::Bytes;
use http::Request;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use volume_warden::objects::trash_list::NAME as LIST;
use volume_warden_apiserver_model::Change;

/// The kind, namespace and name of an object.
pub type Key = (&'static str, String, String);

/// A state of a volume, with the virtual millisecond in which it began; none after its removal.
pub type VolumeState = (u64, Option<Arc<Value>>);

/// The objects of a history, and the times of their changes.
pub struct Ledger {
    /// How the replicas were started.
    pub plan: Plan,
    objects: BTreeMap<Key, Arc<Value>>,
    /// When each uid was created.
    created_at: BTreeMap<String, u64>,
    /// When each uid was removed, with the last state of the object.
    removed: BTreeMap<String, (u64, Arc<Value>)>,
    /// When the deletion of each uid began.
    deleted: BTreeMap<String, u64>,
    /// When each claim (by uid) was last changed before its deletion.
    changed: BTreeMap<String, u64>,
    /// All times at which each uid was created, updated or removed.
    changes: BTreeMap<String, Vec<u64>>,
    /// The uids of the claims and of the owners that the StatefulSet controller gave to them.
    in_tree_owners: BTreeSet<[String; 2]>,
    /// The namespaces and names of the claims for which a volume was ever reserved.
    pub reserved: BTreeSet<[String; 2]>,
    /// When each pod (by uid) was scheduled.
    scheduled: BTreeMap<String, u64>,
    /// The specs of each StatefulSet (by uid), each with the time at which it was set.
    specs: BTreeMap<String, Vec<(u64, Arc<Value>)>>,
    /// The states of each volume (by name), in their order.
    volumes: BTreeMap<String, Vec<VolumeState>>,
    /// When each client last sent a write of the Lease that succeeded.
    renewed: BTreeMap<String, u64>,
    renewing: BTreeMap<String, u64>,
    /// Number of writes of Volume Warden to each uid.
    writes: BTreeMap<String, u32>,
    /// When Volume Warden last sent a write of anything but a Lease or an Event.
    pub last_sent: u64,
    /// When Volume Warden sent each Event.
    events: Vec<u64>,
}

impl Ledger {
    /// Creates an empty ledger.
    pub fn new(plan: &Plan) -> Self {
        Self {
            plan: plan.clone(),
            objects: BTreeMap::new(),
            created_at: BTreeMap::new(),
            removed: BTreeMap::new(),
            deleted: BTreeMap::new(),
            changed: BTreeMap::new(),
            changes: BTreeMap::new(),
            in_tree_owners: BTreeSet::new(),
            reserved: BTreeSet::new(),
            scheduled: BTreeMap::new(),
            specs: BTreeMap::new(),
            volumes: BTreeMap::new(),
            renewed: BTreeMap::new(),
            renewing: BTreeMap::new(),
            writes: BTreeMap::new(),
            last_sent: 0,
            events: Vec::new(),
        }
    }

    /// Records a change.
    pub fn apply(&mut self, now: u64, change: &Change) {
        let key = (change.plural, change.namespace.clone(), change.name.clone());
        if change.plural == "leases" {
            self.lease(change);
            return;
        }
        // The list of deleted claims is written once a second while it changes.
        let is_list = change.plural == "configmaps" && change.name == LIST;
        let object = change.after.as_ref().or(change.before.as_ref());
        let id = object.map(|object| uid(object)).unwrap_or_default();
        self.changes.entry(id.to_owned()).or_default().push(now);
        if change.user == SERVICE_ACCOUNT && change.plural != "events" && !is_list {
            *self.writes.entry(id.to_owned()).or_default() += 1;
        }
        if let (Some(before), Some(after)) = (&change.before, &change.after) {
            self.owners_changed(change, before, after);
        }
        if change.plural == "persistentvolumes" {
            let states = self.volumes.entry(change.name.clone()).or_default();
            states.push((now, change.after.clone()));
        }
        match (&change.before, &change.after) {
            (_, Some(after)) => self.put(now, key, after),
            (Some(before), None) => {
                self.objects.remove(&key);
                self.deleted.entry(uid(before).to_owned()).or_insert(now);
                self.removed
                    .insert(uid(before).to_owned(), (now, before.clone()));
            }
            (None, None) => {}
        }
    }

    fn owners_changed(&mut self, change: &Change, before: &Value, after: &Value) {
        let pair = |owner: &Value| [uid(after), text(owner, "/uid")].map(str::to_owned);
        for removed in owners(before)
            .iter()
            .filter(|owner| !owners(after).contains(owner))
        {
            self.in_tree_owners.remove(&pair(removed));
        }
        if change.user.ends_with(":statefulset-controller") {
            let added = owners(after)
                .iter()
                .filter(|owner| !owners(before).contains(owner));
            self.in_tree_owners.extend(added.map(pair));
        }
    }

    fn put(&mut self, now: u64, key: Key, after: &Arc<Value>) {
        let id = uid(after).to_owned();
        self.created_at.entry(id.clone()).or_insert(now);
        if is_deleting(after) {
            self.deleted.entry(id.clone()).or_insert(now);
        } else if key.0 == "persistentvolumeclaims" {
            self.changed.insert(id.clone(), now);
        }
        if key.0 == "pods" && !text(after, "/spec/nodeName").is_empty() {
            self.scheduled.entry(id.clone()).or_insert(now);
        }
        if key.0 == "statefulsets" {
            let specs = self.specs.entry(id).or_default();
            if specs
                .last()
                .is_none_or(|(_, last)| last["spec"] != after["spec"])
            {
                specs.push((now, after.clone()));
            }
        }
        if key.0 == "persistentvolumes" && text(after, "/spec/claimRef/uid").is_empty() {
            let claim = |field| text(after, field).to_owned();
            let claim = ["/spec/claimRef/namespace", "/spec/claimRef/name"].map(claim);
            self.reserved.insert(claim);
        }
        self.objects.insert(key, after.clone());
    }

    /// Records that a client sends a request.
    pub fn sent(&mut self, client: &str, now: u64, request: &Request<Bytes>) {
        let path = request.uri().path();
        if request.method().is_safe() || !is_replica(client) {
            return;
        }
        match path {
            path if path.contains("/leases") => drop(self.renewing.insert(client.to_owned(), now)),
            path if path.contains("/events") => self.events.push(now),
            _ => self.last_sent = now,
        }
    }

    /// Records a write of the Lease that took effect. Its holder leads since the write was sent. A
    /// former holder that released the Lease no longer leads.
    fn lease(&mut self, change: &Change) {
        let holder = |lease: &Arc<Value>| text(lease, "/spec/holderIdentity").to_owned();
        let present = change.after.as_ref().map(holder).unwrap_or_default();
        let former = change.before.as_ref().map(holder).unwrap_or_default();
        if present.is_empty() {
            self.renewed.remove(&former);
        }
        if let Some(sent) = self.renewing.get(&present) {
            self.renewed.insert(present, *sent);
        }
    }

    /// When the client last renewed the Lease.
    pub fn renewed(&self, client: &str) -> Option<u64> {
        self.renewed.get(client).copied()
    }

    /// The number of Events that Volume Warden sent after this time.
    pub fn events_after(&self, time: u64) -> usize {
        self.events.iter().filter(|at| **at > time).count()
    }

    /// The present object of this name.
    pub fn get(&self, plural: &'static str, namespace: &str, name: &str) -> Option<&Arc<Value>> {
        let key = (plural, namespace.to_owned(), name.to_owned());
        self.objects.get(&key)
    }

    /// All present objects of a kind.
    pub fn all(&self, plural: &'static str) -> impl Iterator<Item = &Arc<Value>> {
        let first = (plural, String::new(), String::new());
        let of_kind = move |entry: &(&Key, _)| entry.0.0 == plural;
        self.objects
            .range(first..)
            .take_while(of_kind)
            .map(|(_, object)| object)
    }

    /// When the deletion of this uid began.
    pub fn deleted(&self, uid: &str) -> Option<u64> {
        self.deleted.get(uid).copied()
    }

    /// When the claim with this uid was last changed before its deletion.
    pub fn changed(&self, uid: &str) -> Option<u64> {
        self.changed.get(uid).copied()
    }

    /// How often the object with this uid was changed since this time.
    pub fn changes_since(&self, uid: &str, since: u64) -> usize {
        let changes = self.changes.get(uid).into_iter().flatten();
        changes.filter(|at| **at >= since).count()
    }

    /// When the object with this uid was created.
    pub fn created_at(&self, uid: &str) -> Option<u64> {
        self.created_at.get(uid).copied()
    }

    /// When the object with this uid was removed, and its last state.
    pub fn removed(&self, uid: &str) -> Option<(u64, &Arc<Value>)> {
        self.removed.get(uid).map(|(at, object)| (*at, object))
    }

    /// The objects that were removed since this time, each in its last state.
    pub fn removed_since(&self, since: u64) -> impl Iterator<Item = &Arc<Value>> {
        let since = move |(at, _): &&(u64, Arc<Value>)| *at >= since;
        self.removed
            .values()
            .filter(since)
            .map(|(_, object)| object)
    }

    /// Whether the StatefulSet controller gave this owner to the claim.
    pub fn has_in_tree_owner(&self, claim: &str, owner: &str) -> bool {
        let pair = [claim, owner].map(str::to_owned);
        self.in_tree_owners.contains(&pair)
    }

    /// When the pod with this uid was scheduled.
    pub fn scheduled(&self, uid: &str) -> Option<u64> {
        self.scheduled.get(uid).copied()
    }

    /// Whether a pod of the StatefulSet with this uid uses, or used, a claim of this name.
    pub fn has_mounted(&self, set: &str, claim: &str) -> bool {
        let removed = self.removed.values().map(|(_, object)| object);
        let mut pods = self.all("pods").chain(removed);
        pods.any(|pod| {
            claims_of(pod).any(|used| used == claim)
                && owners(pod).iter().any(|owner| text(owner, "/uid") == set)
        })
    }

    /// The specs that a StatefulSet had since this time, including the one at that time.
    pub fn specs_since(&self, uid: &str, since: u64) -> impl Iterator<Item = &Arc<Value>> {
        let specs = self.specs.get(uid).map_or(&[][..], Vec::as_slice);
        states_since(specs, since).iter().map(|(_, set)| set)
    }

    /// The states that the volume of this name had since this time, including the one at that time.
    pub fn volume_states(&self, name: &str, since: u64) -> &[VolumeState] {
        let states = self.volumes.get(name).map_or(&[][..], Vec::as_slice);
        states_since(states, since)
    }

    /// The states that each volume had since this time, including the one at that time.
    pub fn volumes_since(&self, since: u64) -> impl Iterator<Item = &[VolumeState]> {
        let volumes = self.volumes.values();
        volumes.map(move |states| states_since(states, since))
    }

    /// Number of writes of Volume Warden to the object with this uid.
    pub fn writes(&self) -> impl Iterator<Item = (&str, u32)> {
        self.writes
            .iter()
            .map(|(uid, count)| (uid.as_str(), *count))
    }

    /// Whether finished pods hold their claims.
    pub fn finished_hold(&self) -> bool {
        !self.plan.start.flags.contains(&"--finished-pods=release")
    }
}

/// The states since this time, including the one at that time.
fn states_since<T>(states: &[(u64, T)], since: u64) -> &[(u64, T)] {
    let first = states.iter().rposition(|(at, _)| *at <= since).unwrap_or(0);
    &states[first..]
}
