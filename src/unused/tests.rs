//! Tests of the report.

use super::{
    Output, Prices, Row, State, rows, shown,
    test_objects::{claim, pod, read, volume, workload},
};
use crate::inventory::{Listed, Referrer};
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, StatefulSet},
        batch::v1::{CronJob, Job},
    },
    jiff::Timestamp,
};
use serde_json::{Value, json};

/// The specification of a workload whose pods use the claim.
fn template(claim: &str) -> Value {
    json!({"spec": {"containers": [], "volumes": [
        {"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}})
}

fn named(name: &str, spec: Value) -> Value {
    json!({"metadata": {"namespace": "shop", "name": name, "uid": name}, "spec": spec})
}

fn owned_by(version: &str, kind: &str, name: &str) -> Value {
    json!({"metadata": {"ownerReferences": [
        {"apiVersion": version, "kind": kind, "name": name, "uid": name}]}})
}

fn references_of(listed: &Listed, claim: &str) -> Vec<String> {
    let rows = rows(listed, None);
    let row = rows.into_iter().find(|row| row.claim == claim);
    row.expect("it is unused").referenced_by
}

#[test]
fn only_claims_without_a_pod_that_runs_or_will_run_are_unused() {
    let names = ["running", "pending", "finished", "free"];
    let listed = Listed {
        claims: names.map(|name| read(claim(name, json!({})))).into(),
        pods: vec![
            pod("a", "running", "Running"),
            pod("b", "pending", "Pending"),
            pod("c", "finished", "Succeeded"),
            pod("d", "finished", "Failed"),
            ("other".to_owned(), pod("e", "free", "Running").1),
        ],
        ..Listed::default()
    };
    let rows = rows(&listed, None);
    let names: Vec<_> = rows.iter().map(|row| &*row.claim).collect();
    assert_eq!(names, ["finished", "free"]);
    assert_eq!(
        rows[1],
        Row {
            state: State::Unused,
            namespace: "shop".into(),
            claim: "free".into(),
            volume: "pv-free".into(),
            class: "fast".into(),
            capacity: "10Gi".into(),
            since: Some("2026-01-01T00:00:00Z".parse().expect("a time")),
            deleted: None,
            referenced_by: vec![],
        }
    );
}

#[test]
fn the_time_is_unknown_without_the_condition() {
    let wrong = json!([{"type": "Unused", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    for conditions in [Value::Null, wrong] {
        let status = json!({"status": {"conditions": conditions}});
        let listed = Listed {
            claims: vec![read(claim("data", status))],
            ..Listed::default()
        };
        assert_eq!(rows(&listed, None)[0].since, None);
    }
}

#[test]
fn what_still_refers_to_a_claim_is_named() {
    let mut zero = template("of-deployment");
    zero = json!({"replicas": 0, "selector": {}, "template": zero});
    let job = json!({"template": template("of-job")});
    let mut finished = named("migrate", job);
    finished["status"] = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    let cron = json!({"suspend": true, "schedule": "", "jobTemplate": {"spec": {"template": template("of-cron")}}});
    let set = json!({"replicas": 1, "selector": {}, "serviceName": "", "template": template("of-set"),
        "volumeClaimTemplates": [{"metadata": {"name": "data"}}]});
    let referrer = |what: &str, claim: &str| Referrer {
        namespace: "shop".into(),
        what: what.into(),
        claims: vec![claim.into()],
    };
    let names = [
        "of-deployment",
        "of-job",
        "of-cron",
        "of-set",
        "of-snapshot",
        "data-web-3",
        "data-web-x",
    ];
    let mut claims: Vec<_> = names.map(|name| read(claim(name, json!({})))).into();
    for (name, version, kind, owner) in [
        ("of-deleted", "batch/v1", "Job", "gone"),
        ("of-existing", "batch/v1", "Job", "migrate"),
        ("of-foreign", "db.io/v1", "Database", "db"),
        ("of-namesake", "batch.volcano.sh/v1alpha1", "Job", "gone"),
        ("of-custom", "db.io/v1", "Database", "mai"),
    ] {
        claims.push(read(claim(name, owned_by(version, kind, owner))));
    }
    let mut listed = Listed {
        claims,
        workloads: vec![
            workload::<Deployment>(named("shop", zero)),
            workload::<Job>(finished),
            workload::<CronJob>(named("backup", cron)),
            workload::<StatefulSet>(named("web", set)),
        ],
        snapshots: vec![referrer("VolumeSnapshot nightly", "of-snapshot")],
        referrers: vec![referrer("Database main", "of-custom")],
        ..Listed::default()
    };
    for (claim, expected) in [
        ("of-deployment", vec!["Deployment shop (0 replicas)"]),
        ("of-job", vec!["Job migrate (finished)"]),
        ("of-cron", vec!["CronJob backup (suspended)"]),
        ("of-set", vec!["StatefulSet web (1 replica)"]),
        ("of-snapshot", vec!["VolumeSnapshot nightly"]),
        ("of-custom", vec!["Database main", "owner Database mai"]),
        ("data-web-3", vec!["StatefulSet web (1 replica)"]),
        ("data-web-x", vec![]),
        ("of-deleted", vec!["owner Job gone (deleted)"]),
        ("of-existing", vec!["owner Job migrate"]),
        ("of-foreign", vec!["owner Database db"]),
        ("of-namesake", vec!["owner Job gone"]),
    ] {
        assert_eq!(references_of(&listed, claim), expected, "{claim}");
    }
    // An owner of a kind that was not listed may exist.
    listed.unlisted = vec!["VolumeSnapshots"];
    let deleted = "owner Job gone (deleted)";
    assert_eq!(references_of(&listed, "of-deleted"), [deleted]);
    listed.unlisted = vec!["Jobs"];
    assert_eq!(references_of(&listed, "of-deleted"), ["owner Job gone"]);
}

/// A claim that waits for its first pod has no disk, and costs nothing.
#[test]
fn a_claim_that_is_not_bound_has_no_size() {
    let status =
        json!({"spec": {"volumeName": null}, "status": {"phase": "Pending", "capacity": null}});
    let waiting =
        json!({"spec": {"volumeName": "pv"}, "status": {"phase": "Pending", "capacity": null}});
    let lost = json!({"status": {"phase": "Lost", "capacity": null}});
    let deleting = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let reserved = json!({"spec": {"claimRef": {"name": "pending", "uid": null}}});
    let listed = Listed {
        claims: vec![
            read(claim("deleting", deleting)),
            read(claim("lost", lost)),
            read(claim("pending", status)),
            read(claim("waiting", waiting)),
        ],
        volumes: vec![read(volume("reserved", "Available", reserved))],
        ..Listed::default()
    };
    let rows = rows(&listed, None);
    let prices: Prices = [("fast".to_owned(), 1.0)].into();
    let json: Value =
        serde_json::from_str(&shown(&rows, Output::Json, &prices, Timestamp::MIN)).expect("JSON");
    let items = json["items"].as_array().expect("a list");
    let states: Vec<_> = items
        .iter()
        .map(|item| (&item["claim"], &item["state"]))
        .collect();
    let expected = [
        ("deleting", "Terminating"),
        ("lost", "Unused"),
        ("pending", "Unused"),
        ("waiting", "Unused"),
    ];
    assert_eq!(
        json!(states),
        json!(expected),
        "the volume waits for its claim"
    );
    for unbound in &items[1..] {
        assert_eq!(unbound["capacity"], "5Gi", "{unbound}");
        assert_eq!(unbound["bytes"], 0.0, "{unbound}");
        assert_eq!(unbound["costPerMonth"], 0.0, "{unbound}");
        assert_eq!(unbound["volume"], "", "its volume may not exist");
    }
}

/// Otherwise one annotation would make each line of the table as long.
#[test]
fn an_impossible_class_is_not_shown() {
    let annotations = |class: &str| json!({"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": class}}});
    for (class, shown) in [("slow", "slow"), ("=1+1", ""), (&*"a".repeat(254), "")] {
        let listed = Listed {
            claims: vec![read(claim("data", annotations(class)))],
            volumes: vec![read(volume("kept", "Released", annotations(class)))],
            ..Listed::default()
        };
        let classes: Vec<_> = rows(&listed, None)
            .into_iter()
            .map(|row| row.class)
            .collect();
        assert_eq!(classes, [shown, shown]);
    }
}

#[test]
fn volumes_without_a_claim_are_listed() {
    let record = |uid: &str| {
        let record = json!({"policy": "Delete", "windowSeconds": 3600, "finalizers": [],
            "claim": {"namespace": "shop", "name": "data", "uid": uid}});
        json!({"metadata": {"annotations": {"volume-warden.dev/trash": record.to_string()}}})
    };
    let trash = record("1");
    let mut purged = record("1");
    purged["spec"] = json!({"persistentVolumeReclaimPolicy": "Delete"});
    let listed = Listed {
        volumes: vec![
            read(volume("bound", "Bound", json!({}))),
            read(volume(
                "free",
                "Available",
                json!({"spec": {"claimRef": null}}),
            )),
            read(volume(
                "parked",
                "Available",
                json!({"metadata": {"uid": "p", "annotations":
                    {"volume-warden.dev/claim-namespace": "shop/n/1"}},
                    "spec": {"claimRef": {"namespace": "volume-warden", "name": "parked-p"}}}),
            )),
            read(volume("broken", "Failed", json!({}))),
            read(volume("kept", "Released", json!({}))),
            read(volume("earlier", "Released", record("0"))),
            read(volume("purged", "Released", purged)),
            read(volume("trashed", "Released", trash)),
        ],
        ..Listed::default()
    };
    let found = |namespace| {
        let rows = rows(&listed, namespace).into_iter();
        rows.map(|row| (row.volume, row.claim, row.state))
            .collect::<Vec<_>>()
    };
    let row = |volume: &str, claim: &str, state| (volume.to_owned(), claim.to_owned(), state);
    let of_shop = [
        row("parked", "", State::Available),
        row("broken", "of-broken", State::Failed),
        row("earlier", "of-earlier", State::Released),
        row("kept", "of-kept", State::Released),
        row("purged", "of-purged", State::Released),
        row("trashed", "of-trashed", State::InTrash),
    ];
    assert_eq!(found(Some("shop")), of_shop);
    assert_eq!(found(Some("other")), []);
    assert_eq!(
        found(None),
        [&[row("free", "", State::Available)], &of_shop[..]].concat()
    );
}

fn report(output: Output) -> String {
    let listed = Listed {
        claims: vec![
            read(claim(
                "data",
                owned_by("db.io/v1", "Database", "db, \"main\"\n\u{1b}"),
            )),
            read(claim(
                "old",
                json!({"spec": {"storageClassName": "other"}, "status": {"conditions": null}}),
            )),
        ],
        ..Listed::default()
    };
    let now: Timestamp = "2026-01-31T00:00:00Z".parse().expect("a time");
    let prices: Prices = [("fast".to_owned(), 0.08)].into();
    shown(&rows(&listed, None), output, &prices, now)
}

#[test]
fn each_format_shows_the_same() {
    let table = "\
NAMESPACE  CLAIM  STATE   SIZE  UNUSED   REFERENCED BY
shop       data   Unused  10Gi  30d      owner Database db, \"main\"\\n\\u{1b}
shop       old    Unused  10Gi  unknown  -

2 in all, 20.0 GiB, 0.80 a month for the 1 whose class has a price";
    assert_eq!(report(Output::Table), table);
    let wide = report(Output::Wide);
    assert!(
        wide.contains("10Gi  30d      fast          pv-data  0.80        owner"),
        "{wide}"
    );
    let csv = "\
namespace,claim,state,capacity,unusedSince,storageClass,volume,costPerMonth,referencedBy
shop,data,Unused,10Gi,2026-01-01T00:00:00Z,fast,pv-data,0.80,\"owner Database db, \"\"main\"\"\\n\\u{1b}\"
shop,old,Unused,10Gi,,other,pv-old,,";
    assert_eq!(report(Output::Csv), csv);
    let json: Value = serde_json::from_str(&report(Output::Json)).expect("JSON");
    assert_eq!(json["items"][0]["bytes"], 10_737_418_240.0);
    assert_eq!(json["items"][1]["unusedSince"], Value::Null);
    let total = json!({"namespace": "shop", "storageClass": "fast", "state": "Unused", "count": 1,
        "bytes": 10_737_418_240.0, "costPerMonth": 0.8});
    assert_eq!(json["totals"][0], total);
}
