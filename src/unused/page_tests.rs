//! Tests that the report prints the example of `docs/commands/unused.md`.

use super::{
    Output, rows, shown,
    test_objects::{claim, read, volume, workload},
};
use crate::inventory::{Listed, Referrer};
use k8s_openapi::api::{apps::v1::StatefulSet, batch::v1::CronJob};
use serde_json::{Value, json};

fn since(time: &str) -> Value {
    json!({"status": {"conditions": [
        {"type": "Unused", "status": "True", "lastTransitionTime": time}]}})
}

fn named(name: &str, spec: Value) -> Value {
    json!({"metadata": {"namespace": "shop", "name": name, "uid": name}, "spec": spec})
}

fn listed() -> Listed {
    let exports = json!({"status": {"conditions": null, "capacity": {"storage": "1Ti"}}});
    let old = json!({
        "spec": {"capacity": {"storage": "10Gi"}, "storageClassName": "fast",
            "claimRef": {"name": "old"}},
        "status": {"lastPhaseTransitionTime": "2026-02-01T00:00:00Z"},
    });
    let set = json!({"replicas": 2, "selector": {}, "serviceName": "",
        "template": {"spec": {"containers": []}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}}]});
    let template = json!({"spec": {"containers": [], "volumes": [
        {"name": "v", "persistentVolumeClaim": {"claimName": "exports"}}]}});
    let cron = json!({"suspend": true, "schedule": "",
        "jobTemplate": {"spec": {"template": template}}});
    let snapshot = Referrer {
        namespace: "shop".into(),
        what: "VolumeSnapshot exports-1".into(),
        claims: vec!["exports".into()],
    };
    Listed {
        claims: vec![
            read(claim("data-web-2", since("2026-04-28T00:00:00Z"))),
            read(claim("exports", exports)),
        ],
        volumes: vec![read(volume("pv", "Released", old))],
        workloads: vec![
            workload::<StatefulSet>(named("web", set)),
            workload::<CronJob>(named("export", cron)),
        ],
        snapshots: vec![snapshot],
        ..Listed::default()
    }
}

#[test]
fn the_page_shows_what_the_report_prints() {
    let page = include_str!("../../docs/commands/unused.md");
    let block = page.split("```text\n").nth(1).expect("an example");
    let example = block.split("\n```").next().expect("an end");
    let now = "2026-06-01T00:00:00Z".parse().expect("a time");
    let prices = [("fast".to_owned(), 0.08)].into();
    let printed = shown(&rows(&listed(), None), Output::Table, &prices, now);
    assert_eq!(printed, example);
}
