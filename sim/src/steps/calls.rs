//! The requests of the steps.

use super::{
    Step,
    objects::{created_again, new_claim, new_pod, new_set, policy, requesting, restored, set_name},
};
use crate::{
    actors::Call,
    cluster::{Cluster, wall_clock},
    json::{has_finalizer, name, text, uid},
};
use serde_json::{Value, json};
use volume_warden::objects::{expiry::EXPIRES_AT, finalizers::PVC_PROTECTION, trash::PURGE};

/// The path of the objects in the namespace.
const NAMESPACE: &str = "/api/v1/namespaces/ns";
const SETS: &str = "/apis/apps/v1/namespaces/ns/statefulsets";
/// The numbers of the many claims.
const MANY: std::ops::Range<u8> = 20..50;
/// A finalizer of another controller.
const FIRST: &str = "example.com/first";

impl Step {
    /// Returns the requests of the step. They depend on the present objects only where a user would
    /// read the objects first.
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
                // The numbers from 10 on are the pods of the set.
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
