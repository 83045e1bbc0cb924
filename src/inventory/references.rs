//! What refers to a claim besides pods: StatefulSets, Deployments, CronJobs and Jobs (whether or
//! not they run pods now), snapshots, custom resources, and the owners of the claim.

use super::Listed;
use crate::{
    hashing::{HashMap, HashSet},
    objects::{CompactText, stateful_set::ordinal},
};
use k8s_openapi::{
    api::{
        apps::v1::StatefulSet,
        batch::v1::Job,
        core::v1::{PersistentVolumeClaim, PodTemplateSpec},
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{Resource, ResourceExt as _};

/// The references to claims by their namespace and name, in words.
pub struct References<'a> {
    by_claim: HashMap<(String, String), Vec<String>>,
    /// StatefulSets by their namespace and `TEMPLATE-SET`, the part that the names of a template's
    /// claims have in common.
    by_template: HashMap<(String, String), Vec<String>>,
    /// The uids of all objects of [`LISTED`].
    owners: HashSet<CompactText>,
    /// The kinds that could not be listed, in the plural.
    unlisted: &'a [&'static str],
}

/// The kinds of owners that are listed: group, kind, and kind in the plural.
const LISTED: [(&str, &str, &str); 5] = [
    ("apps", "StatefulSet", "StatefulSets"),
    ("apps", "Deployment", "Deployments"),
    ("batch", "Job", "Jobs"),
    ("batch", "CronJob", "CronJobs"),
    ("", "Pod", "Pods"),
];

impl<'a> References<'a> {
    /// Collects the references of everything that was listed.
    pub fn new(listed: &'a Listed) -> Self {
        let mut references = Self {
            by_claim: HashMap::default(),
            by_template: HashMap::default(),
            owners: uids(listed),
            unlisted: &listed.unlisted,
        };
        for each in &listed.deployments {
            let replicas = each.spec.as_ref().and_then(|spec| spec.replicas);
            let what = format!("Deployment {} ({})", each.name_any(), number(replicas));
            let template = each.spec.as_ref().map(|spec| &spec.template);
            references.of_template(each.namespace(), template, &what);
        }
        for each in &listed.stateful_sets {
            let template = each.spec.as_ref().map(|spec| &spec.template);
            references.of_template(each.namespace(), template, &set(each));
            references.of_claim_templates(each);
        }
        for each in &listed.cron_jobs {
            let spec = each.spec.as_ref();
            let suspended = spec.is_some_and(|spec| spec.suspend == Some(true));
            let state = if suspended { " (suspended)" } else { "" };
            let what = format!("CronJob {}{state}", each.name_any());
            let job = spec.and_then(|spec| spec.job_template.spec.as_ref());
            references.of_template(each.namespace(), job.map(|job| &job.template), &what);
        }
        for each in &listed.jobs {
            let template = each.spec.as_ref().map(|spec| &spec.template);
            references.of_template(each.namespace(), template, &job(each));
        }
        for each in &listed.snapshots {
            let source = each.data.pointer("/spec/source/persistentVolumeClaimName");
            if let Some(claim) = source.and_then(|claim| claim.as_str()) {
                let what = format!("VolumeSnapshot {}", each.name_any());
                references.add(each.namespace(), claim, &what);
            }
        }
        for each in &listed.referrers {
            for claim in &each.claims {
                references.add(Some(each.namespace.clone()), claim, &each.what);
            }
        }
        references
    }

    /// Returns what refers to the claim. Each of its owners is named, too, unless one of these
    /// references names it already.
    pub fn of(&self, claim: &PersistentVolumeClaim) -> Vec<String> {
        let namespace = claim.namespace().unwrap_or_default();
        let mut references = self.to(&namespace, &claim.name_any());
        for owner in claim.owner_references() {
            let name = format!("{} {}", owner.kind, owner.name);
            let with_state = format!("{name} (");
            let is_named = |each: &String| *each == name || each.starts_with(&with_state);
            if !references.iter().any(is_named) {
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
        match listed && !self.owners.contains(&CompactText::from(&owner.uid)) {
            true => " (deleted)",
            false => "",
        }
    }

    /// Adds the StatefulSet as a reference to each claim TEMPLATE-SET-ORDINAL, whatever the
    /// ordinal.
    fn of_claim_templates(&mut self, of: &StatefulSet) {
        let templates = of
            .spec
            .as_ref()
            .and_then(|spec| spec.volume_claim_templates.as_ref());
        for template in templates.into_iter().flatten() {
            let common = format!("{}-{}", template.name_any(), of.name_any());
            let key = (of.namespace().unwrap_or_default(), common);
            self.by_template.entry(key).or_default().push(set(of));
        }
    }

    fn of_template(
        &mut self,
        namespace: Option<String>,
        template: Option<&PodTemplateSpec>,
        what: &str,
    ) {
        let spec = template.and_then(|template| template.spec.as_ref());
        let volumes = spec.and_then(|spec| spec.volumes.as_ref());
        for volume in volumes.into_iter().flatten() {
            if let Some(claim) = &volume.persistent_volume_claim {
                self.add(namespace.clone(), &claim.claim_name, what);
            }
        }
    }

    fn add(&mut self, namespace: Option<String>, claim: &str, what: &str) {
        let key = (namespace.unwrap_or_default(), claim.to_owned());
        self.by_claim.entry(key).or_default().push(what.to_owned());
    }
}

fn uids(listed: &Listed) -> HashSet<CompactText> {
    fn of<K: Resource>(all: &[K]) -> impl Iterator<Item = CompactText> {
        all.iter()
            .filter_map(|each| each.meta().uid.as_ref())
            .map(CompactText::from)
    }
    of(&listed.stateful_sets)
        .chain(of(&listed.deployments))
        .chain(of(&listed.jobs))
        .chain(of(&listed.cron_jobs))
        .chain(listed.pods.iter().map(|(_, pod)| pod.uid.clone()))
        .collect()
}

fn number(replicas: Option<i32>) -> String {
    match replicas.unwrap_or(1) {
        1 => "1 replica".to_owned(),
        number => format!("{number} replicas"),
    }
}

fn set(set: &StatefulSet) -> String {
    let replicas = set.spec.as_ref().and_then(|spec| spec.replicas);
    format!("StatefulSet {} ({})", set.name_any(), number(replicas))
}

/// Returns whether the Job has ended, so that it runs no pod any more.
pub fn is_finished(job: &Job) -> bool {
    let conditions = job
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions
        .any(|each| each.status == "True" && matches!(each.type_.as_str(), "Complete" | "Failed"))
}

fn job(job: &Job) -> String {
    let spec = job.spec.as_ref();
    let suspended = spec.is_some_and(|spec| spec.suspend == Some(true));
    let state = match (is_finished(job), suspended) {
        (true, _) => " (finished)",
        (false, true) => " (suspended)",
        (false, false) => "",
    };
    format!("Job {}{state}", job.name_any())
}
