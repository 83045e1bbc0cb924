//! Tests of the plan for single objects.

use super::{read::MAX_AGE, *};
use crate::{
    cluster::{Feed, Proof},
    component::ComponentRef,
    components::{
        ALL,
        pv_protection::PvProtection,
        pv_releaser::PvReleaser,
        pvc_expiry::PvcExpiry,
        pvc_protection::PvcProtection,
        pvc_provisioner::PvcProvisioner,
        pvc_retention::{Caches, PvcRetention},
    },
    objects::{
        Claim, Pod, StatefulSet, Tracked,
        claim::ClaimWire,
        expiry::{EXPIRE_UNUSED, EXPIRES_AT},
        pod::PodWire,
        volume::VolumeWire,
    },
};
use serde_json::{Value, json};

const PVC: &str = "kubernetes.io/pvc-protection";
const PV: &str = "kubernetes.io/pv-protection";
const ID: &str = "dynamic-reclaimable-pvc-controllers";
const MADE: &str = "dynamic-pvc-provisioner.kubernetes.io/managed-by";
const RELEASER_LABEL: &str = "reclaimable-pv-releaser.kubernetes.io/managed-by";
const AWAITS: &str = "volume-warden.dev/awaiting-pod";
const GOING: &str = "2026-01-01T00:00:00Z";

fn off() -> DrainConfig {
    DrainConfig {
        components: ALL.to_vec(),
        in_tree: false,
        purge_trash: false,
        id: Default::default(),
    }
}

fn on() -> DrainConfig {
    DrainConfig {
        in_tree: true,
        ..off()
    }
}

pub(super) fn only(component: ComponentRef) -> DrainConfig {
    DrainConfig {
        components: vec![component],
        ..off()
    }
}

fn filled<T: Tracked>(wires: Vec<T::Wire>) -> Arc<Feed<T>> {
    Feed::filled(wires)
}

/// The objects that `drain` reads: the claim `ns/c` with this metadata, the volume `v` with these
/// fields, and pods that use the claim.
pub(super) fn objects(claim: &Value, volume: &Value, pods: &[Value]) -> ClusterObjects {
    let mut wire =
        json!({"metadata": {"name": "c", "namespace": "ns", "uid": "1", "resourceVersion": "7"}});
    json_patch::merge(&mut wire, &json!({"metadata": claim}));
    let claim: ClaimWire = serde_json::from_value(wire).expect("a claim");
    let mut wire = json!({"metadata": {"name": "v", "uid": "2", "resourceVersion": "8"}});
    json_patch::merge(&mut wire, volume);
    let volume: VolumeWire = serde_json::from_value(wire).expect("a volume");
    let pods = pods.iter().enumerate().map(|(index, changes)| {
        let mut pod = json!({
            "metadata": {"name": format!("p{index}"), "namespace": "ns", "uid": format!("p{index}")},
            "spec": {"nodeName": "node", "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}]},
        });
        json_patch::merge(&mut pod, changes);
        serde_json::from_value::<PodWire>(pod).expect("a pod")
    });
    let mut volumes = crate::cluster::Store::default();
    let name = crate::objects::ObjectName::cluster_scoped("v");
    volumes.put(name, Some(Arc::new(volume.into())));
    ClusterObjects {
        caches: Caches {
            sets: filled::<StatefulSet>(Vec::new()),
            claims: filled::<Claim>(vec![claim]),
            pods: filled::<Pod>(pods.collect()),
        },
        volumes,
        lists: Default::default(),
        attachments: Default::default(),
        sources: Default::default(),
        proof: Proof::of_test(MAX_AGE),
    }
}

/// Plans the removals. Returns what is removed and which objects are in use, in words, after
/// checking that the patches apply.
fn planned(
    claim: Value,
    volume: Value,
    pods: &[Value],
    config: &DrainConfig,
) -> (Vec<String>, Vec<String>) {
    let plan = plan(&objects(&claim, &volume, pods), config);
    let mut what = Vec::new();
    for cleanup in &plan.cleanups {
        let mut object = match &*cleanup.name.name {
            "c" => json!({"metadata": claim}),
            _ => volume.clone(),
        };
        json_patch::patch(&mut object, &cleanup.operations).expect("the patch applies");
        let words = cleanup.what.iter();
        what.extend(words.map(|words| format!("{}: {words}", cleanup.name.name)));
    }
    let held = plan.in_use.iter();
    (what, held.map(ToString::to_string).collect())
}

pub(super) fn taken(claim: Value, volume: Value, config: &DrainConfig) -> Vec<String> {
    let (what, held) = planned(claim, volume, &[], config);
    assert_eq!(held, [""; 0]);
    what
}

#[test]
fn finalizers_go_where_nobody_else_would_take_them() {
    let claim = json!({"finalizers": ["other", PVC]});
    let volume = json!({"metadata": {"finalizers": [PV, "other"]}});
    let both = [
        "c: finalizer kubernetes.io/pvc-protection",
        "v: finalizer kubernetes.io/pv-protection",
    ];
    assert_eq!(taken(claim.clone(), volume.clone(), &off()), both);
    assert_eq!(taken(claim.clone(), volume.clone(), &on()), [""; 0]);
    let claims_only = only(&PvcProtection);
    assert_eq!(
        taken(claim.clone(), volume.clone(), &claims_only),
        both[..1]
    );
    let volumes_only = only(&PvProtection);
    assert_eq!(taken(claim, volume, &volumes_only), both[1..]);
    assert_eq!(
        taken(json!({"finalizers": ["other"]}), json!({}), &off()),
        [""; 0]
    );
}

#[test]
fn what_is_being_deleted_and_in_use_keeps_its_finalizer() {
    let claim = json!({"finalizers": [PVC], "deletionTimestamp": GOING});
    let volume = json!({
        "metadata": {"finalizers": [PV], "deletionTimestamp": GOING},
        "spec": {"claimRef": {"namespace": "ns", "name": "c", "uid": "1"}}, "status": {"phase": "Bound"},
    });
    let (what, held) = planned(claim.clone(), volume.clone(), &[json!({})], &off());
    assert_eq!(what, [""; 0]);
    assert_eq!(
        held,
        [
            "claim ns/c: left unchanged, because it is being deleted and the pod p0 uses it",
            "volume v: left unchanged, because it is being deleted and it is bound to the claim ns/c",
        ]
    );
    // With --in-tree=on, the built-in controllers handle the finalizers.
    let (what, held) = planned(claim.clone(), volume, &[json!({})], &on());
    assert!(what.is_empty() && held.is_empty(), "{what:?} {held:?}");
    // A finished pod counts as a user, and a pod without a node does not.
    let finished = json!({"status": {"phase": "Succeeded"}});
    let unscheduled = json!({"spec": {"nodeName": null}});
    for (pod, holds) in [(finished, true), (unscheduled, false)] {
        let (what, held) = planned(claim.clone(), json!({}), &[pod], &off());
        assert_eq!((what.is_empty(), held.len() == 1), (holds, holds));
    }
    let released = json!({"metadata": {"finalizers": [PV], "deletionTimestamp": GOING}, "status": {"phase": "Released"}});
    assert_eq!(taken(json!({}), released, &off()).len(), 1);
}

#[test]
fn what_lives_loses_its_finalizer_though_it_is_in_use() {
    let volume = json!({"metadata": {"finalizers": [PV]}, "status": {"phase": "Bound"}});
    let (what, held) = planned(json!({"finalizers": [PVC]}), volume, &[json!({})], &off());
    assert_eq!((what.len(), held.len()), (2, 0));
}

#[test]
fn labels_and_marks_with_our_id_go() {
    let claim = json!({"labels": {MADE: ID, RELEASER_LABEL: ID, "app": "x"}, "annotations": {AWAITS: "then", "volume-warden.dev/scaled-with": "uid"}});
    let volume = json!({"metadata": {"labels": {RELEASER_LABEL: ID, "reclaimable-pv-releaser/managed-by": ID}}});
    let expected = [
        "c: annotation volume-warden.dev/scaled-with".to_owned(),
        format!("c: label {MADE}"),
        format!("c: annotation {AWAITS}"),
        format!("v: label {RELEASER_LABEL}"),
    ];
    assert_eq!(taken(claim.clone(), volume.clone(), &off()), expected);
    assert_eq!(taken(claim.clone(), volume.clone(), &on()), expected);
    let component = only(&PvReleaser);
    assert_eq!(
        taken(claim.clone(), volume.clone(), &component),
        expected[3..]
    );
    let component = only(&PvcProvisioner);
    assert_eq!(
        taken(claim.clone(), volume.clone(), &component),
        expected[1..3]
    );
    let component = only(&PvcRetention);
    assert_eq!(taken(claim, volume, &component), expected[..1]);
}

#[test]
fn an_announced_expiry_goes_with_pvc_expiry() {
    let claim = json!({"annotations": {EXPIRES_AT: GOING, EXPIRE_UNUSED: "30d"}});
    let expected = [format!("c: annotation {EXPIRES_AT}")];
    let removed = |config: &DrainConfig| taken(claim.clone(), json!({}), config);
    assert_eq!(removed(&off()), expected);
    assert_eq!(removed(&only(&PvcExpiry)), expected);
    assert_eq!(removed(&only(&PvcRetention)), [""; 0]);
    let by_user = json!({"annotations": {EXPIRE_UNUSED: "30d"}});
    assert_eq!(taken(by_user, json!({}), &off()), [""; 0]);
}

#[test]
fn what_is_anothers_stays() {
    let claim = json!({"labels": {MADE: "another"}, "annotations": {AWAITS: "then"}});
    let volume = json!({"metadata": {"labels": {RELEASER_LABEL: "another"}}});
    assert_eq!(taken(claim, volume, &off()), [""; 0]);
    let unlabelled = json!({"annotations": {AWAITS: "then"}});
    assert_eq!(taken(unlabelled, json!({}), &off()).len(), 1);
    // The claim keeps the owner reference to the pod that it was created for.
    let owner =
        json!({"apiVersion": "v1", "kind": "Pod", "name": "p0", "uid": "p0", "controller": true});
    let given = json!({"labels": {MADE: ID}, "ownerReferences": [owner]});
    assert_eq!(
        taken(given, json!({}), &off()),
        [format!("c: label {MADE}")]
    );
}

#[test]
fn what_comes_back_is_left_and_the_rest_is_done() {
    let cleanup = |what: &str| {
        let plan = plan(
            &objects(&json!({"finalizers": [PVC]}), &json!({}), &[]),
            &off(),
        );
        let mut cleanup = plan.cleanups.into_iter().next().expect("a cleanup");
        cleanup.what = vec![what.to_owned()];
        cleanup
    };
    let mut history = History::default();
    assert_eq!(history.retain_pending(vec![cleanup("a")]).len(), 1);
    history.done(cleanup("a"));
    assert_eq!(
        history.retain_pending(vec![cleanup("b")]).len(),
        1,
        "another thing"
    );
    assert_eq!(history.retain_pending(vec![cleanup("a")]).len(), 0);
    assert_eq!(history.returned.len(), 1);
}

/// A tenant can give a claim more copies of a finalizer than one patch removes.
#[test]
fn what_one_patch_does_not_remove_whole_has_not_come_back() {
    for (copies, rest) in [(1_000, 0), (1_001, 1)] {
        let claim = json!({"finalizers": vec![PVC; copies]});
        let planned = || plan(&objects(&claim, &json!({}), &[]), &off()).cleanups;
        let mut history = History::default();
        for cleanup in history.retain_pending(planned()) {
            history.done(cleanup);
        }
        assert_eq!(history.retain_pending(planned()).len(), rest, "{copies}");
        assert_eq!(history.returned.len(), 1 - rest, "{copies}");
    }
}
