//! The path in the webhook configurations, across changes that users make to them.

use super::*;

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

/// The path that version 0.1.0 published.
fn unprefixed(webhook: &str) -> Result<Value> {
    Ok(match webhook {
        "phase.pv-protection.volume-warden.dev" => json!("/pv-protection/bind"),
        _ => json!(hook(webhook)?),
    })
}

async fn answers(visitor: &Visitor, warden: &Warden, path: &str) -> Result<String> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    let answer = visitor.ask(warden.webhook_port(), &request).await?;
    let status = answer.split(' ').nth(1).context("a status")?;
    Ok(status.to_owned())
}

/// Waits until each configuration has been written once more since its webhooks changed: an API
/// server that missed the change notices that.
async fn written_once_more(cluster: &Cluster) -> Result<()> {
    eventually("the configurations are written once more", async || {
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
    assert_eq!(published(&cluster).await?, before);
    let server_side = [
        "apply",
        "--server-side",
        "--force-conflicts",
        "-k",
        &manifests,
    ];
    cluster.kubectl(&server_side).await?;
    assert_eq!(published(&cluster).await?, before);
    cluster.kubectl(&["replace", "-k", &manifests]).await?;
    let reset = published(&cluster).await?;
    ensure!(
        reset != before,
        "replace resets what is not in the manifests"
    );
    // Replacing also empties the Secret: the replica writes its path back.
    let after = eventually_within(
        crate::certificates::PATIENCE,
        "path and caBundle are published again",
        async || {
            let now = published(&cluster).await?;
            ensure!(now == before, "{:?}", now.keys());
            anyhow::Ok(Some(now))
        },
    )
    .await?;
    assert_eq!(all_published(&cluster).await?, after);
    written_once_more(&cluster).await?;
    webhooks_answer(&cluster.client()).await?;
    Ok(())
}

/// The fixed paths of version 0.1.0 are accepted until this installation has published its own
/// path, and never again: neither after a restart, nor where the old path is restored.
#[tokio::test]
async fn fixed_paths_end_with_the_first_publication() -> Result<()> {
    let cluster = fresh::installed().await?;
    set_paths(&cluster, unprefixed).await?;
    let warden = Warden::builder(&cluster, BINARY).serving().start().await?;
    all_published(&cluster).await?;
    let visitor = visitor(&cluster);
    let closed = async |warden: &Warden| {
        eventually("fixed paths are not accepted", async || {
            let status = answers(&visitor, warden, "/pvc-protection/claims").await?;
            ensure!(status == "404", "{status}");
            Ok(())
        })
        .await
    };
    closed(&warden).await?;
    webhooks_answer(&cluster.client()).await?;
    warden.stop().await?;
    set_paths(&cluster, unprefixed).await?;
    let restarted = Warden::builder(&cluster, BINARY)
        .name("restarted")
        .serving()
        .start()
        .await?;
    // A ready process has read everything once.
    assert_eq!(
        answers(&visitor, &restarted, "/pvc-protection/claims").await?,
        "404"
    );
    all_published(&cluster).await?;
    webhooks_answer(&cluster.client()).await?;
    Ok(())
}

/// With the failurePolicy Fail, the message of a failed call shows the path to a user.
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
    // A ready process has read the configurations once.
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
