//! Tests whether a volume whose claim is deleted may be released for the next claim.

use super::*;
use crate::objects::{
    keys::{BIND_COMPLETED, STORAGE_CLASS},
    managed_by::RELEASER_LABEL,
    reuse::CLAIM_NAMESPACE,
    trash::TRASH,
};

/// The volume `disk` of a claim that was deleted at 00:30, with these changes.
pub(super) fn disk(changes: &Value) -> Value {
    let mut disk = json!({
        "metadata": {"name": "disk", "resourceVersion": "7", "managedFields": [{
            "manager": "csi-provisioner", "operation": "Update", "time": "2026-01-01T00:10:00Z",
            "fieldsV1": {"f:spec": {"f:persistentVolumeReclaimPolicy": {}}},
        }]},
        "spec": {
            "persistentVolumeReclaimPolicy": "Retain", "capacity": {"storage": "1Gi"},
            "storageClassName": "", "accessModes": ["ReadWriteOnce"],
            "claimRef": {"namespace": "shop", "name": "data", "uid": "old"},
        },
        "status": {"phase": "Released", "lastPhaseTransitionTime": "2026-01-01T00:30:00Z"},
    });
    json_patch::merge(&mut disk, changes);
    disk
}

/// The new claim with the name of the deleted claim.
pub(super) fn data(volume_name: &str) -> Value {
    json!({
        "metadata": {"name": "data", "namespace": "shop", "uid": "new"},
        "spec": {
            "storageClassName": "", "volumeName": volume_name, "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Pending"},
    })
}

/// The changes of a volume that is in the trash.
pub(super) fn in_trash() -> Value {
    let record = json!({
        "policy": "Delete", "windowSeconds": 3600, "deletedAt": "2026-01-01T00:30:00Z",
        "claim": {"namespace": "shop", "name": "data", "uid": "old", "namespaceUid": "n"},
    });
    json!({"metadata": {"annotations": {TRASH: record.to_string()}}})
}

/// A cluster with the namespace of the claims.
fn in_shop() -> Cluster {
    let namespace = json!({"metadata": {"name": "shop", "uid": "n"}});
    Cluster::default().with("/api/v1/namespaces", namespace)
}

fn attachment(volume: &str) -> Value {
    json!({"metadata": {"name": "csi-1"}, "spec": {
        "attacher": "csi.example.com", "nodeName": "n1", "source": {"persistentVolumeName": volume},
    }})
}

pub(super) fn attached(cluster: Cluster, volume: &str) -> Cluster {
    let attachments = "/apis/storage.k8s.io/v1/volumeattachments";
    cluster.with(attachments, attachment(volume))
}

pub(super) const FREE: &str = concat!(
    r#"kubectl patch pv disk --type=json -p '[{"op":"test","path":"/metadata/resourceVersion","#,
    r#""value":"7"},{"op":"remove","path":"/spec/claimRef/uid"}]'"#
);
/// With the record of pv-releaser, which names the earlier namespace.
const FREE_RECORDED: &str = concat!(
    r#"kubectl patch pv disk --type=json -p '[{"op":"test","path":"/metadata/resourceVersion","#,
    r#""value":"7"},{"op":"remove","path":"/metadata/annotations/volume-warden.dev~1claim-namespace"},"#,
    r#"{"op":"remove","path":"/spec/claimRef/uid"}]'"#
);
pub(super) const HAND_OVER: &str = concat!(
    r#"kubectl patch pv disk --type=json -p '[{"op":"test","path":"/metadata/resourceVersion","#,
    r#""value":"7"},{"op":"remove","path":"/metadata/annotations/volume-warden.dev~1claim-namespace"},"#,
    r#"{"op":"remove","path":"/spec/claimRef"},{"op":"add","path":"/spec/claimRef","#,
    r#""value":{"name":"NAME","namespace":"NAMESPACE"}}]'"#
);
const RETAIN: &str = concat!(
    r#"kubectl patch pv disk --type=json -p '[{"op":"test","path":"/metadata/resourceVersion","#,
    r#""value":"7"},{"op":"replace","path":"/spec/persistentVolumeReclaimPolicy","value":"Retain"}]'"#
);
pub(super) const DESCRIBE: &str = "kubectl describe pv disk";

/// The commands in the next steps for the claim: first if it names the volume, then if it does not.
async fn next_of_claim(changes: &Value) -> [String; 2] {
    let next = async |volume_name| {
        let cluster = in_shop().claim(data(volume_name)).volume(disk(changes));
        let cluster = attached(cluster, "another");
        let answer = cluster.explained(&Object::claim("shop", "data")).await;
        command(&answer).to_owned()
    };
    [next("disk").await, next("").await]
}

#[tokio::test]
async fn a_claim_is_not_bound_to_dying_storage() {
    let lease = "kubectl describe lease kube-controller-manager -n kube-system";
    for (changes, expected) in [
        (json!({}), FREE),
        (
            json!({"metadata": {"annotations": {CLAIM_NAMESPACE: "shop/1/1"}}}),
            FREE_RECORDED,
        ),
        (
            json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}}),
            RETAIN,
        ),
        (
            json!({"spec": {"persistentVolumeReclaimPolicy": "Recycle"}}),
            RETAIN,
        ),
        (
            json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}, "status": {"phase": "Bound"}}),
            RETAIN,
        ),
        (json!({"status": {"phase": "Bound"}}), lease),
        (json!({"status": {"phase": "Failed"}}), DESCRIBE),
        (
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:40:00Z"}}),
            "volume-warden why pv disk",
        ),
        // The policy became Retain after the volume was Released: the driver may have begun to
        // delete its data before.
        (
            json!({"status": {"lastPhaseTransitionTime": "2026-01-01T00:05:00Z"}}),
            DESCRIBE,
        ),
    ] {
        assert_eq!(next_of_claim(&changes).await, [expected; 2], "{changes}");
    }
}

/// A claim and a volume that were created again from an export: nothing deletes the data of a
/// volume that is Available.
#[tokio::test]
async fn only_a_released_or_failed_volume_may_have_lost_its_data() {
    for (phase, lost) in [("Available", false), ("Released", true), ("Failed", true)] {
        let disk = disk(&json!({
            "spec": {"persistentVolumeReclaimPolicy": "Delete", "claimRef": {"uid": null}},
            "status": {"phase": phase},
        }));
        let mut claim = data("disk");
        claim["metadata"]["annotations"] = json!({BIND_COMPLETED: "yes"});
        claim["status"]["phase"] = json!("Lost");
        let cluster = Cluster::default().claim(claim).volume(disk);
        let answer = cluster.explained(&Object::claim("shop", "data")).await;
        assert_eq!(codes(&answer), [Code::VolumeReserved], "{phase}");
        assert_eq!(command(&answer), RETAIN);
        let sentence = &answer.chain[0].sentence;
        let said = if lost {
            "its data is being deleted, or is deleted already."
        } else {
            "its data is deleted once the volume is Released."
        };
        assert!(sentence.ends_with(said), "{phase}: {sentence}");
    }
}

/// `why` for the volume prints the same commands as `why` for the claim.
#[tokio::test]
async fn a_volume_is_not_freed_while_it_is_dying_or_attached() {
    let object = Object::volume("disk");
    let volume = |changes: Value| Cluster::default().volume(disk(&changes));
    let failed = || volume(json!({"status": {"phase": "Failed"}}));
    let late = || volume(json!({"status": {"lastPhaseTransitionTime": "2026-01-01T00:05:00Z"}}));
    let detach = "kubectl describe volumeattachment csi-1";
    let unread = "kubectl get volumeattachments";
    for (cluster, with_claim, without) in [
        (volume(json!({})), FREE, "/spec/claimRef"),
        (
            attached(volume(json!({})), "another"),
            FREE,
            "/spec/claimRef",
        ),
        (attached(volume(json!({})), "disk"), detach, detach),
        (
            volume(json!({})).without("volumeattachments"),
            unread,
            unread,
        ),
        (failed(), DESCRIBE, DESCRIBE),
        (late(), DESCRIBE, DESCRIBE),
    ] {
        let again = Cluster {
            objects: cluster.objects.clone(),
            forbidden: cluster.forbidden.clone(),
        };
        let replaced = again.claim(data("")).explained(&object).await;
        assert_eq!(codes(&replaced), [Code::ClaimReplaced]);
        assert_eq!(command(&replaced), with_claim);
        let retained = cluster.explained(&object).await;
        assert_eq!(codes(&retained), [Code::Retained]);
        let command = command(&retained);
        assert!(
            command == without || command.contains(&format!("\"{without}\"")),
            "{command}"
        );
    }
}

/// A volume that is released for a claim which it does not satisfy stays reserved, and the claim
/// gets an empty volume.
#[tokio::test]
async fn a_volume_that_is_too_small_is_not_freed_for_the_claim() {
    let small = json!({"spec": {"capacity": {"storage": "1Mi"}}});
    let cluster = Cluster::default().volume(disk(&small)).claim(data(""));
    let answer = cluster.explained(&Object::volume("disk")).await;
    assert_eq!(command(&answer), DESCRIBE);
    assert!(
        answer.chain[0]
            .sentence
            .contains("a capacity of 1Mi, but the claim requests 1Gi")
    );
    let cluster = Cluster::default().volume(disk(&small)).claim(data("disk"));
    let answer = cluster.explained(&Object::claim("shop", "data")).await;
    assert_eq!(codes(&answer), [Code::ClaimReplaced]);
    assert_eq!(command(&answer), DESCRIBE);
    assert!(answer.chain[0].sentence.contains("has a capacity of 1Mi"));
    let gold = json!({"spec": {"volumeAttributesClassName": "gold"}});
    for named in ["", "disk"] {
        let cluster = Cluster::default().volume(disk(&gold)).claim(data(named));
        let answer = cluster.explained(&Object::volume("disk")).await;
        assert_eq!(codes(&answer), [Code::ClaimReplaced]);
        assert_eq!(command(&answer), DESCRIBE);
        let sentence = &answer.chain[0].sentence;
        let differs = "This volume has the VolumeAttributesClass \"gold\"";
        assert!(sentence.contains(differs), "{sentence}");
    }
    let named = json!({"metadata": {"annotations": {STORAGE_CLASS: "other"}}});
    let cluster = Cluster::default().volume(disk(&named)).claim(data(""));
    let answer = cluster.explained(&Object::claim("shop", "data")).await;
    let sentence = &answer.chain[0].sentence;
    assert!(
        sentence.contains("no volume of the StorageClass"),
        "{sentence}"
    );
    // A different StorageClass does not prevent the binding of a reserved volume.
    let class = json!({"spec": {"storageClassName": "other"}});
    let cluster = Cluster::default().volume(disk(&class)).claim(data(""));
    let answer = cluster.explained(&Object::volume("disk")).await;
    assert_eq!(command(&answer), FREE);
}

/// Only pvc-trash gives such a volume to a claim: it checks who may have the data.
#[tokio::test]
async fn a_volume_in_the_trash_is_not_freed() {
    let record = |namespace_uid: Option<&str>| {
        let record = json!({
            "policy": "Delete", "windowSeconds": 3600, "deletedAt": "2026-01-01T00:30:00Z",
            "claim": {"namespace": "shop", "name": "data", "uid": "old",
                "namespaceUid": namespace_uid},
        });
        record.to_string()
    };
    let users = "volume-warden undelete pvc data -n shop --volume disk";
    let administrators = format!("{users} --to-namespace shop");
    let object = Object::volume("disk");
    for (record, until, undelete) in [
        (record(Some("n")), "until 2026-01-01T01:30:00Z", users),
        (record(None), "until 2026-01-01T01:30:00Z", &administrators),
    ] {
        let renamed = format!("{undelete} --new-name NEW");
        let trash = json!({"metadata": {"annotations": {TRASH: record}}});
        assert_eq!(next_of_claim(&trash).await[1], renamed);
        let cluster = || in_shop().volume(disk(&trash));
        let replaced = cluster().claim(data("")).explained(&object).await;
        assert_eq!(codes(&replaced), [Code::ClaimReplaced]);
        assert_eq!(command(&replaced), renamed);
        // A StatefulSet has recreated its claim, with another volume.
        let mut bound = data("other");
        bound["status"]["phase"] = "Bound".into();
        let replaced = cluster().claim(bound).explained(&object).await;
        assert_eq!(codes(&replaced), [Code::ClaimReplaced]);
        assert_eq!(command(&replaced), renamed);
        let sentence = &replaced.chain[0].sentence;
        assert!(sentence.contains(until), "{sentence}");
        let kept = cluster().explained(&object).await;
        assert_eq!(codes(&kept), [Code::InTrash]);
        assert_eq!(command(&kept), undelete);
        assert!(kept.chain[0].sentence.contains(until), "{kept:?}");
        let mut purged = trash.clone();
        let policy = json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}});
        json_patch::merge(&mut purged, &policy);
        assert_eq!(
            next_of_claim(&purged).await[1],
            DESCRIBE,
            "a purge is final"
        );
    }
}

/// Users can restore a claim only in the namespace in which it was deleted.
#[tokio::test]
async fn the_command_that_restores_a_claim_suits_its_namespace() {
    let trash = in_trash();
    let now = "2026-01-01T00:59:00Z";
    let opted_out = json!({"volume-warden.dev/exclude": "true"});
    let namespace = |metadata: Value| {
        let mut namespace = json!({"metadata": {"name": "shop", "uid": "n"}});
        json_patch::merge(&mut namespace["metadata"], &metadata);
        Cluster::default().with("/api/v1/namespaces", namespace)
    };
    for (cluster, to) in [
        (namespace(json!({})), ""),
        (
            namespace(json!({"uid": "recreated"})),
            " --to-namespace shop",
        ),
        (
            namespace(json!({"deletionTimestamp": now})),
            " --to-namespace NAMESPACE",
        ),
        (
            namespace(json!({"labels": opted_out})),
            " --to-namespace shop",
        ),
        (Cluster::default(), " --to-namespace NAMESPACE"),
    ] {
        let answer = cluster
            .volume(disk(&trash))
            .explained(&Object::volume("disk"))
            .await;
        let expected = format!("volume-warden undelete pvc data -n shop --volume disk{to}");
        assert_eq!(command(&answer), expected);
    }
}

/// pvc-trash leaves a record that it cannot read to an administrator. A name that the API server
/// did not validate would be a command of its own in a shell.
#[tokio::test]
async fn no_command_restores_data_without_a_record_or_by_an_invalid_name() {
    let trash = |record: Value| json!({"metadata": {"annotations": {TRASH: record.to_string()}}});
    let mut named = trash(json!({
        "policy": "Delete", "windowSeconds": 3600, "deletedAt": "2026-01-01T00:30:00Z",
        "claim": {"namespace": "shop", "name": "d; rm -rf ~ #", "uid": "old", "namespaceUid": "n"},
    }));
    named["spec"] = json!({"claimRef": {"name": "d; rm -rf ~ #"}});
    for (changes, sentence) in [
        (
            trash(json!({})),
            "until an administrator corrects or removes its annotation",
        ),
        (named, "until 2026-01-01T01:30:00Z"),
    ] {
        let answer = in_shop()
            .volume(disk(&changes))
            .explained(&Object::volume("disk"))
            .await;
        assert_eq!(codes(&answer), [Code::InTrash]);
        assert_eq!(command(&answer), DESCRIBE);
        assert!(answer.chain[0].sentence.contains(sentence), "{answer:?}");
    }
    assert_eq!(next_of_claim(&trash(json!({}))).await[1], DESCRIBE);
}

/// The claim that has the name of the deleted one has another volume.
#[tokio::test]
async fn the_next_step_says_whether_pv_releaser_frees_the_volume() {
    let label = json!({"metadata": {"labels": {RELEASER_LABEL: "a"}}});
    let mut failed = label.clone();
    failed["status"] = json!({"phase": "Failed"});
    for (changes, frees) in [(label, true), (json!({}), false), (failed, false)] {
        let mut bound = data("other");
        bound["status"]["phase"] = "Bound".into();
        let cluster = Cluster::default().volume(disk(&changes)).claim(bound);
        let answer = cluster.explained(&Object::volume("disk")).await;
        assert_eq!(codes(&answer), [Code::ClaimReplaced]);
        let sentence = &answer.chain[0].sentence;
        assert_eq!(sentence.contains("makes the volume Available again"), frees);
        let kept = purpose(&answer).contains("until an administrator decides");
        assert_eq!(kept, !frees);
    }
}

/// In the scope `namespace`, pv-releaser frees no volume if the namespace of its claim is not
/// recorded. In the phase Failed, it frees none.
#[tokio::test]
async fn what_pv_releaser_does_depends_on_the_record_and_the_phase() {
    let record = json!({"annotations": {"volume-warden.dev/claim-namespace": "shop/n/old"}});
    let other = json!({"annotations": {"volume-warden.dev/claim-namespace": "shop/n/older"}});
    let any = json!({"labels": {"volume-warden.dev/release-scope": "cluster"}});
    let label = json!({"labels": {RELEASER_LABEL: "a"}});
    let (any_namespace, again) = ("a claim of any namespace", "Available again");
    for (metadata, phase, unlabelled, labelled) in [
        (&record, "Released", (true, false), (true, false)),
        (&any, "Released", (true, false), (true, false)),
        (&other, "Released", (true, true), (true, true)),
        (&json!({}), "Released", (true, true), (true, true)),
        (&record, "Failed", (false, false), (false, false)),
    ] {
        for (has_label, expected) in [(false, unlabelled), (true, labelled)] {
            let mut changes = json!({"metadata": metadata, "status": {"phase": phase}});
            if has_label {
                json_patch::merge(&mut changes["metadata"], &label);
            }
            let answer = Cluster::default().volume(disk(&changes));
            let answer = answer.explained(&Object::volume("disk")).await;
            let said = &answer.chain[0].sentence;
            let found = (said.contains(again), said.contains(any_namespace));
            assert_eq!(found, expected, "{phase} {metadata} {has_label}: {said}");
        }
    }
}

/// Changes after which the volume is parked for the next claim of the namespace `yard`.
pub(super) fn parked() -> Value {
    json!({
        "metadata": {"uid": "pv-1", "annotations": {"volume-warden.dev/claim-namespace": "yard/n/c"}},
        "spec": {"claimRef": {"namespace": "volume-warden", "name": "parked-pv-1", "uid": null}},
        "status": {"phase": "Available"},
    })
}

/// `why` for a parked volume says for which namespace it waits; `why` for a claim in another
/// namespace does not name the volume.
#[tokio::test]
async fn a_parked_volume_waits_for_its_namespace() {
    let parked = parked();
    let cluster = || Cluster::default().volume(disk(&parked));
    let object = Object::volume("disk");
    let yard = |changes: Value| {
        let mut namespace = json!({"metadata": {"name": "yard", "uid": "n"}});
        json_patch::merge(&mut namespace["metadata"], &changes);
        cluster().with("/api/v1/namespaces", namespace)
    };
    let with = |uid: &str| yard(json!({"uid": uid}));
    let runs = |cluster: Cluster, renewed| {
        let lease = controllers::lease("pv-releaser", renewed);
        cluster.lease(lease).installed("volume-warden")
    };
    let answer = runs(with("n"), NOW).explained(&object).await;
    let said = format!("{answer:?}");
    assert!(
        said.contains("in the namespace yard") && said.contains("Healthy"),
        "{said}"
    );
    let excluded = yard(json!({"labels": {"volume-warden.dev/exclude": "true"}}));
    let deleted = yard(json!({"deletionTimestamp": NOW}));
    for (cluster, why) in [
        (with("n"), "not whether pv-releaser runs"),
        (
            runs(with("n"), "2026-01-01T00:00:00Z"),
            "not whether pv-releaser runs",
        ),
        (runs(excluded, NOW), "has opted out"),
        (runs(deleted, NOW), "is being deleted"),
    ] {
        let answer = cluster.explained(&object).await;
        let said = format!("{answer:?}");
        assert!(
            said.contains("NothingFound") && said.contains(why),
            "{said}"
        );
    }
    let answer = cluster().without("namespaces").explained(&object).await;
    let said = format!("{answer:?}");
    assert!(said.contains("NothingFound"), "{said}");
    for (cluster, state) in [(cluster(), "was deleted,"), (with("m"), "created again,")] {
        let cluster = attached(cluster, "another");
        let answer = cluster.explained(&object).await;
        let root = answer.chain.last().expect("a cause");
        assert_eq!(root.code, Code::ParkedForDeletedNamespace);
        assert!(root.sentence.contains(state), "{}", root.sentence);
        assert_eq!(command(&answer), HAND_OVER);
    }
    let cluster = || attached(cluster(), "disk");
    let answer = cluster().explained(&object).await;
    assert_eq!(command(&answer), "kubectl describe volumeattachment csi-1");
    let claim = Object::claim("shop", "data");
    let answer = cluster().claim(data("")).explained(&claim).await;
    let said = format!("{answer:?}");
    assert!(said.contains("NoMatchingVolume"), "{said}");
    assert!(!said.contains("yard") && !said.contains("parked"), "{said}");
}

/// A new claim of that name would be empty, and the data in the trash is purged at the end of its
/// window.
#[tokio::test]
async fn a_pod_whose_claim_was_deleted_learns_where_the_data_is() {
    let pod = json!({
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"containers": [], "volumes": [
            {"name": "home", "persistentVolumeClaim": {"claimName": "data"}},
        ]},
        "status": {"phase": "Pending"},
    });
    let other = json!({"spec": {"claimRef": {"name": "other"}}});
    let bound = json!({"status": {"phase": "Bound"}});
    for (cluster, next, advice) in [
        (
            in_shop().volume(disk(&in_trash())),
            "volume-warden undelete pvc data -n shop --volume disk",
            "would be empty",
        ),
        (in_shop().volume(disk(&json!({}))), DESCRIBE, "to decide"),
        (
            in_shop().volume(disk(&other)).volume(disk(&bound)),
            "kubectl get pvc -n shop",
            "then create the claim data",
        ),
        (
            in_shop().without("persistentvolumes"),
            "volume-warden undelete pvc data -n shop",
            "then create the claim data",
        ),
    ] {
        let answer = cluster
            .pod(pod.clone())
            .explained(&Object::pod("shop", "web"))
            .await;
        assert_eq!(
            answer.root().map(|root| root.code),
            Some(Code::ClaimMissing)
        );
        assert_eq!(command(&answer), next);
        assert!(purpose(&answer).contains(advice), "{answer:?}");
    }
}
