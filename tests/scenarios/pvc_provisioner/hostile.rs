//! Pods of a tenant who attacks others by their annotations.

use super::{
    patient::Patient,
    support::{PREFIX, TEMPLATE, annotations, mount},
};
use anyhow::{Result, ensure};
use serde_json::{Map, Value, json};

/// Clears the screen, reverses what follows, and adds a line that seems to be from Volume Warden.
const FORGED: &str = "Pod\u{1b}[2J\u{202e}\nWARN forged: run kubectl delete pvc --all";

/// A message with control characters is not stored by the API server, or forges what its reader
/// sees.
#[tokio::test]
async fn the_text_of_a_template_is_escaped() -> Result<()> {
    let patient = Patient::new("forged").await?;
    let askers = &patient.askers;
    let warden = patient.start().await?;
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
    let log = warden.process().log();
    ensure!(log.contains("WARN forged"), "it is logged");
    ensure!(!log.contains("\nWARN forged"), "{log}");
    ensure!(
        !log.contains("\u{1b}[2J") && !log.contains('\u{202e}'),
        "{log}"
    );
    Ok(())
}

/// A pod that requests more gets none.
#[tokio::test]
async fn a_pod_requests_at_most_32_claims() -> Result<()> {
    let patient = Patient::new("greedy").await?;
    let askers = &patient.askers;
    let _warden = patient.start().await?;
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
    let created = askers.claims().await?;
    let of = |pod: &str| created.iter().filter(|name| name.starts_with(pod)).count();
    assert_eq!((of("greedy"), of("large")), (0, 32), "{created:?}");
    Ok(())
}
