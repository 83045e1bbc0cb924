//! The path in the webhook configurations, after users change the configurations.

use super::*;

/// Writes the path that `path` returns for a webhook's name to every webhook.
async fn set_paths(cluster: &Cluster, path: impl Fn(&str) -> Result<Value>) -> Result<()> {
    let client = cluster.client();
    for configuration in configurations(&client).await? {
        let mut operations = Vec::new();
        for (index, webhook) in configuration.webhooks().iter().enumerate() {
            let path = path(webhook["name"].as_str().context("a name")?)?;
            let at = format!("/webhooks/{index}/clientConfig/service/path");
            operations.push(json!({"op": "add", "path": at, "value": path}));
        }
        configuration.patch(&client, &operations).await?;
    }
    Ok(())
}

/// The path that version 0.1.0 published, which has no secret prefix.
fn unprefixed(webhook: &str) -> Result<Value> {
    Ok(match webhook {
        "phase.pv-protection.volume-warden.dev" => json!("/pv-protection/bind"),
        _ => json!(hook(webhook)?),
    })
}

/// The HTTP status of a GET request to `path`.
async fn get_status(strict_client: &StrictClient, warden: &Warden, path: &str) -> Result<String> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    let response = strict_client.send(warden.webhook_port(), &request).await?;
    let status = response.split(' ').nth(1).context("a status")?;
    Ok(status.to_owned())
}

/// Waits until Volume Warden has written each configuration again after the last change of its
/// webhooks: an API server that missed the change notices the second write.
pub(crate) async fn configurations_are_written_again(cluster: &Cluster) -> Result<()> {
    eventually("the configurations are written again", async || {
        for configuration in configurations(&cluster.client()).await? {
            let metadata = &configuration.object["metadata"];
            let repeated =
                metadata["annotations"]["volume-warden.dev/repeated-generation"].as_str();
            let generation = metadata["generation"].to_string();
            ensure!(repeated == Some(&generation), "{metadata}");
        }
        Ok(())
    })
    .await
}

/// Both forms of `kubectl apply` preserve the path and the caBundle. `kubectl replace` resets
/// them, and Volume Warden publishes them again.
#[tokio::test]
async fn the_path_survives_apply_and_is_published_again_after_replace() -> Result<()> {
    let cluster = fresh::installed().await?;
    let _warden = Warden::builder(&cluster, BINARY).serving().start().await?;
    let before = all_published(&cluster).await?;
    let manifests = repository().join("manifests");
    let manifests = manifests.to_string_lossy();
    cluster.kubectl(&["apply", "-k", &manifests]).await?;
    assert_eq!(client_configs(&cluster).await?, before);
    let server_side = [
        "apply",
        "--server-side",
        "--force-conflicts",
        "-k",
        &manifests,
    ];
    cluster.kubectl(&server_side).await?;
    assert_eq!(client_configs(&cluster).await?, before);
    cluster.kubectl(&["replace", "-k", &manifests]).await?;
    let reset = client_configs(&cluster).await?;
    ensure!(
        reset != before,
        "replace did not reset the path and the caBundle"
    );
    // The replacement also empties the Secret: the replica writes the path to the Secret again.
    let after = eventually_within(
        crate::certificates::TIMEOUT,
        "the path and the caBundle are published again",
        async || {
            let now = client_configs(&cluster).await?;
            ensure!(now == before, "{:?}", now.keys());
            anyhow::Ok(Some(now))
        },
    )
    .await?;
    assert_eq!(all_published(&cluster).await?, after);
    configurations_are_written_again(&cluster).await?;
    webhooks_answer(&cluster.client()).await?;
    Ok(())
}

/// The fixed paths of version 0.1.0 are not accepted after this installation has published its own
/// path, not even after a restart and after the fixed paths are restored.
#[tokio::test]
async fn fixed_paths_end_with_the_first_publication() -> Result<()> {
    let cluster = fresh::installed().await?;
    set_paths(&cluster, unprefixed).await?;
    let warden = Warden::builder(&cluster, BINARY).serving().start().await?;
    all_published(&cluster).await?;
    let strict_client = strict_client(&cluster);
    let fixed_path_is_refused = async |warden: &Warden| {
        eventually("fixed paths are not accepted", async || {
            let status = get_status(&strict_client, warden, "/pvc-protection/claims").await?;
            ensure!(status == "404", "{status}");
            Ok(())
        })
        .await
    };
    fixed_path_is_refused(&warden).await?;
    webhooks_answer(&cluster.client()).await?;
    warden.stop().await?;
    set_paths(&cluster, unprefixed).await?;
    let restarted = Warden::builder(&cluster, BINARY)
        .name("restarted")
        .serving()
        .start()
        .await?;
    // A ready process has completed its first reads.
    assert_eq!(
        get_status(&strict_client, &restarted, "/pvc-protection/claims").await?,
        "404"
    );
    all_published(&cluster).await?;
    webhooks_answer(&cluster.client()).await?;
    Ok(())
}

/// Volume Warden reports a webhook with the failurePolicy Fail, because the message of a failed
/// call then shows the path to the user.
#[tokio::test]
async fn a_webhook_that_fails_closed_is_reported() -> Result<()> {
    let cluster = fresh::installed().await?;
    let name = "volume-warden-pvc-protection";
    let kind = "mutatingwebhookconfiguration";
    let fail = json!([{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Fail"}]);
    let fail = fail.to_string();
    let patch = ["patch", kind, name, "--type=json", "-p", &fail];
    cluster.kubectl(&patch).await?;
    let warden = Warden::builder(&cluster, BINARY).serving().start().await?;
    // A ready process has read the configurations.
    let metrics = warden.metrics().await?;
    ensure!(
        metrics.contains("volume_warden_webhooks_fail_closed 1\n"),
        "{metrics}"
    );
    let log = warden.process().log();
    let reported = log.lines().find(|line| line.contains("failurePolicy Fail"));
    ensure!(
        reported.is_some_and(|line| line.contains(name)),
        "{reported:?}"
    );
    Ok(())
}
