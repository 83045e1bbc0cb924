//! Pods whose annotations or claim names attack Volume Warden, its log or the readers of its
//! Events.

use super::{
    admission::posted::{post, until_reviewed},
    fault_fixture::FaultFixture,
    support::{PREFIX, PodSpace, TEMPLATE, annotations, mount, requesting_pod},
};
use crate::support::guarded;
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::{Map, Value, json};
use volume_warden_controlplane::eventually;

/// Text that clears a terminal, reverses the text after it, and adds a line that looks like a log
/// line of Volume Warden.
const FORGED_KIND: &str = "Pod\u{1b}[2J\u{202e}\nWARN forged: run kubectl delete pvc --all";

/// Volume Warden escapes control characters in the text of a template before it writes the text to
/// Events and to its log.
#[tokio::test]
async fn the_text_of_a_template_is_escaped() -> Result<()> {
    let fixture = FaultFixture::new("forged").await?;
    let pod_space = &fixture.pod_space;
    let warden = fixture.start().await?;
    let template = json!({"apiVersion": "v1", "kind": FORGED_KIND}).to_string();
    let template = annotations(&[("data.pvc", Some(&template))]);
    pod_space.request_claim("pod", "data", template).await?;
    let message = pod_space
        .has_event("pod", "ErrInvalidPVC", "WARN forged")
        .await?;
    ensure!(
        !message.contains(['\n', '\u{1b}', '\u{202e}']),
        "{message:?}"
    );
    let log = || warden.process().log();
    eventually("the log contains the text", async || {
        log().contains("WARN forged")
    })
    .await?;
    let log = log();
    ensure!(!log.contains("\nWARN forged"), "{log}");
    ensure!(
        !log.contains("\u{1b}[2J") && !log.contains('\u{202e}'),
        "{log}"
    );
    Ok(())
}

/// The API server checks only that the name of a claim in a pod is not empty. In the path of a
/// request, an invalid name could be a query or another resource: Volume Warden reports such a name
/// in an Event, and sends no request with it.
#[tokio::test]
async fn an_invalid_claim_name_is_reported_and_never_sent() -> Result<()> {
    let fixture = FaultFixture::new("impossible").await?;
    let pod_space = &fixture.pod_space;
    let names = [
        ("long", "-".repeat(50_000)),
        ("query", "?watch=1".to_owned()),
        ("path", "other/status".to_owned()),
    ];
    for (pod, claim) in &names {
        pod_space.request_claim(pod, claim, json!({})).await?;
    }
    let warden = fixture.start().await?;
    for (pod, _) in &names {
        pod_space
            .has_event(pod, "ErrInvalidPVC", "not a valid name")
            .await?;
    }
    pod_space.wait_until_processed().await?;
    for seen in fixture.interposer.requests() {
        let uri = format!("{}?{}", seen.path, seen.query);
        let path = uri.strip_prefix(&format!("/api/v1/namespaces/{}/", pod_space.space.name));
        let is_claim = path.is_some_and(|path| path.starts_with("persistentvolumeclaims/"));
        ensure!(
            !is_claim || uri.contains("/canary"),
            "{} {uri:.200}",
            seen.method
        );
    }
    ensure!(pod_space.claim_names().await?.is_empty());
    warden.stop().await?;
    Ok(())
}

/// A pod that requests 33 claims gets none of them; a pod that requests 32 claims gets all.
#[tokio::test]
async fn a_pod_requests_at_most_32_claims() -> Result<()> {
    let fixture = FaultFixture::new("greedy").await?;
    let pod_space = &fixture.pod_space;
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
        pod_space.request_claim(pod, "none", changes).await?;
    }
    pod_space
        .has_event("greedy", "ErrTooManyClaims", "32")
        .await?;
    pod_space.wait_until_processed().await?;
    // Some creations may still be in progress when the claim of the canary exists.
    eventually("32 claims exist", async || {
        let created = pod_space.claim_names().await?;
        let count = |pod: &str| created.iter().filter(|name| name.starts_with(pod)).count();
        ensure!((count("greedy"), count("large")) == (0, 32), "{created:?}");
        Ok(())
    })
    .await
}

/// The API server accepts requests of 3 MiB, and etcd objects of 1.5 MiB. The largest accepted pod,
/// which has 4000 invalid annotations, gets its claim, and the response has fewer than 20 warnings.
#[tokio::test]
async fn a_pod_as_large_as_the_api_server_accepts_gets_its_claim() -> Result<()> {
    let pod_space = PodSpace::new(guarded().await?, "huge").await?;
    let invalid = (0..4000).map(|n| (format!("{PREFIX}v{n}.enabled"), json!("perhaps")));
    let invalid: Map<String, Value> = invalid.collect();
    let mut accepted = None;
    for volumes in (1000..50_000).rev().step_by(2000) {
        // On a busy machine, the time limit of the API server for a request may end.
        let response = eventually("the API server answers in time", async || {
            let created = until_reviewed(&pod_space, async |name| {
                let volumes = (0..volumes).map(|n| mount(&format!("v{n}"), name));
                let volumes: Vec<_> = [mount("data", name)].into_iter().chain(volumes).collect();
                let mut pod = json!({"metadata": {"annotations": invalid}});
                pod["spec"]["volumes"] = json!(volumes);
                post(&pod_space.space, &requesting_pod(name, name, pod)?, "").await
            });
            let response = created.await?;
            anyhow::Ok(Some(response).filter(|response| response.code != 504))
        })
        .await?;
        if response.code == 201 {
            accepted = Some(response);
            break;
        }
        let too_large = ["too large", "larger than max"];
        ensure!(
            too_large.iter().any(|part| response.body.contains(part)),
            "{response:?}"
        );
    }
    let response = accepted.context("no pod was accepted")?;
    ensure!(
        response.has_warning("neither true nor false"),
        "{:?}",
        response.warnings
    );
    ensure!(response.warnings.len() < 20, "{:?}", response.warnings);
    let pod: Pod = response.object()?;
    let name = pod.name_any();
    pod_space.belongs(&name, &pod).await?;
    pod_space
        .has_event(&name, "ErrInvalidAnnotation", "3992 more annotations")
        .await?;
    Ok(())
}
