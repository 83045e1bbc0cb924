//! Connections from the API server to webhooks.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use serde_json::json;
use volume_warden_controlplane::eventually;

use crate::{config_map, shared};

#[tokio::test]
async fn webhooks_are_reached_by_their_service() -> Result<()> {
    let cluster = shared().await?;
    let hook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "smoke"},
        "webhooks": [{
            "name": "smoke.volume-warden.dev",
            "clientConfig": {"service": {"namespace": "default", "name": "hook"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
            "objectSelector": {"matchLabels": {"test": "hooked"}},
            "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 2,
        }],
    });
    cluster
        .kubectl(&["create", "service", "clusterip", "hook", "--tcp=443"])
        .await?;
    cluster
        .kubectl_with_stdin(&["apply", "-f", "-"], &hook.to_string())
        .await?;
    let [refuses, accepts] = [listener()?, listener()?];
    let ports = vec![refuses.local_addr()?.port(), accepts.local_addr()?.port()];
    drop(refuses);
    accepts.set_nonblocking(true)?;
    let before = cluster.webhooks().connections();
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    // First no process listens for the Service, and then one that accepts and sends nothing.
    let post = async || {
        maps.create(
            &PostParams {
                dry_run: true,
                ..Default::default()
            },
            &config_map("hooked")?,
        )
        .await
        .map_err(anyhow::Error::from)
    };
    eventually("the webhook is active and no process answers", async || {
        let error = post()
            .await
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        ensure!(
            error.contains("no process answers for hook.default.svc"),
            "{error}"
        );
        Ok(())
    })
    .await?;
    cluster.webhooks().serve("hook.default.svc", ports);
    eventually(
        "the API server connects to the listening backend",
        async || {
            let error = post().await.err();
            let error = error.context("no process answered, and the request succeeded")?;
            accepts.accept().map(drop).context(error)
        },
    )
    .await?;
    assert!(cluster.webhooks().connections() > before + 1);
    Ok(())
}

fn listener() -> Result<TcpListener> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?)
}
