//! Pods of a tenant who attacks others by their annotations.

use super::{
    admission::posted::{post, reviewed},
    fault_fixture::FaultFixture,
    support::{Askers, PREFIX, TEMPLATE, annotations, asking, mount},
};
use crate::support::guarded;
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::{Map, Value, json};
use volume_warden_controlplane::eventually;

/// Clears the screen, reverses what follows, and adds a line that seems to be from Volume Warden.
const FORGED: &str = "Pod\u{1b}[2J\u{202e}\nWARN forged: run kubectl delete pvc --all";

/// A message with control characters is not stored by the API server, or forges what its reader
/// sees.
#[tokio::test]
async fn the_text_of_a_template_is_escaped() -> Result<()> {
    let fixture = FaultFixture::new("forged").await?;
    let askers = &fixture.askers;
    let warden = fixture.start().await?;
    let template = json!({"apiVersion": "v1", "kind": FORGED}).to_string();
    let template = annotations(&[("data.pvc", Some(&template))]);
    askers.ask("pod", "data", template).await?;
    let message = askers
        .has_event("pod", "ErrInvalidPVC", "WARN forged")
        .await?;
    ensure!(
        !message.contains(['\n', '\u{1b}', '\u{202e}']),
        "{message:?}"
    );
    let log = || warden.process().log();
    eventually("it is logged", async || log().contains("WARN forged")).await?;
    let log = log();
    ensure!(!log.contains("\nWARN forged"), "{log}");
    ensure!(
        !log.contains("\u{1b}[2J") && !log.contains('\u{202e}'),
        "{log}"
    );
    Ok(())
}

/// The API server checks only that the name of a claim in a pod is not empty. In the path of a
/// request, such a name could be a query or another resource.
#[tokio::test]
async fn a_name_that_no_claim_can_have_is_reported_and_never_sent() -> Result<()> {
    let fixture = FaultFixture::new("impossible").await?;
    let askers = &fixture.askers;
    let names = [
        ("long", "-".repeat(50_000)),
        ("query", "?watch=1".to_owned()),
        ("path", "other/status".to_owned()),
    ];
    for (pod, claim) in &names {
        askers.ask(pod, claim, json!({})).await?;
    }
    let warden = fixture.start().await?;
    for (pod, _) in &names {
        askers
            .has_event(pod, "ErrInvalidPVC", "not a valid name")
            .await?;
    }
    askers.settled().await?;
    for seen in fixture.interposer.requests() {
        let uri = format!("{}?{}", seen.path, seen.query);
        let path = uri.strip_prefix(&format!("/api/v1/namespaces/{}/", askers.space.name));
        let other = path.is_some_and(|path| path.starts_with("persistentvolumeclaims/"));
        ensure!(
            !other || uri.contains("/canary"),
            "{} {uri:.200}",
            seen.method
        );
    }
    ensure!(askers.claims().await?.is_empty());
    warden.stop().await?;
    Ok(())
}

/// A pod that requests more gets none.
#[tokio::test]
async fn a_pod_requests_at_most_32_claims() -> Result<()> {
    let fixture = FaultFixture::new("greedy").await?;
    let askers = &fixture.askers;
    let _warden = fixture.start().await?;
    for (pod, claims) in [("greedy", 33), ("large", 32)] {
        let volumes: Vec<_> = (0..claims)
            .map(|n| mount(&format!("v{n}"), &format!("{pod}-{n}")))
            .collect();
        let pairs = (0..claims).flat_map(|n| {
            let key = |what: &str| format!("{PREFIX}v{n}.{what}");
            [
                (key("enabled"), json!("true")),
                (key("pvc"), json!(TEMPLATE)),
            ]
        });
        let pairs: Map<String, Value> = pairs.collect();
        let changes = json!({"metadata": {"annotations": pairs}, "spec": {"volumes": volumes}});
        askers.ask(pod, "none", changes).await?;
    }
    askers.has_event("greedy", "ErrTooManyClaims", "32").await?;
    askers.settled().await?;
    // As many creations may still be under way as the lane of the canary has permits.
    eventually("32 claims exist", async || {
        let created = askers.claims().await?;
        let of = |pod: &str| created.iter().filter(|name| name.starts_with(pod)).count();
        ensure!((of("greedy"), of("large")) == (0, 32), "{created:?}");
        Ok(())
    })
    .await
}

/// The API server accepts requests of 3 MiB, and etcd objects of 1.5 MiB. The pod gets its claim, and
/// its author a few of the warnings.
#[tokio::test]
async fn a_pod_as_large_as_the_api_server_accepts_gets_its_claim() -> Result<()> {
    let askers = Askers::new(guarded().await?, "huge").await?;
    let invalid = (0..4000).map(|n| (format!("{PREFIX}v{n}.enabled"), json!("perhaps")));
    let invalid: Map<String, Value> = invalid.collect();
    let mut accepted = None;
    for volumes in (1000..50_000).rev().step_by(2000) {
        let posted = reviewed(&askers, async |name| {
            let volumes = (0..volumes).map(|n| mount(&format!("v{n}"), name));
            let volumes: Vec<_> = [mount("data", name)].into_iter().chain(volumes).collect();
            let mut pod = json!({"metadata": {"annotations": invalid}});
            pod["spec"]["volumes"] = json!(volumes);
            post(&askers.space, &asking(name, name, pod)?, "").await
        });
        let posted = posted.await?;
        if posted.code == 201 {
            accepted = Some(posted);
            break;
        }
        let too_large = ["too large", "larger than max"];
        ensure!(
            too_large.iter().any(|part| posted.body.contains(part)),
            "{posted:?}"
        );
    }
    let posted = accepted.context("no pod was accepted")?;
    ensure!(
        posted.says("neither true nor false"),
        "{:?}",
        posted.warnings
    );
    ensure!(posted.warnings.len() < 20, "{:?}", posted.warnings);
    let pod: Pod = posted.object()?;
    let name = pod.name_any();
    askers.belongs(&name, &pod).await?;
    askers
        .has_event(&name, "ErrInvalidAnnotation", "3992 more annotations")
        .await?;
    Ok(())
}
