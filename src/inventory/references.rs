//! What refers to a claim besides pods: workloads (whether or not they run pods now), snapshots,
//! custom resources, and the owners of the claim.

use super::Listed;
use crate::{
    hashing::{HashMap, HashSet},
    objects::{CompactText, ListedClaim, MAX_TEXT, Workload, stateful_set::ordinal},
    plain::bounded,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt as _;

/// The references to claims by their namespace and name, in words.
pub struct References {
    by_claim: HashMap<(String, String), Vec<String>>,
    /// StatefulSets by their namespace and `TEMPLATE-SET`, the part that the names of a template's
    /// claims have in common.
    by_template: HashMap<(String, String), Vec<String>>,
    /// The uids of all objects of [`LISTED`].
    owners: HashSet<CompactText>,
    /// The kinds that could not be listed, in the plural.
    unlisted: Vec<&'static str>,
}

/// The kinds of owners that are listed: group, kind, and kind in the plural.
const LISTED: [(&str, &str, &str); 8] = [
    ("apps", "StatefulSet", "StatefulSets"),
    ("apps", "Deployment", "Deployments"),
    ("apps", "DaemonSet", "DaemonSets"),
    ("apps", "ReplicaSet", "ReplicaSets"),
    ("", "ReplicationController", "ReplicationControllers"),
    ("batch", "Job", "Jobs"),
    ("batch", "CronJob", "CronJobs"),
    ("", "Pod", "Pods"),
];

impl References {
    /// Collects the references of everything that was listed.
    pub fn new(listed: &Listed) -> Self {
        let mut references = Self {
            by_claim: HashMap::default(),
            by_template: HashMap::default(),
            owners: uids(listed),
            unlisted: listed.unlisted.clone(),
        };
        for each in &listed.workloads {
            references.of_workload(each);
        }
        for each in listed.snapshots.iter().chain(&listed.referrers) {
            for claim in &each.claims {
                references.add(&each.namespace, claim, &each.what);
            }
        }
        references
    }

    /// Returns what refers to the claim. Each of its owners is named, too, unless one of these
    /// references names it already.
    pub fn of(&self, claim: &ListedClaim) -> Vec<String> {
        let namespace = claim.namespace().unwrap_or_default();
        let mut references = self.to(&namespace, &claim.name_any());
        // Not the owners themselves: a claim may have tens of thousands of them.
        let known = references.len();
        for owner in claim.owner_references() {
            // The API server limits neither text.
            let [kind, name] = [&owner.kind, &owner.name].map(|text| bounded(text, MAX_TEXT));
            let name = format!("{kind} {name}");
            let with_state = format!("{name} (");
            let is_named = |each: &String| *each == name || each.starts_with(&with_state);
            if !references[..known].iter().any(is_named) {
                references.push(format!("owner {name}{}", self.state_of(owner)));
            }
        }
        references.sort();
        references.dedup();
        references
    }

    /// Returns which of the listed workloads, snapshots and custom resources name the claim. Pods
    /// are not among them.
    pub fn to(&self, namespace: &str, claim: &str) -> Vec<String> {
        let key = |name: &str| (namespace.to_owned(), name.to_owned());
        let common = ordinal(claim).map(|(before, _)| key(before));
        let sets = common.and_then(|common| self.by_template.get(&common));
        let known = self.by_claim.get(&key(claim));
        known.into_iter().chain(sets).flatten().cloned().collect()
    }

    /// Returns ` (deleted)` if the kind of the owner was listed and the owner was not found;
    /// otherwise an empty text, because the owner exists or nothing is known about it.
    fn state_of(&self, owner: &OwnerReference) -> &'static str {
        let group = owner
            .api_version
            .rsplit_once('/')
            .map_or("", |(group, _)| group);
        let mut kinds = LISTED.iter();
        let listed = kinds.any(|(of, kind, plural)| {
            (*of, *kind) == (group, &*owner.kind) && !self.unlisted.contains(plural)
        });
        if listed && !self.owners.contains(&CompactText::from(&owner.uid)) {
            " (deleted)"
        } else {
            ""
        }
    }

    /// Adds the workload as a reference to the claims that its pods name and, if it is a
    /// StatefulSet, to each claim TEMPLATE-SET-ORDINAL, whatever the ordinal.
    fn of_workload(&mut self, of: &Workload) {
        for claim in &of.claims {
            self.add(&of.namespace, claim, &of.description);
        }
        for template in &of.claim_templates {
            let key = (of.namespace.clone(), format!("{template}-{}", of.name));
            let sets = self.by_template.entry(key).or_default();
            sets.push(of.description.clone());
        }
    }

    fn add(&mut self, namespace: &str, claim: &str, what: &str) {
        let key = (namespace.to_owned(), claim.to_owned());
        self.by_claim.entry(key).or_default().push(what.to_owned());
    }
}

fn uids(listed: &Listed) -> HashSet<CompactText> {
    let workloads = listed.workloads.iter().map(|each| each.uid.clone());
    let pods = listed.pods.iter().map(|(_, pod)| pod.uid.clone());
    workloads.chain(pods).collect()
}
