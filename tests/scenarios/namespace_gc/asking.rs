//! What Volume Warden asks the API server, and what its metrics say.

use anyhow::{Result, ensure};
use volume_warden_controlplane::{Rule, Warden, eventually};

/// Its LISTs of namespaces. The watch begins with one, too.
pub fn live_list() -> Rule {
    Rule::on("GET")
        .path_contains("/api/v1/namespaces")
        .query_contains("limit=")
}

/// Its live look at one namespace.
pub fn live_get(name: &str) -> Rule {
    Rule::on("GET").path_contains(format!("/api/v1/namespaces/{name}"))
}

/// What a metric says; 0 while it is not there.
pub async fn metric(warden: &Warden, line: &str) -> Result<u64> {
    let metrics = warden.metrics().await?;
    let mut lines = metrics.lines();
    let value = lines.find_map(|each| each.strip_prefix(line)?.strip_prefix(' '));
    Ok(value.map_or(Ok(0), str::parse)?)
}

/// Collections that ended like this.
pub async fn runs(warden: &Warden, outcome: &str) -> Result<u64> {
    let line = format!("volume_warden_gc_runs_total{{outcome=\"{outcome}\"}}");
    metric(warden, &line).await
}

/// Collections that ended, however that was.
pub async fn all_runs(warden: &Warden) -> Result<u64> {
    let metrics = warden.metrics().await?;
    let lines = metrics.lines();
    let counts = lines.filter(|line| line.starts_with("volume_warden_gc_runs_total{"));
    let counts = counts.map(|line| line.rsplit(' ').next().unwrap_or_default());
    counts.map(|count| Ok(count.parse::<u64>()?)).sum()
}

/// A first collection ran to its end. Whether it left nothing undone: on a busy machine a call may
/// take too long, and what it was for is tried again on its own.
pub async fn collected(warden: &Warden) -> Result<bool> {
    eventually("a collection is done", async || {
        let done = runs(warden, "Done").await? >= 1;
        let ended = done || runs(warden, "Incomplete").await? >= 1;
        anyhow::Ok(ended.then_some(done))
    })
    .await
}

/// Whether something was done `least` times: exactly, if the collection left nothing undone, and
/// else at least. What a call was too late for is tried again.
pub fn done_times(found: usize, least: usize, whole: bool) -> bool {
    found == least || !whole && found > least
}

/// So many more collections end like this.
pub async fn more_runs(warden: &Warden, outcome: &str, more: u64) -> Result<()> {
    let before = runs(warden, outcome).await?;
    eventually(&format!("{more} more runs are {outcome}"), async || {
        anyhow::Ok(runs(warden, outcome).await? >= before + more)
    })
    .await
}

/// So many namespaces wait for this reason.
pub async fn waiting(warden: &Warden, reason: &str, count: u64) -> Result<()> {
    let line = format!("volume_warden_namespaces_waiting{{reason=\"{reason}\"}}");
    eventually(&format!("{count} wait because of {reason}"), async || {
        let found = metric(warden, &line).await?;
        ensure!(found == count, "{found}");
        Ok(())
    })
    .await
}
