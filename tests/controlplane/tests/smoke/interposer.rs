//! The server between a client and the API server.

use std::time::Duration;

use anyhow::{Context, Result};
use futures::{AsyncBufReadExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::time::timeout;
use volume_warden_controlplane::{Cluster, Interposer, Rule, eventually};

use crate::{config_map, shared};

async fn client_of(interposer: &Interposer) -> Result<kube::Client> {
    let file = Kubeconfig::read_from(interposer.kubeconfig())?;
    let mut config =
        kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    Ok(kube::Client::try_from(config)?)
}

/// An interposer with the credentials of a service account that has all permissions.
async fn interposer(cluster: &Cluster, account: &str) -> Result<Interposer> {
    cluster
        .kubectl(&["create", "serviceaccount", account])
        .await?;
    let subject = format!("--serviceaccount=default:{account}");
    cluster
        .kubectl(&[
            "create",
            "clusterrolebinding",
            account,
            "--clusterrole=cluster-admin",
            &subject,
        ])
        .await?;
    let user = format!("--as=system:serviceaccount:default:{account}");
    eventually("the API server applies the role", async || {
        cluster
            .kubectl(&["auth", "can-i", "*", "*", &user])
            .await
            .map(drop)
    })
    .await?;
    let kubeconfig = cluster
        .service_account_kubeconfig("default", account, None)
        .await?;
    Interposer::start(cluster, kubeconfig)
}

#[tokio::test]
async fn the_interposer_applies_its_rules() -> Result<()> {
    let cluster = shared().await?;
    let interposer = interposer(cluster, "interposed").await?;
    let maps: Api<ConfigMap> = Api::default_namespaced(client_of(&interposer).await?);

    let refused = interposer.add(
        Rule::on("POST")
            .path_contains("/configmaps")
            .times(1)
            .respond(409, "Conflict", "simulated conflict"),
    );
    let error = maps
        .create(&PostParams::default(), &config_map("refused")?)
        .await
        .err()
        .context("the ConfigMap was created")?;
    assert!(
        matches!(&error, kube::Error::Api(status) if status.code == 409 && status.reason == "Conflict"),
        "{error}"
    );
    maps.create(&PostParams::default(), &config_map("refused")?)
        .await?;
    assert_eq!(refused.taken(), 1);

    let cut = interposer.add(Rule::on("GET").path_contains("/configmaps/refused").cut());
    let error = maps
        .get("refused")
        .await
        .err()
        .context("the request was answered")?;
    assert!(!matches!(error, kube::Error::Api(_)), "{error}");
    drop(cut);
    maps.get("refused").await?;

    for rule in [
        Rule::on("GET").path_contains("/configmaps/").hold(),
        Rule::on("GET")
            .path_contains("/configmaps/")
            .hold_response(),
    ] {
        let held = interposer.add(rule);
        let get = maps.get("refused");
        tokio::pin!(get);
        let waited = tokio::select! {
            answer = &mut get => answer.map(|_| false)?,
            reached = held.held(1) => reached.map(|()| true)?,
        };
        assert!(waited);
        held.release();
        get.await?;
    }
    let postponed = interposer.add(Rule::on("POST").path_contains("/configmaps").postpone());
    let late = config_map("postponed")?;
    let post = PostParams::default();
    tokio::select! {
        _ = maps.create(&post, &late) => anyhow::bail!("the request was not held"),
        held = postponed.held(1) => held?,
    }
    // The client has disconnected.
    drop(postponed);
    eventually(
        "the request is forwarded although its client has disconnected",
        async || maps.get_opt("postponed").await,
    )
    .await?;
    maps.get("refused").await?;
    let last = interposer.requests().pop().context("no requests")?;
    assert_eq!(
        (last.method.as_str(), last.path.as_str()),
        ("GET", "/api/v1/namespaces/default/configmaps/refused")
    );
    Ok(())
}

#[tokio::test]
async fn the_interposer_freezes_and_cuts_an_open_watch() -> Result<()> {
    let cluster = shared().await?;
    let interposer = interposer(cluster, "watcher").await?;
    let maps: Api<ConfigMap> = Api::default_namespaced(client_of(&interposer).await?);
    let direct: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let params = WatchParams::default()
        .labels("test in (first,second)")
        .disable_bookmarks();
    let mut watch = Box::pin(maps.watch(&params, "0").await?);

    direct
        .create(&PostParams::default(), &config_map("first")?)
        .await?;
    let event = timeout(Duration::from_secs(20), watch.try_next()).await??;
    assert!(
        matches!(&event, Some(WatchEvent::Added(map)) if map.metadata.name.as_deref() == Some("first")),
        "{event:?}"
    );

    let watches = || {
        Rule::on("GET")
            .path_contains("/configmaps")
            .query_contains("watch=true")
    };
    let frozen = interposer.add(watches().freeze_stream());
    frozen.held(1).await?;
    direct
        .create(&PostParams::default(), &config_map("second")?)
        .await?;
    assert!(
        timeout(Duration::from_millis(500), watch.try_next())
            .await
            .is_err(),
        "a frozen stream delivered an event"
    );
    frozen.release();
    let event = timeout(Duration::from_secs(20), watch.try_next()).await??;
    assert!(matches!(event, Some(WatchEvent::Added(_))), "{event:?}");

    let _cut = interposer.add(watches().cut());
    let end = timeout(Duration::from_secs(20), watch.try_next()).await?;
    assert!(!matches!(end, Ok(Some(_))), "{end:?}");
    Ok(())
}

#[tokio::test]
async fn dropping_a_watch_drops_it_upstream() -> Result<()> {
    let cluster = shared().await?;
    let interposer = interposer(cluster, "dropper").await?;
    let client = client_of(&interposer).await?;
    let mark = cluster.audit().mark()?;
    let request = axum::http::Request::get("/api/v1/configmaps?watch=true")
        .header("user-agent", "dropper/1")
        .body(vec![])?;
    let mut lines = Box::pin(client.request_stream(request).await?).lines();
    timeout(Duration::from_secs(20), lines.try_next())
        .await??
        .context("the watch is empty")?;
    drop(lines);
    // The API server logs a watch when it ends, which would otherwise take minutes.
    eventually("the API server has logged the watch", async || {
        let calls = cluster.audit().since(mark)?.by_user_agent("dropper/1");
        anyhow::Ok(
            calls
                .iter()
                .any(|call| call.verb == "watch" && call.resource == "configmaps"),
        )
    })
    .await
}
