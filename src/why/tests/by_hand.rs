//! Tests of Pending claims whose volume another claim has.

use super::{
    reuse::{data, disk, in_trash},
    *,
};
use crate::objects::trash::UNDELETE;

const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";

/// A volume of the class `manual`, which the claim `bank/money` has, in this phase.
fn money(name: &str, phase: &str) -> Value {
    json!({
        "metadata": {"name": name}, "status": {"phase": phase},
        "spec": {
            "capacity": {"storage": "1Gi"}, "storageClassName": "manual", "accessModes": ["ReadWriteOnce"],
            "claimRef": {"namespace": "bank", "name": "money", "uid": "m"},
        },
    })
}

/// The Pending claim of the class `manual`, which has no provisioner.
fn cluster(volume_name: &str) -> Cluster {
    let mut claim = data(volume_name);
    claim["spec"]["storageClassName"] = json!("manual");
    let provisioner = "kubernetes.io/no-provisioner";
    let class = json!({"metadata": {"name": "manual"}, "provisioner": provisioner});
    Cluster::default().claim(claim).with(CLASSES, class)
}

/// Without its `claimRef`, a volume in use would be unbound from its claim.
#[tokio::test]
async fn a_volume_that_another_claim_has_is_not_reserved() {
    for (phase, whose) in [
        ("Bound", "is bound to the claim bank/money."),
        (
            "Released",
            "belonged to the claim bank/money, which is deleted.",
        ),
        ("Pending", "belongs to the claim bank/money."),
    ] {
        let answer = cluster("disk").volume(money("disk", phase));
        let answer = answer.explained(&Object::claim("shop", "data")).await;
        assert_eq!(codes(&answer), [Code::VolumeReserved]);
        let expected =
            format!("The claim names the volume disk, which {whose} It needs another volume.");
        assert_eq!(answer.chain[0].sentence, expected);
        assert_eq!(command(&answer), "kubectl describe pv disk");
        assert!(!purpose(&answer).contains("remove"), "{}", purpose(&answer));
    }
}

#[tokio::test]
async fn volumes_that_other_claims_have_are_counted() {
    let small = |name: &str| {
        let mut small = money(name, "Available");
        small["spec"]["capacity"] = json!({"storage": "1Mi"});
        small["spec"]["claimRef"] = Value::Null;
        small
    };
    let one = "the only volume of the StorageClass \"manual\" that fits belongs to another claim";
    let two = "all 2 volumes of the StorageClass \"manual\" that fit belong to other claims";
    let how = "c has a capacity of 1Mi, but the claim requests 1Gi";
    for (volumes, compared) in [
        (
            vec![],
            "there is no volume of the StorageClass \"manual\"".to_owned(),
        ),
        (vec![money("a", "Bound")], one.to_owned()),
        (
            vec![money("a", "Bound"), money("b", "Released")],
            two.to_owned(),
        ),
        (
            vec![small("c"), money("a", "Bound"), money("b", "Bound")],
            format!("{two}, {how}"),
        ),
        (vec![small("c")], how.to_owned()),
    ] {
        let cluster = volumes.into_iter().fold(cluster(""), Cluster::volume);
        let answer = cluster.explained(&Object::claim("shop", "data")).await;
        assert_eq!(codes(&answer), [Code::NoMatchingVolume], "{compared}");
        let why = "The claim requests the StorageClass manual, which has no provisioner";
        let expected = format!("{why}, and no existing volume can be bound to it: {compared}.");
        assert_eq!(answer.chain[0].sentence, expected);
    }
}

/// The advice for a claim that names the volume of another one would give up the data.
#[tokio::test]
async fn a_claim_that_requests_a_volume_of_the_trash_keeps_its_request() {
    for name in ["data", "copy"] {
        let mut claim = data("disk");
        claim["metadata"]["name"] = name.into();
        claim["metadata"]["annotations"] = json!({UNDELETE: "data"});
        let cluster = Cluster::default().claim(claim).volume(disk(&in_trash()));
        let answer = cluster.explained(&Object::claim("shop", name)).await;
        assert_eq!(codes(&answer), [Code::ProvisionerSilent], "{answer:?}");
        assert_eq!(
            command(&answer),
            format!("kubectl describe pvc {name} -n shop")
        );
    }
}

/// It has the data of the claim, and a reserved volume does not.
#[tokio::test]
async fn the_volume_of_an_earlier_claim_of_the_name_is_reported_first() {
    let mut reserved = money("a", "Available");
    reserved["spec"]["claimRef"] = json!({"namespace": "bank", "name": "money"});
    let mut former = money("z", "Released");
    former["spec"]["persistentVolumeReclaimPolicy"] = json!("Retain");
    former["spec"]["claimRef"] = json!({"namespace": "shop", "name": "data", "uid": "old"});
    let cluster = cluster("").volume(reserved).volume(former);
    let answer = cluster.explained(&Object::claim("shop", "data")).await;
    assert_eq!(codes(&answer), [Code::ClaimReplaced], "{answer:?}");
}

/// The scheduler selects a volume of such a class with the node, if there is one that fits.
#[tokio::test]
async fn a_class_of_local_volumes_is_compared_with_the_volumes() {
    let class = json!({
        "metadata": {"name": "manual"}, "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    let mut claim = data("");
    claim["spec"]["storageClassName"] = json!("manual");
    let volume = |claim_ref: Value| {
        let spec = json!({"storageClassName": "manual", "claimRef": claim_ref});
        disk(&json!({"spec": spec}))
    };
    let cluster = || {
        let cluster = Cluster::default().with(CLASSES, class.clone());
        cluster.claim(claim.clone())
    };
    for (cluster, expected) in [
        (cluster(), Code::NoMatchingVolume),
        (cluster().volume(volume(json!({}))), Code::ClaimReplaced),
        (cluster().volume(volume(Value::Null)), Code::WaitsForPod),
        (cluster().without("persistentvolumes"), Code::WaitsForPod),
    ] {
        let answer = cluster.explained(&Object::claim("shop", "data")).await;
        assert_eq!(codes(&answer), [expected], "{answer:?}");
    }
}

/// Kubernetes then compares neither size nor class, and no labels with the selector of a claim that
/// names its volume.
#[tokio::test]
async fn a_claim_and_a_volume_that_name_each_other_are_bound() {
    let own = json!({"uid": null});
    let selector = json!({"matchLabels": {"tier": "gold"}});
    let explained = async |object: Object, named: &str, spec: Value| {
        let volume = disk(&json!({"spec": spec, "status": {"phase": "Available"}}));
        let mut claim = data(named);
        claim["spec"]["selector"] = selector.clone();
        let cluster = Cluster::default().claim(claim).volume(volume);
        cluster.explained(&object).await
    };
    let claim = || Object::claim("shop", "data");
    let small = json!({"storage": "1Mi"});
    for (spec, expected) in [
        (
            json!({"claimRef": own, "capacity": small}),
            Code::ProvisionerSilent,
        ),
        (
            json!({"claimRef": own, "storageClassName": "other"}),
            Code::ProvisionerSilent,
        ),
        (json!({"claimRef": null}), Code::ProvisionerSilent),
        (
            json!({"claimRef": null, "capacity": small}),
            Code::NoMatchingVolume,
        ),
    ] {
        let answer = explained(claim(), "disk", spec.clone()).await;
        assert_eq!(codes(&answer), [expected], "{spec}");
    }
    let reserved = || json!({"claimRef": own, "capacity": small});
    let answer = explained(Object::volume("disk"), "disk", reserved()).await;
    assert_eq!(codes(&answer), []);
    let answer = explained(Object::volume("disk"), "", reserved()).await;
    assert_eq!(codes(&answer), [Code::NoMatchingVolume]);
}
