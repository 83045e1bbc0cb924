//! Rules for the live reads of Volume Warden, and the values of its metrics.

use anyhow::{Result, ensure};
use volume_warden_controlplane::{Rule, Warden, eventually};

/// Applies to the LISTs of namespaces, including the one with which the watch begins.
pub fn live_list() -> Rule {
    Rule::on("GET")
        .path_contains("/api/v1/namespaces")
        .query_contains("limit=")
}

/// Applies to the live GETs of the namespaces whose names begin with `name`.
pub fn live_get(name: &str) -> Rule {
    Rule::on("GET").path_contains(format!("/api/v1/namespaces/{name}"))
}

/// The value of a time series; 0 if it does not exist.
pub async fn metric(warden: &Warden, series: &str) -> Result<u64> {
    let metrics = warden.metrics().await?;
    let mut lines = metrics.lines();
    let value = lines.find_map(|each| each.strip_prefix(series)?.strip_prefix(' '));
    Ok(value.map_or(Ok(0), str::parse)?)
}

/// Number of collections that ended with this outcome.
pub async fn runs(warden: &Warden, outcome: &str) -> Result<u64> {
    let series = format!("volume_warden_gc_runs_total{{outcome=\"{outcome}\"}}");
    metric(warden, &series).await
}

/// Number of collections that ended, with any outcome.
pub async fn all_runs(warden: &Warden) -> Result<u64> {
    let metrics = warden.metrics().await?;
    let lines = metrics.lines();
    let counts = lines.filter(|line| line.starts_with("volume_warden_gc_runs_total{"));
    let counts = counts.map(|line| line.rsplit(' ').next().unwrap_or_default());
    counts.map(|count| Ok(count.parse::<u64>()?)).sum()
}

/// Waits until a collection has ended. Returns whether it was complete: on a busy machine a call
/// may take too long, and its namespace is then retried outside the collection.
pub async fn collection_ended(warden: &Warden) -> Result<bool> {
    eventually("a collection has ended", async || {
        let done = runs(warden, "Done").await? >= 1;
        let ended = done || runs(warden, "Incomplete").await? >= 1;
        anyhow::Ok(ended.then_some(done))
    })
    .await
}

/// Whether a request was sent the expected number of times. After an incomplete collection, it may
/// have been sent more often, because calls that took too long are retried.
pub fn is_expected(found: usize, expected: usize, complete: bool) -> bool {
    found == expected || !complete && found > expected
}

/// Waits until this number of further collections have ended with this outcome.
pub async fn more_runs(warden: &Warden, outcome: &str, more: u64) -> Result<()> {
    let before = runs(warden, outcome).await?;
    eventually(
        &format!("{more} more collections end with {outcome}"),
        async || anyhow::Ok(runs(warden, outcome).await? >= before + more),
    )
    .await
}

/// Waits until this number of namespaces wait for this reason.
pub async fn waiting(warden: &Warden, reason: &str, count: u64) -> Result<()> {
    let series = format!("volume_warden_namespaces_waiting{{reason=\"{reason}\"}}");
    eventually(
        &format!("{count} namespaces wait because of {reason}"),
        async || {
            let found = metric(warden, &series).await?;
            ensure!(found == count, "{found}");
            Ok(())
        },
    )
    .await
}
