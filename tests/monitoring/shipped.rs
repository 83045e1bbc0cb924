//! The content of `manifests/monitoring`.

use serde_json::Value;

pub const ROOT: &str = env!("CARGO_MANIFEST_DIR");

pub struct Alert {
    pub name: String,
    pub expression: String,
    pub severity: String,
    pub summary: String,
    pub description: String,
    pub runbook: String,
}

pub fn yaml(path: &str) -> Value {
    let text = std::fs::read_to_string(path).expect("a file");
    serde_saphyr::from_str(&text).expect("YAML")
}

/// The rules in the format that Prometheus reads.
pub fn rules() -> Value {
    yaml(&format!("{ROOT}/manifests/monitoring/rules.yaml"))["spec"].take()
}

pub fn alerts() -> Vec<Alert> {
    let rules = rules();
    let groups = rules["groups"].as_array().expect("groups");
    let rules = groups.iter().flat_map(|group| group["rules"].as_array());
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let alert = |rule: &Value| Alert {
        name: text(&rule["alert"]),
        expression: text(&rule["expr"]),
        severity: text(&rule["labels"]["severity"]),
        summary: text(&rule["annotations"]["summary"]),
        description: text(&rule["annotations"]["description"]),
        runbook: text(&rule["annotations"]["runbook_url"]),
    };
    rules.flatten().map(alert).collect()
}

pub fn dashboard() -> Value {
    let path = format!("{ROOT}/manifests/monitoring/dashboard.json");
    let text = std::fs::read_to_string(path).expect("the dashboard");
    serde_json::from_str(&text).expect("JSON")
}

/// Every expression of the dashboard, with the dashboard's variables.
pub fn dashboard_expressions() -> Vec<String> {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array());
    let expression = |target: &Value| target["expr"].as_str().expect("an expression").to_owned();
    targets.flatten().map(expression).collect()
}

/// The expression as Grafana sends it when each variable is "All".
pub fn substitute_variables(expression: &str) -> String {
    let expression = expression.replace("$__rate_interval", "1m");
    let expression = expression.replace("$cluster", ".*");
    expression.replace("$namespace", ".*")
}

/// Every expression of the alerts and of the dashboard, the latter as Grafana sends it.
pub fn queries() -> Vec<String> {
    let shown = dashboard_expressions().into_iter();
    let shown = shown.map(|expression| substitute_variables(&expression));
    let alerts = alerts().into_iter().map(|alert| alert.expression);
    shown.chain(alerts).collect()
}
