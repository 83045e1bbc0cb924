//! Workloads: StatefulSets, Deployments, DaemonSets, ReplicaSets, ReplicationControllers, CronJobs
//! and Jobs, and the claims that they name.
//!
//! Only what names a claim is parsed and kept. A namespace may have thousands of workloads of more
//! than a megabyte each, and their pod templates may have values that the API server never sets
//! itself, such as a time that cannot be represented.

use super::{
    CompactText, is_possible_name, metadata,
    owner_references::{controller, group},
    pod_wire::PodVolume,
    stateful_set::Template,
};
use kube::{Resource, api::ObjectMeta};
use serde::Deserialize;
use std::{borrow::Cow, marker::PhantomData};

/// A workload, and the claims that it names.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The namespace of the workload and of the claims.
    pub namespace: String,
    /// The name of the workload.
    pub name: String,
    /// The uid of the workload.
    pub uid: CompactText,
    /// Kind, name and state in words, such as `Deployment web (3 replicas)`.
    pub description: String,
    /// The claims that its pods name. None for the ReplicaSet of a Deployment, which names those of
    /// its present pods itself; its earlier ReplicaSets do not count.
    pub claims: Vec<String>,
    /// The names of its claim templates, if it is a StatefulSet.
    pub claim_templates: Vec<String>,
    /// Whether it is a Job that has ended, so that it runs no pod any more.
    pub is_finished: bool,
}

/// The fields of a workload of the kind `K` that are parsed.
#[derive(Clone, Debug, Deserialize)]
#[serde(bound = "")]
pub struct WorkloadWire<K> {
    #[serde(deserialize_with = "metadata::trimmed")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
    #[serde(skip)]
    kind: PhantomData<K>,
}

/// The fields of the `spec` that are parsed, of all kinds together.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    replicas: Option<i32>,
    suspend: Option<bool>,
    template: Option<PodTemplate>,
    job_template: Option<JobTemplate>,
    volume_claim_templates: Option<Vec<Template>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct JobTemplate {
    spec: JobSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct JobSpec {
    template: Option<PodTemplate>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct PodTemplate {
    spec: PodSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct PodSpec {
    volumes: Option<Vec<PodVolume>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Option<Vec<Condition>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl<K: Resource<DynamicType = ()>> Resource for WorkloadWire<K> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        K::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        K::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        K::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        K::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl<K: Resource<DynamicType = ()>> From<WorkloadWire<K>> for Workload {
    fn from(wire: WorkloadWire<K>) -> Self {
        let kind = K::kind(&());
        let of_deployment = kind == "ReplicaSet" && wire.is_of_deployment();
        let (metadata, spec) = (wire.metadata, wire.spec);
        let name = metadata.name.unwrap_or_default();
        let is_finished = kind == "Job" && wire.status.has_ended();
        let state = match &*kind {
            "StatefulSet" | "Deployment" | "ReplicaSet" | "ReplicationController" => {
                replicas(spec.replicas)
            }
            _ if is_finished => " (finished)".to_owned(),
            _ if spec.suspend == Some(true) => " (suspended)".to_owned(),
            _ => String::new(),
        };
        let job = spec.job_template.and_then(|job| job.spec.template);
        let pods = spec.template.into_iter().chain(job);
        let volumes = pods.flat_map(|pods| pods.spec.volumes.unwrap_or_default());
        let claims = volumes.filter_map(|volume| Some(volume.persistent_volume_claim?.claim_name));
        let templates = spec.volume_claim_templates.unwrap_or_default().into_iter();
        Self {
            namespace: metadata.namespace.unwrap_or_default(),
            description: format!("{kind} {name}{state}"),
            name,
            uid: metadata.uid.unwrap_or_default().into(),
            claims: claims
                .filter(|claim| !of_deployment && is_possible_name(claim))
                .collect(),
            claim_templates: templates.filter_map(|each| each.metadata.name).collect(),
            is_finished,
        }
    }
}

impl<K> WorkloadWire<K> {
    /// Whether its controller is a Deployment of Kubernetes.
    fn is_of_deployment(&self) -> bool {
        let owners = self.metadata.owner_references.as_deref();
        controller(owners.unwrap_or_default())
            .is_some_and(|owner| owner.kind == "Deployment" && group(owner) == "apps")
    }
}

impl Status {
    /// Whether a Job has ended.
    fn has_ended(&self) -> bool {
        let mut conditions = self.conditions.iter().flatten();
        conditions.any(|each| {
            each.status == "True" && matches!(each.kind.as_str(), "Complete" | "Failed")
        })
    }
}

fn replicas(replicas: Option<i32>) -> String {
    match replicas.unwrap_or(1) {
        1 => " (1 replica)".to_owned(),
        number => format!(" ({number} replicas)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::{
        apps::v1::{DaemonSet, ReplicaSet, StatefulSet},
        batch::v1::{CronJob, Job},
        core::v1::ReplicationController,
    };
    use serde_json::{Value, json};

    fn read<K: Resource<DynamicType = ()>>(workload: &Value) -> Workload {
        let wire: WorkloadWire<K> = serde_json::from_value(workload.clone()).expect("a workload");
        wire.into()
    }

    /// The API server stores such times in templates. They must not fail the LIST of all workloads.
    #[test]
    fn metadata_in_templates_may_have_any_time() {
        let late = json!({"name": "data", "creationTimestamp": "9999-12-31T23:59:59Z", "deletionTimestamp": 7});
        let volumes = json!([
            {"name": "a", "persistentVolumeClaim": {"claimName": "one"}},
            {"name": "b", "persistentVolumeClaim": {"claimName": "?watch=1"}},
            {"name": "c", "emptyDir": {}}]);
        let pods = json!({"metadata": late, "spec": {"volumes": volumes}});
        let set = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u"}, "spec": {
            "template": pods, "volumeClaimTemplates": [{"metadata": late, "spec": {}}]}});
        let set = read::<StatefulSet>(&set);
        assert_eq!(set.description, "StatefulSet web (1 replica)");
        assert_eq!(
            (set.claims, set.claim_templates),
            (vec!["one".into()], vec!["data".into()])
        );
        let job = json!({"metadata": late, "spec": {"template": pods}});
        let cron =
            json!({"metadata": {"name": "nightly"}, "spec": {"suspend": true, "jobTemplate": job}});
        let cron = read::<CronJob>(&cron);
        assert_eq!(cron.description, "CronJob nightly (suspended)");
        assert_eq!(cron.claims, ["one"]);
    }

    /// Otherwise pvc-expiry deletes claims that their pods would use again.
    #[test]
    fn workloads_without_a_deployment_name_their_claims() {
        let volumes = json!([{"name": "a", "persistentVolumeClaim": {"claimName": "one"}}]);
        let workload = |owner: Value| {
            json!({"metadata": {"name": "web", "ownerReferences": owner},
                "spec": {"replicas": 0, "template": {"spec": {"volumes": volumes}}}})
        };
        let owner = |version: &str, kind: &str| json!([{"apiVersion": version, "kind": kind, "name": "web", "uid": "1", "controller": true}]);
        let daemons = read::<DaemonSet>(&workload(json!([])));
        assert_eq!(daemons.description, "DaemonSet web");
        assert_eq!(daemons.claims, ["one"]);
        let config = owner("apps.openshift.io/v1", "DeploymentConfig");
        let controller = read::<ReplicationController>(&workload(config));
        assert_eq!(
            controller.description,
            "ReplicationController web (0 replicas)"
        );
        assert_eq!(controller.claims, ["one"]);
        for (owner, claims) in [
            (json!([]), &["one"][..]),
            (owner("argoproj.io/v1alpha1", "Rollout"), &["one"]),
            (owner("example.com/v1", "Deployment"), &["one"]),
            (owner("apps/v1", "Deployment"), &[]),
        ] {
            let set = read::<ReplicaSet>(&workload(owner.clone()));
            assert_eq!(set.description, "ReplicaSet web (0 replicas)");
            assert_eq!(set.claims, claims, "{owner}");
        }
    }

    #[test]
    fn a_job_is_finished_by_its_conditions() {
        for (kind, status, finished) in [
            ("Complete", "True", true),
            ("Failed", "True", true),
            ("Complete", "False", false),
            ("Suspended", "True", false),
        ] {
            let conditions = json!([{"type": kind, "status": status}]);
            let job = json!({"metadata": {"name": "once"}, "spec": {}, "status": {"conditions": conditions}});
            assert_eq!(read::<Job>(&job).is_finished, finished, "{kind} {status}");
        }
        let none = json!({"metadata": {"name": "once"}, "status": {"conditions": null}});
        assert!(!read::<Job>(&none).is_finished);
    }
}
