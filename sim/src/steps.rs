//! The steps of users: what they create, change and delete.

use crate::{
    actors::Call,
    cluster::Cluster,
    json::{has_finalizer, uid},
};
use serde_json::{Value, json};
use std::fmt;
use volume_warden::objects::finalizers::PVC_PROTECTION;

/// One step of a user. Names are `claim-1`, `pod-1`, `set-1`; each belongs to the namespace `ns`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Creates a claim of a class whose volumes are deleted, or kept.
    CreateClaim {
        claim: u8,
        keeps: bool,
        labelled: bool,
    },
    /// Deletes a claim.
    DeleteClaim { claim: u8 },
    /// Removes the protection finalizer of a claim, as users do with a stuck one.
    StripClaim { claim: u8 },
    /// Adds finalizers of other controllers before and after that of a claim.
    HoldClaim { claim: u8 },
    /// Removes the first of those finalizers.
    FreeClaim { claim: u8 },
    /// Creates many claims, which no pod uses.
    CreateMany,
    /// Deletes the many claims.
    DeleteMany,
    /// Creates a pod that uses a claim; it may finish, and it may name its node.
    CreatePod {
        pod: u8,
        claim: u8,
        finishes: bool,
        on_node: bool,
    },
    /// Creates a pod that requests a claim by annotation.
    RequestClaim { pod: u8, claim: u8 },
    /// Deletes a pod, with or without a grace period.
    DeletePod { pod: u8, force: bool },
    /// Deletes the volume of a claim.
    DeleteVolume { claim: u8 },
    /// Sets the policy of the volume of a claim to Retain or to Delete.
    KeepVolume { claim: u8, keeps: bool },
    /// Creates a StatefulSet with these policies (Delete if true).
    CreateSet {
        set: u8,
        replicas: u8,
        deleted: bool,
        scaled: bool,
    },
    /// Scales a StatefulSet.
    ScaleSet { set: u8, replicas: u8 },
    /// Changes the policies of a StatefulSet.
    ChangePolicy {
        set: u8,
        deleted: bool,
        scaled: bool,
    },
    /// Deletes a StatefulSet with this propagation policy.
    DeleteSet { set: u8, cascade: &'static str },
    /// Deletes the namespace.
    DeleteNamespace,
}

/// Chooses steps for a small world. A history is about one subject, so that its steps meet.
pub fn choose(random: &mut fastrand::Rng, count: usize) -> Vec<Step> {
    let subject = random.u32(0..7);
    let mut steps = vec![match subject {
        0 | 1 => new_claim_step(random, 1),
        2 => Step::RequestClaim { pod: 1, claim: 1 },
        3 => new(random, 1, 3),
        4 => new(random, 3, 1),
        5 => new_claim_step(random, 2),
        _ => Step::CreateMany,
    }];
    if subject == 5 {
        steps.push(new_claim_step(random, 1));
    }
    if subject == 6 {
        let scale = |replicas| Step::ScaleSet { set: 1, replicas };
        steps.push(Step::CreateSet {
            set: 1,
            replicas: 2,
            deleted: random.bool(),
            scaled: true,
        });
        steps.extend([scale(1), Step::DeleteMany, scale(2)]);
        steps.truncate(count);
    }

    steps.extend((steps.len()..count).map(|number| one(random, subject, number + 2 >= count)));
    steps
}

fn one(random: &mut fastrand::Rng, subject: u32, last: bool) -> Step {
    match random.u32(0..40) {
        0 | 1 => Step::StripClaim {
            claim: random.u8(1..=2),
        },
        2..5 if last => Step::DeleteNamespace,
        _ => match subject {
            0 | 1 => of_volumes(random),
            2 => of_requests(random),
            4 => of_sets_with_ambiguous_claims(random),
            5 => of_two_claims(random),
            _ => of_sets(random),
        },
    }
}

/// The number of a claim or pod: mostly the first, so that steps meet.
fn number(random: &mut fastrand::Rng) -> u8 {
    if random.u32(0..4) == 0 { 2 } else { 1 }
}

fn of_volumes(random: &mut fastrand::Rng) -> Step {
    let (claim, pod) = (number(random), random.u8(1..=2));
    match random.u32(0..21) {
        18 => Step::HoldClaim { claim },
        19 | 20 => Step::FreeClaim { claim },
        0..4 => Step::CreateClaim {
            claim,
            keeps: random.bool(),
            labelled: random.bool(),
        },
        4..9 => Step::CreatePod {
            pod,
            claim,
            finishes: random.bool(),
            on_node: random.u32(0..4) == 0,
        },
        9..13 => Step::DeleteClaim { claim },
        13 => Step::KeepVolume {
            claim,
            keeps: random.bool(),
        },
        14 | 15 => Step::DeleteVolume { claim },
        _ => Step::DeletePod {
            pod,
            force: random.bool(),
        },
    }
}

fn of_requests(random: &mut fastrand::Rng) -> Step {
    let (claim, pod) = (number(random), number(random));
    match random.u32(0..20) {
        0..8 => Step::RequestClaim { pod, claim },
        8..11 => Step::DeleteClaim { claim },
        11 | 12 => Step::CreatePod {
            pod: 3,
            claim,
            finishes: random.bool(),
            on_node: false,
        },
        _ => Step::DeletePod {
            pod,
            force: random.bool(),
        },
    }
}

fn of_sets(random: &mut fastrand::Rng) -> Step {
    match random.u32(0..20) {
        0..3 => new(random, 1, 3),
        3..11 => Step::ScaleSet {
            set: 1,
            replicas: random.u8(0..=3),
        },
        11..14 => Step::ChangePolicy {
            set: 1,
            deleted: random.bool(),
            scaled: random.bool(),
        },
        14 | 15 => {
            let cascade = ["Background", "Foreground", "Orphan"][random.usize(..3)];
            Step::DeleteSet { set: 1, cascade }
        }
        16 => new(random, 2, 1),
        _ => Step::DeletePod {
            pod: random.u8(10..13),
            force: random.bool(),
        },
    }
}

/// Steps in which a pod begins to use one claim while the other is being released.
fn of_two_claims(random: &mut fastrand::Rng) -> Step {
    let number = random.u8(1..=2);
    match random.u32(0..14) {
        0 => new_claim_step(random, number),
        10..14 => Step::StripClaim { claim: number },
        1..5 => Step::CreatePod {
            pod: number,
            claim: number,
            finishes: false,
            on_node: true,
        },
        _ => Step::DeleteClaim { claim: number },
    }
}

fn new_claim_step(random: &mut fastrand::Rng, claim: u8) -> Step {
    Step::CreateClaim {
        claim,
        keeps: random.bool(),
        labelled: random.bool(),
    }
}

/// Steps of the sets 3 and 4, whose claims have the same names.
fn of_sets_with_ambiguous_claims(random: &mut fastrand::Rng) -> Step {
    let set = random.u8(3..=4);
    match random.u32(0..10) {
        0..4 => new(random, set, 1),
        4..6 => Step::ScaleSet {
            set,
            replicas: random.u8(0..=1),
        },
        6 => Step::ChangePolicy {
            set,
            deleted: random.bool(),
            scaled: random.bool(),
        },
        _ => Step::DeleteSet {
            set,
            cascade: "Background",
        },
    }
}

/// A new StatefulSet with at most so many replicas.
fn new(random: &mut fastrand::Rng, set: u8, most: u8) -> Step {
    Step::CreateSet {
        set,
        replicas: random.u8(1..=most),
        deleted: random.bool(),
        scaled: random.bool(),
    }
}

/// The path of the objects in the namespace.
const NAMESPACE: &str = "/api/v1/namespaces/ns";
const SETS: &str = "/apis/apps/v1/namespaces/ns/statefulsets";

impl Step {
    /// Returns the requests of the step. It depends on the present objects only where users look
    /// first, too.
    pub fn calls(&self, cluster: &Cluster) -> Vec<Call> {
        let claims = format!("{NAMESPACE}/persistentvolumeclaims");
        match self {
            Self::CreateClaim {
                claim,
                keeps,
                labelled,
            } => {
                vec![Call::create(claims, new_claim(*claim, *keeps, *labelled))]
            }
            Self::DeleteClaim { claim } => {
                vec![Call::delete_with(
                    format!("{claims}/claim-{claim}"),
                    json!({}),
                )]
            }
            Self::StripClaim { claim } => {
                let patch = json!({"metadata": {"finalizers": null}});
                vec![Call::merge(format!("{claims}/claim-{claim}"), patch)]
            }
            Self::HoldClaim { claim } => {
                let patch = json!({"metadata": {"finalizers": [FIRST, PVC_PROTECTION, "example.com/last"]}});
                vec![Call::merge(format!("{claims}/claim-{claim}"), patch)]
            }
            Self::FreeClaim { claim } => free(cluster, *claim),
            Self::CreateMany => {
                let new = |claim| Call::create(&claims, new_claim(claim, false, false));
                MANY.map(new).collect()
            }
            Self::DeleteMany => {
                let path = |claim| format!("{claims}/claim-{claim}");
                MANY.map(|claim| Call::delete_with(path(claim), json!({})))
                    .collect()
            }
            Self::CreatePod {
                pod,
                claim,
                finishes,
                on_node,
            } => {
                vec![Call::create(
                    format!("{NAMESPACE}/pods"),
                    new_pod(*pod, *claim, *finishes, *on_node),
                )]
            }
            Self::RequestClaim { pod, claim } => {
                vec![Call::create(
                    format!("{NAMESPACE}/pods"),
                    requesting(*pod, *claim),
                )]
            }
            Self::DeletePod { pod, force } => {
                // 10, 11, … are the pods of the set.
                let name = pod
                    .checked_sub(10)
                    .map_or(format!("pod-{pod}"), |ordinal| format!("set-1-{ordinal}"));
                let options = if *force {
                    json!({"gracePeriodSeconds": 0})
                } else {
                    json!({})
                };
                vec![Call::delete_with(
                    format!("{NAMESPACE}/pods/{name}"),
                    options,
                )]
            }
            Self::DeleteVolume { claim } => on_volume(cluster, *claim, |path, volume| {
                Call::delete(path, uid(volume))
            }),
            Self::KeepVolume { claim, keeps } => on_volume(cluster, *claim, |path, _| {
                let policy = if *keeps { "Retain" } else { "Delete" };
                let patch = json!({"spec": {"persistentVolumeReclaimPolicy": policy}});
                Call::merge(path, patch)
            }),
            Self::CreateSet {
                set,
                replicas,
                deleted,
                scaled,
            } => {
                vec![Call::create(
                    SETS,
                    new_set(*set, *replicas, *deleted, *scaled),
                )]
            }
            Self::ScaleSet { set, replicas } => {
                vec![Call::merge(
                    format!("{SETS}/{}", set_name(*set).0),
                    json!({"spec": {"replicas": replicas}}),
                )]
            }
            Self::ChangePolicy {
                set,
                deleted,
                scaled,
            } => {
                let policy = policy(*deleted, *scaled);
                let patch = json!({"spec": {"persistentVolumeClaimRetentionPolicy": policy}});
                vec![Call::merge(format!("{SETS}/{}", set_name(*set).0), patch)]
            }
            Self::DeleteSet { set, cascade } => {
                let options = json!({"propagationPolicy": cascade});
                vec![Call::delete_with(
                    format!("{SETS}/{}", set_name(*set).0),
                    options,
                )]
            }
            Self::DeleteNamespace => vec![Call::delete_with(NAMESPACE, json!({}))],
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

fn on_volume(cluster: &Cluster, claim: u8, call: impl Fn(String, &Value) -> Call) -> Vec<Call> {
    let volumes = cluster.server.list("persistentvolumes", None);
    let name = format!("claim-{claim}");
    let volumes = volumes
        .iter()
        .filter(|volume| volume["spec"]["claimRef"]["name"] == name.as_str());
    volumes
        .map(|volume| {
            let path = format!("/api/v1/persistentvolumes/{}", crate::json::name(volume));
            call(path, volume)
        })
        .collect()
}

/// The numbers of the many claims.
const MANY: std::ops::Range<u8> = 20..50;
/// A finalizer of another controller.
const FIRST: &str = "example.com/first";

/// Removes the first finalizer of another controller from a claim.
fn free(cluster: &Cluster, claim: u8) -> Vec<Call> {
    let claims = cluster.server.list("persistentvolumeclaims", Some("ns"));
    let own = format!("claim-{claim}");
    let held = claims.iter().filter(|each| crate::json::name(each) == own);
    let held = held.filter(|each| has_finalizer(each, FIRST));
    let free = held.map(|each| {
        let mut freed = (**each).clone();
        if let Some(finalizers) = freed["metadata"]["finalizers"].as_array_mut() {
            finalizers.retain(|each| each != FIRST);
        }
        Call::replace(format!("{NAMESPACE}/persistentvolumeclaims/{own}"), freed)
    });
    free.collect()
}

/// The name of a StatefulSet, and of its template. The claims of the sets 3 and 4 have the same
/// names: `a-b-c-0`.
fn set_name(set: u8) -> (String, &'static str) {
    match set {
        3 => ("c".into(), "a-b"),
        4 => ("b-c".into(), "a"),
        _ => (format!("set-{set}"), "data"),
    }
}

fn claim_spec(keeps: bool) -> Value {
    let class = if keeps { "retain" } else { "delete" };
    json!({"accessModes": ["ReadWriteOnce"], "storageClassName": class, "resources": {"requests": {"storage": "1Gi"}}})
}

fn new_claim(claim: u8, keeps: bool, labelled: bool) -> Value {
    let labels = match labelled {
        true => {
            json!({"reclaimable-pv-releaser.kubernetes.io/managed-by": "dynamic-reclaimable-pvc-controllers"})
        }
        false => json!({}),
    };
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": format!("claim-{claim}"), "namespace": "ns", "labels": labels}, "spec": claim_spec(keeps),
    })
}

fn new_pod(pod: u8, claim: u8, finishes: bool, on_node: bool) -> Value {
    let labels = if finishes {
        json!({"finishes": "yes"})
    } else {
        json!({})
    };
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("pod-{pod}"), "namespace": "ns", "labels": labels},
        "spec": {
            "containers": [{"name": "main", "image": "main"}], "terminationGracePeriodSeconds": 5,
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": format!("claim-{claim}")}}],
        },
    });
    if on_node {
        pod["spec"]["nodeName"] = "node".into();
    }
    pod
}

fn requesting(pod: u8, claim: u8) -> Value {
    let mut pod = new_pod(pod, claim, false, false);
    let template =
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": claim_spec(true)});
    pod["metadata"]["annotations"] = json!({
        "dynamic-pvc-provisioner.kubernetes.io/data.enabled": "true",
        "dynamic-pvc-provisioner.kubernetes.io/data.pvc": template.to_string(),
    });
    pod
}

fn policy(deleted: bool, scaled: bool) -> Value {
    let policy = |deletes: bool| if deletes { "Delete" } else { "Retain" };
    json!({"whenDeleted": policy(deleted), "whenScaled": policy(scaled)})
}

fn new_set(set: u8, replicas: u8, deleted: bool, scaled: bool) -> Value {
    let (name, template) = set_name(set);
    let labels = json!({"app": name});
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {
            "replicas": replicas, "serviceName": "none", "selector": {"matchLabels": labels},
            "persistentVolumeClaimRetentionPolicy": policy(deleted, scaled),
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "main"}]}},
            "volumeClaimTemplates": [{"metadata": {"name": template}, "spec": claim_spec(false)}],
        },
    })
}
