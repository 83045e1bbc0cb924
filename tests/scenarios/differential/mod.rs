//! Each scenario runs on unmodified Kubernetes and on a cluster where Volume Warden replaces the
//! built-in protection. At each checkpoint both clusters must look the same. Intended differences
//! are in [`differences`].

mod cluster_pair;
mod differences;
mod manifests;
mod projection;
mod retention;
mod scenario;
mod side;
mod snapshot;

use crate::support::on_node;
use anyhow::Result;
use scenario::{
    Object::{Claim, Pod, Volume},
    Step::{Create, Delete, DeleteNamespace, Expect, Patch, PatchPodStatus, Stays},
    run,
};
use serde_json::{Value, json};

/// A finalizer of another controller.
const FOREIGN: &str = "example.com/hold";

/// A patch that removes all finalizers.
fn no_finalizers() -> Value {
    json!({"metadata": {"finalizers": null}})
}

/// An ephemeral volume of a pod, which has its own claim.
fn ephemeral(name: &str) -> Value {
    let spec = json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": "absent", "resources": {"requests": {"storage": "1Gi"}},
    });
    json!({"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": spec}}})
}

/// A running pod whose only volume is [`ephemeral`].
fn with_ephemeral(name: &str) -> Value {
    json!({"spec": {"nodeName": "node-1", "volumes": [ephemeral(name)]}})
}

/// Changes to a claim, so that it is bound to the volume `disk`.
fn bound_to_disk() -> Value {
    json!({"spec": {"volumeName": "disk-$NAMESPACE", "storageClassName": "$NAMESPACE"}})
}

#[tokio::test]
async fn new_objects_get_the_finalizer_after_foreign_ones() -> Result<()> {
    let foreign = json!({"metadata": {"finalizers": [FOREIGN]}});
    let steps = [
        Create(Claim("plain"), json!({})),
        Create(Claim("foreign"), foreign.clone()),
        Create(Volume("plain"), json!({})),
        Create(Volume("foreign"), foreign),
        Stays(&[
            "claim foreign: Pending [example.com/hold kubernetes.io/pvc-protection]",
            "claim plain: Pending [kubernetes.io/pvc-protection]",
            "volume foreign: Available [example.com/hold kubernetes.io/pv-protection]",
            "volume plain: Available [kubernetes.io/pv-protection]",
        ]),
    ];
    run("new", steps).await
}

#[tokio::test]
async fn a_stripped_finalizer_is_restored() -> Result<()> {
    let foreign = json!({"metadata": {"finalizers": [FOREIGN]}});
    let steps = [
        Create(Claim("emptied"), json!({})),
        Create(Claim("altered"), json!({})),
        Patch(Claim("emptied"), no_finalizers()),
        Patch(Claim("altered"), foreign.clone()),
        Expect(&[
            "claim altered: Pending [example.com/hold kubernetes.io/pvc-protection]",
            "claim emptied: Pending [kubernetes.io/pvc-protection]",
        ]),
        Delete(Claim("emptied")),
        Patch(Claim("altered"), no_finalizers()),
        Delete(Claim("altered")),
        Expect(&[]),
        Create(Volume("disk"), json!({})),
        Patch(Volume("disk"), no_finalizers()),
        Expect(&["volume disk: Available [kubernetes.io/pv-protection]"]),
        Patch(Volume("disk"), foreign),
        Expect(&["volume disk: Available [example.com/hold kubernetes.io/pv-protection]"]),
    ];
    run("stripped", steps).await
}

#[tokio::test]
async fn unused_claims_are_deleted() -> Result<()> {
    let steps = [
        Create(Claim("data"), json!({})),
        Create(Pod("user"), on_node()),
        Create(Claim("unused"), json!({})),
        Delete(Claim("unused")),
        Expect(&[
            "claim data: Pending [kubernetes.io/pvc-protection]",
            "pod user: Running",
        ]),
    ];
    run("unused", steps).await
}

#[tokio::test]
async fn a_foreign_finalizer_stays() -> Result<()> {
    let steps = [
        Create(
            Claim("data"),
            json!({"metadata": {"finalizers": [FOREIGN]}}),
        ),
        Delete(Claim("data")),
        Stays(&["claim data: Terminating Pending [example.com/hold]"]),
        Patch(Claim("data"), no_finalizers()),
        Expect(&[]),
    ];
    run("foreign", steps).await
}

#[tokio::test]
async fn a_running_pod_holds_its_claim() -> Result<()> {
    let steps = [
        Create(Claim("data"), json!({})),
        Create(Pod("user"), on_node()),
        Delete(Claim("data")),
        Stays(&[
            "claim data: Terminating Pending [kubernetes.io/pvc-protection]",
            "pod user: Running",
        ]),
        Delete(Pod("user")),
        Expect(&[]),
    ];
    run("running", steps).await
}

#[tokio::test]
async fn a_succeeded_pod_holds_its_claim() -> Result<()> {
    let steps = [
        Create(Claim("data"), json!({})),
        Create(Pod("user"), on_node()),
        Expect(&[
            "claim data: Pending [kubernetes.io/pvc-protection]",
            "pod user: Running",
        ]),
        Delete(Claim("data")),
        PatchPodStatus("user", json!({"phase": "Succeeded"})),
        Stays(&[
            "claim data: Terminating Pending [kubernetes.io/pvc-protection]",
            "pod user: Succeeded",
        ]),
        Delete(Pod("user")),
        Expect(&[]),
    ];
    run("succeeded", steps).await
}

#[tokio::test]
async fn a_failed_pod_holds_its_claim() -> Result<()> {
    let steps = [
        Create(Claim("data"), json!({})),
        Create(Pod("user"), on_node()),
        Expect(&[
            "claim data: Pending [kubernetes.io/pvc-protection]",
            "pod user: Running",
        ]),
        PatchPodStatus("user", json!({"phase": "Failed"})),
        Delete(Claim("data")),
        Stays(&[
            "claim data: Terminating Pending [kubernetes.io/pvc-protection]",
            "pod user: Failed",
        ]),
        Delete(Pod("user")),
        Expect(&[]),
    ];
    run("failed", steps).await
}

#[tokio::test]
async fn the_last_of_two_users_releases_the_claim() -> Result<()> {
    let steps = [
        Create(Claim("data"), json!({})),
        Create(Pod("a"), on_node()),
        Create(Pod("b"), json!({"spec": {"nodeName": "node-2"}})),
        Delete(Claim("data")),
        Delete(Pod("a")),
        Stays(&[
            "claim data: Terminating Pending [kubernetes.io/pvc-protection]",
            "pod b: Running",
        ]),
        Delete(Pod("b")),
        Expect(&[]),
    ];
    run("two-users", steps).await
}

#[tokio::test]
async fn an_unscheduled_pod_does_not_hold_a_claim() -> Result<()> {
    let steps = [
        Create(Claim("data"), json!({})),
        Create(Pod("waits"), json!({"spec": {"schedulerName": "absent"}})),
        Delete(Claim("data")),
        Expect(&["pod waits: Pending"]),
    ];
    run("unscheduled", steps).await
}

#[tokio::test]
async fn an_ephemeral_claim_is_deleted_with_its_pod() -> Result<()> {
    let steps = [
        Create(Pod("p"), with_ephemeral("own")),
        Expect(&[
            "claim p-own: Pending [kubernetes.io/pvc-protection] of Pod/p",
            "pod p: Running",
        ]),
        Delete(Claim("p-own")),
        Stays(&[
            "claim p-own: Terminating Pending [kubernetes.io/pvc-protection] of Pod/p",
            "pod p: Running",
        ]),
        Delete(Pod("p")),
        Expect(&[]),
    ];
    run("ephemeral", steps).await
}

/// When the claim is deleted, Kubernetes creates the claim that the pod waits for.
#[tokio::test]
async fn a_claim_with_an_ephemeral_name_but_no_owner_is_not_held() -> Result<()> {
    let steps = [
        Create(Claim("p-own"), json!({})),
        Create(Pod("p"), with_ephemeral("own")),
        Stays(&[
            "claim p-own: Pending [kubernetes.io/pvc-protection]",
            "pod p: Running",
        ]),
        Delete(Claim("p-own")),
        Expect(&[
            "claim p-own (2nd): Pending [kubernetes.io/pvc-protection] of Pod/p",
            "pod p: Running",
        ]),
    ];
    run("namesake", steps).await
}

#[tokio::test]
async fn an_unbound_volume_is_deleted() -> Result<()> {
    let reserved = json!({"spec": {"claimRef": {"namespace": "$NAMESPACE", "name": "later"}}});
    let steps = [
        Create(Volume("free"), json!({})),
        Create(Volume("reserved"), reserved),
        Expect(&[
            "volume free: Available [kubernetes.io/pv-protection]",
            "volume reserved: Available [kubernetes.io/pv-protection]",
        ]),
        Delete(Volume("free")),
        Delete(Volume("reserved")),
        Expect(&[]),
    ];
    run("not-bound", steps).await
}

#[tokio::test]
async fn a_bound_volume_waits_for_its_claim() -> Result<()> {
    let steps = [
        Create(Volume("disk"), json!({})),
        Create(Claim("data"), bound_to_disk()),
        Expect(&[
            "claim data: Bound [kubernetes.io/pvc-protection]",
            "volume disk: Bound [kubernetes.io/pv-protection]",
        ]),
        Delete(Volume("disk")),
        Stays(&[
            "claim data: Bound [kubernetes.io/pvc-protection]",
            "volume disk: Terminating Bound [kubernetes.io/pv-protection]",
        ]),
        Delete(Claim("data")),
        Expect(&[]),
    ];
    run("bound", steps).await
}

/// The foreign finalizer keeps the volume object visible.
#[tokio::test]
async fn a_released_volume_is_not_protected() -> Result<()> {
    let steps = [
        Create(
            Volume("disk"),
            json!({"metadata": {"finalizers": [FOREIGN]}}),
        ),
        Create(Claim("data"), bound_to_disk()),
        Expect(&[
            "claim data: Bound [kubernetes.io/pvc-protection]",
            "volume disk: Bound [example.com/hold kubernetes.io/pv-protection]",
        ]),
        Delete(Claim("data")),
        Stays(&["volume disk: Released [example.com/hold kubernetes.io/pv-protection]"]),
        Delete(Volume("disk")),
        Stays(&["volume disk: Terminating Released [example.com/hold]"]),
        Patch(Volume("disk"), no_finalizers()),
        Expect(&[]),
    ];
    run("released", steps).await
}

#[tokio::test]
async fn a_provisioned_volume_is_deleted_after_its_claim_and_its_pod() -> Result<()> {
    let steps = [
        Create(
            Claim("data"),
            json!({"spec": {"storageClassName": "standard"}}),
        ),
        Create(Pod("user"), on_node()),
        Expect(&[
            "claim data: Bound [kubernetes.io/pvc-protection]",
            "pod user: Running",
            "volume of data: Bound [kubernetes.io/pv-controller kubernetes.io/pv-protection]",
        ]),
        Delete(Volume("of data")),
        Stays(&[
            "claim data: Bound [kubernetes.io/pvc-protection]",
            "pod user: Running",
            "volume of data: Terminating Bound [kubernetes.io/pv-controller kubernetes.io/pv-protection]",
        ]),
        Delete(Claim("data")),
        Stays(&[
            "claim data: Terminating Bound [kubernetes.io/pvc-protection]",
            "pod user: Running",
            "volume of data: Terminating Bound [kubernetes.io/pv-controller kubernetes.io/pv-protection]",
        ]),
        Delete(Pod("user")),
        Expect(&[]),
    ];
    run("provisioned", steps).await
}

#[tokio::test]
async fn a_namespace_with_a_used_claim_can_be_deleted() -> Result<()> {
    let steps = [
        Create(Claim("data"), json!({})),
        Create(Pod("user"), on_node()),
        Expect(&[
            "claim data: Pending [kubernetes.io/pvc-protection]",
            "pod user: Running",
        ]),
        DeleteNamespace,
        Expect(&[]),
    ];
    run("namespace-end", steps).await
}

/// The second claim is protected and held like the first.
#[tokio::test]
async fn a_claim_can_be_recreated() -> Result<()> {
    let steps = [
        Create(Claim("data"), json!({})),
        Create(Pod("user"), on_node()),
        Delete(Claim("data")),
        Stays(&[
            "claim data: Terminating Pending [kubernetes.io/pvc-protection]",
            "pod user: Running",
        ]),
        Delete(Pod("user")),
        Expect(&[]),
        Create(Claim("data"), json!({})),
        Create(Pod("user"), on_node()),
        Stays(&[
            "claim data (2nd): Pending [kubernetes.io/pvc-protection]",
            "pod user: Running",
        ]),
        Delete(Claim("data")),
        Stays(&[
            "claim data (2nd): Terminating Pending [kubernetes.io/pvc-protection]",
            "pod user: Running",
        ]),
        Delete(Pod("user")),
        Expect(&[]),
    ];
    run("again", steps).await
}
