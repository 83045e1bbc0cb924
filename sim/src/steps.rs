//! The steps of users: what they create, change and delete.

mod choose;
mod objects;
mod rebinding;

use crate::{
    actors::Call,
    cluster::{Cluster, wall_clock},
    json::{has_finalizer, name, text, uid},
};
use objects::{created_again, new_claim, new_pod, new_set, policy, requesting, restored, set_name};
use serde_json::{Value, json};
use std::fmt;
use volume_warden::objects::{expiry::EXPIRES_AT, finalizers::PVC_PROTECTION, trash::PURGE};

pub use choose::{choose, expiring};
pub use rebinding::rebinding;

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
    /// Restores the data of a deleted claim in a claim with that number. Elsewhere, a user of the
    /// namespace `other` names the volume, too.
    Undelete { claim: u8, to: u8, elsewhere: bool },
    /// Requests the purge of the volume of a deleted claim.
    PurgeVolume { claim: u8 },
    /// Announces that a claim expires now, as a user of its namespace can.
    HastenExpiry { claim: u8 },
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
    /// Creates a claim that may get the volume of the deleted claim of its name: in the namespace
    /// `other` if `elsewhere`; not if `off`.
    CreateAgain {
        claim: u8,
        elsewhere: bool,
        off: bool,
    },
    /// Deletes the namespace.
    DeleteNamespace,
    /// Creates the namespace again.
    CreateNamespace,
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
            Self::Undelete {
                claim,
                to,
                elsewhere,
            } => undelete(cluster, *claim, *to, *elsewhere),
            Self::PurgeVolume { claim } => on_volume(cluster, *claim, |path, volume| {
                let annotations = json!({PURGE: text(volume, "/spec/claimRef/uid")});
                Call::merge(path, json!({"metadata": {"annotations": annotations}}))
            }),
            Self::HastenExpiry { claim } => {
                let now = wall_clock(&cluster.schedule, 0).timestamp().to_string();
                let patch = json!({"metadata": {"annotations": {EXPIRES_AT: now}}});
                vec![Call::merge(format!("{claims}/claim-{claim}"), patch)]
            }
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
            Self::CreateAgain {
                claim,
                elsewhere,
                off,
            } => {
                let namespace = if *elsewhere { "other" } else { "ns" };
                vec![Call::create(
                    format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims"),
                    created_again(*claim, namespace, *off),
                )]
            }
            Self::DeleteNamespace => vec![Call::delete_with(NAMESPACE, json!({}))],
            Self::CreateNamespace => {
                let new =
                    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}});
                vec![Call::create("/api/v1/namespaces", new)]
            }
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
    let own = format!("claim-{claim}");
    let volumes = volumes
        .iter()
        .filter(|volume| volume["spec"]["claimRef"]["name"] == own.as_str());
    volumes
        .map(|volume| {
            let path = format!("/api/v1/persistentvolumes/{}", name(volume));
            call(path, volume)
        })
        .collect()
}

fn undelete(cluster: &Cluster, claim: u8, to: u8, elsewhere: bool) -> Vec<Call> {
    let own = format!("claim-{claim}");
    if !elsewhere {
        let claims = format!("{NAMESPACE}/persistentvolumeclaims");
        return vec![Call::create(claims, restored(to, "ns", &own, None))];
    }
    let volumes = cluster.server.list("persistentvolumes", None);
    let volumes = volumes
        .iter()
        .filter(|volume| text(volume, "/spec/claimRef/name") == own);
    let stolen = volumes.map(|volume| {
        let claim = restored(to, "other", name(volume), Some(name(volume)));
        Call::create("/api/v1/namespaces/other/persistentvolumeclaims", claim)
    });
    stolen.collect()
}

/// The numbers of the many claims.
const MANY: std::ops::Range<u8> = 20..50;
/// A finalizer of another controller.
const FIRST: &str = "example.com/first";

/// Removes the first finalizer of another controller from a claim.
fn free(cluster: &Cluster, claim: u8) -> Vec<Call> {
    let claims = cluster.server.list("persistentvolumeclaims", Some("ns"));
    let own = format!("claim-{claim}");
    let held = claims.iter().filter(|each| name(each) == own);
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
