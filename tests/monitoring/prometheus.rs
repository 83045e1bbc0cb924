//! A real Prometheus evaluates each query, and tests when each alert fires.
//!
//! Its build takes longer than all others, so only the weekly run has these tests.

use crate::shipped::{ROOT, dashboard_expressions, queries, rules, substitute_variables};
use anyhow::{Context, Result, ensure};
use serde_json::json;
use std::{fs, net::TcpListener, path::Path, process::Command};
use volume_warden_controlplane::{Guardian, Process, Prometheus, eventually};

/// Runs a Prometheus that scrapes `metrics_port` and evaluates each query and rule. Each query of
/// the dashboard must return data, except those with a metric in `without_data`.
pub async fn evaluate_queries(
    prometheus: &Prometheus,
    metrics_port: u16,
    without_data: &[&str],
) -> Result<()> {
    let files = tempfile::tempdir()?;
    let guardian = Guardian::start(files.path())?;
    let (_server, url) = loop {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let server = start(prometheus, &guardian, files.path(), &address, metrics_port)?;
        let url = format!("http://{address}");
        let is_scraped = eventually("Volume Warden is scraped", async || {
            // Another process has taken the port meanwhile, so Prometheus has ended.
            if server.log().contains("address already in use") {
                return Ok(Some(false));
            }
            let scraped = "volume_warden_ready == 1";
            let answer = prometheus
                .tool(&["query", "instant", &url, scraped])
                .await?;
            ensure!(answer.contains("volume_warden_ready"), "{answer}");
            anyhow::Ok(Some(true))
        })
        .await?;
        if is_scraped {
            break (server, url);
        }
    };
    for query in queries() {
        prometheus.tool(&["query", "instant", &url, &query]).await?;
    }
    let with_data = |query: &String| !without_data.iter().any(|metric| query.contains(metric));
    let shown = dashboard_expressions()
        .into_iter()
        .map(|query| substitute_variables(&query));
    for query in shown.filter(with_data) {
        eventually("the panel shows data", async || {
            let answer = prometheus.tool(&["query", "instant", &url, &query]).await?;
            ensure!(!answer.trim().is_empty(), "{query}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}

fn start(
    prometheus: &Prometheus,
    guardian: &Guardian,
    files: &Path,
    address: &str,
    metrics_port: u16,
) -> Result<Process> {
    let rules_file = files.join("rules.yaml");
    fs::write(&rules_file, rules().to_string())?;
    let target = json!({"targets": [format!("127.0.0.1:{metrics_port}")], "labels": {"namespace": "volume-warden", "pod": "a"}});
    let job =
        json!({"job_name": "volume-warden", "scrape_interval": "1s", "static_configs": [target]});
    let configuration = json!({"global": {"evaluation_interval": "1s"}, "rule_files": [rules_file], "scrape_configs": [job]});
    let file = files.join("prometheus.yaml");
    fs::write(&file, configuration.to_string())?;
    let mut command = Command::new(prometheus.server());
    command
        .arg(format!("--config.file={}", file.display()))
        .arg(format!(
            "--storage.tsdb.path={}",
            files.join("data").display()
        ))
        .arg(format!("--web.listen-address={address}"));
    guardian.spawn("prometheus", command, &files.join("log"))
}

/// `promtool` accepts the rules, and each alert fires as `alerts.yaml` expects.
#[tokio::test]
#[ignore = "builds Prometheus: cargo test --test monitoring -- --ignored"]
async fn alerts_fire_when_expected() -> Result<()> {
    let prometheus = Prometheus::locate().await?;
    let files = tempfile::tempdir()?;
    let file = |name| files.path().join(name);
    fs::write(file("rules.yaml"), rules().to_string())?;
    fs::copy(
        format!("{ROOT}/tests/monitoring/alerts.yaml"),
        file("alerts.yaml"),
    )?;
    let [rules, alerts] = ["rules.yaml", "alerts.yaml"].map(file);
    let rules = rules.to_str().context("a path in UTF-8")?;
    let alerts = alerts.to_str().context("a path in UTF-8")?;
    prometheus
        .tool(&["check", "rules", "--lint-fatal", rules])
        .await?;
    prometheus.tool(&["test", "rules", alerts]).await?;
    Ok(())
}
