//! Pods whose annotations or claim names attack Volume Warden, its log or the readers of its
//! Events.

use super::{
    admission::posted::{post, until_reviewed},
    fault_fixture::FaultFixture,
    support::{PREFIX, PodSpace, TEMPLATE, annotations, mount, requesting_pod},
};
use crate::support::guarded;
use anyhow::{Result, bail, ensure};
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
    let volumes = largest_accepted(&pod_space).await?;
    // On a busy machine, the time limit of the API server for a request may end.
    let response = eventually("the API server answers in time", async || {
        let reviewed = until_reviewed(&pod_space, async |name| {
            post(&pod_space.space, &large_pod(name, volumes)?, "").await
        });
        let response = reviewed.await?;
        anyhow::Ok(Some(response).filter(|response| response.code != 504))
    })
    .await?;
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

/// A pod with 4000 invalid annotations and this many volumes, which requests the claim of its name.
fn large_pod(name: &str, volumes: usize) -> Result<Pod> {
    let invalid = (0..4000).map(|n| (format!("{PREFIX}v{n}.enabled"), json!("perhaps")));
    let invalid: Map<String, Value> = invalid.collect();
    let volumes = (0..volumes).map(|n| mount(&format!("v{n}"), name));
    let volumes: Vec<_> = [mount("data", name)].into_iter().chain(volumes).collect();
    let changes = json!({"metadata": {"annotations": invalid}, "spec": {"volumes": volumes}});
    requesting_pod(name, name, changes)
}

/// The number of volumes of the largest [`large_pod`] that the API server accepts, 1000 too small
/// at most.
async fn largest_accepted(pod_space: &PodSpace) -> Result<usize> {
    let mut created = 0;
    let (mut accepted, mut refused) = (1000_usize, 50_000_usize);
    while refused - accepted > 1000 {
        let volumes = accepted.midpoint(refused);
        let is_accepted = eventually("the API server answers in time", async || {
            created += 1;
            is_accepted(pod_space, &format!("measured-{created}"), volumes).await
        });
        if is_accepted.await? {
            accepted = volumes;
        } else {
            refused = volumes;
        }
    }
    Ok(accepted)
}

/// Whether the API server accepts a pod as large as the [`large_pod`] with this many volumes.
/// `None` if its time limit for a request ended. The annotations have another prefix, so that no
/// webhook reviews the pod: a slow machine does not review many pods of this size in time.
async fn is_accepted(pod_space: &PodSpace, name: &str, volumes: usize) -> Result<Option<bool>> {
    let other_prefix = "x".repeat(PREFIX.len() - 1) + "/";
    let pod = serde_json::to_string(&large_pod(name, volumes)?)?;
    let pod: Pod = serde_json::from_str(&pod.replace(PREFIX, &other_prefix))?;
    let response = post(&pod_space.space, &pod, "").await?;
    let too_large = ["too large", "larger than max"];
    match response.code {
        201 => Ok(Some(true)),
        504 => Ok(None),
        _ if too_large.iter().any(|part| response.body.contains(part)) => Ok(Some(false)),
        _ => bail!("{response:?}"),
    }
}
