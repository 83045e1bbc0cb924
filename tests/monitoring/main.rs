//! The shipped alerts and dashboard: every query uses metrics that a real Volume Warden serves,
//! and every alert is documented and tested.

mod live;
mod prometheus;
mod promql;
mod shipped;

use promql::Asked;
use shipped::{Alert, ROOT, alerts, dashboard, queries};
use std::collections::{BTreeMap, BTreeSet};

/// The labels that Prometheus adds to every series of a target of the ServiceMonitor.
/// `cluster` is added by a Prometheus that collects from several clusters.
const OF_THE_TARGET: [&str; 4] = ["cluster", "namespace", "pod", "job"];
const PAGE: &str = "docs/operations/runbooks.md";
const HOST: &str = "https://github.com/volume-warden/volume-warden/blob/main";
/// Metrics of the API server.
const FAIL_OPEN: &str = "apiserver_admission_webhook_fail_open_count";

/// The labels of each metric.
type Served = BTreeMap<String, BTreeSet<String>>;

/// The metrics and labels of the query that are not served, as text.
fn not_served(asked: &Asked, served: &Served) -> Vec<String> {
    let mut missing = Vec::new();
    let mut known: BTreeSet<&str> = OF_THE_TARGET.into();
    for selector in &asked.selectors {
        let Some(labels) = served.get(&selector.metric) else {
            missing.push(selector.metric.clone());
            continue;
        };
        known.extend(labels.iter().map(String::as_str));
        let has = |label: &String| labels.contains(label) || OF_THE_TARGET.contains(&&**label);
        let absent = selector.labels.iter().filter(|label| !has(label));
        missing.extend(absent.map(|label| format!("{}{{{label}}}", selector.metric)));
    }
    let grouped = asked.grouped.iter();
    let unknown = grouped.filter(|label| !known.contains(label.as_str()));
    missing.extend(unknown.cloned());
    missing
}

#[test]
fn every_alert_has_a_section_in_the_runbooks() {
    let text = std::fs::read_to_string(format!("{ROOT}/{PAGE}")).expect("the runbooks");
    let sections: BTreeMap<&str, &str> = text
        .split("\n## ")
        .skip(1)
        .filter_map(|section| section.split_once('\n'))
        .collect();
    let alerts = alerts();
    let names: BTreeSet<&str> = alerts.iter().map(|alert| &*alert.name).collect();
    assert_eq!(
        names,
        sections.keys().copied().collect(),
        "alerts; sections"
    );
    for alert in &alerts {
        let name = &alert.name;
        let anchor = format!("{HOST}/{PAGE}#{}", name.to_lowercase());
        assert_eq!(alert.runbook, anchor);
        for part in [
            "**Meaning.**",
            "**Impact.**",
            "**Diagnosis.**",
            "**Mitigation.**",
        ] {
            assert!(sections[&**name].contains(part), "{name} has no {part}");
        }
        // An alert says what is at stake in the words of its runbook.
        let paragraphs = sections[&**name].split("\n\n");
        let mut impact = paragraphs.filter_map(|each| each.trim().strip_prefix("**Impact.**"));
        let impact: Vec<_> = impact
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        assert_eq!(alert.description, impact.join(" "), "{name}");
        assert!(alert.expression.contains("cluster") || alert.expression.starts_with("absent"));
    }
}

#[test]
fn every_alert_is_provoked_and_left_alone() {
    let tests = shipped::yaml(&format!("{ROOT}/tests/monitoring/alerts.yaml"));
    let tests = tests["tests"].as_array().expect("tests");
    let cases = tests
        .iter()
        .flat_map(|test| test["alert_rule_test"].as_array());
    let cases: Vec<_> = cases.flatten().collect();
    for Alert { name, .. } in alerts() {
        for fires in [true, false] {
            let of_it = |case: &&serde_json::Value| {
                let expected = case["exp_alerts"]
                    .as_array()
                    .is_some_and(|all| !all.is_empty());
                case["alertname"] == *name && expected == fires
            };
            assert!(cases.iter().any(of_it), "{name}, firing: {fires}");
        }
    }
}

#[test]
fn the_dashboard_can_be_imported() {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().expect("panels");
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len(), "each panel has an id of its own");
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{panel}");
        assert!(panel["description"].is_string(), "{panel}");
        let targets = panel["targets"].as_array().expect("targets");
        let expressions = targets.iter().filter_map(|target| target["expr"].as_str());
        let selecting = expressions.filter(|each| each.contains(r#"cluster=~"$cluster""#));
        assert_eq!(selecting.count(), targets.len(), "{panel}");
        assert!(!targets.is_empty(), "{panel}");
    }
}

/// The shipped files contain queries, so these tests are not empty.
#[test]
fn there_are_queries() {
    let queries = queries();
    assert!(queries.len() > 30, "{}", queries.len());
    assert!(
        queries
            .iter()
            .all(|query| !Asked::by(query).selectors.is_empty())
    );
}
