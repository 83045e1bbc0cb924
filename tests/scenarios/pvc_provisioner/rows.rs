//! A table of pods that request claims, with one pod for each row: DP-03..DP-12. Each valid claim
//! is created, and each error has exactly one Event.

use super::fault_fixture::FaultFixture;
use super::support::{PREFIX, TEMPLATE, annotations, mount};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use volume_warden_controlplane::eventually;

/// The reason of an Event and a part of its message.
type ExpectedEvent = (&'static str, String);

/// A pod, and the expected claims and Events.
struct Row {
    /// The id of the test case.
    case: &'static str,
    /// Changes to the pod of `requesting_pod`.
    changes: Value,
    /// The volumes whose claims are created.
    created: &'static [&'static str],
    /// The expected Events, except those of the created claims.
    events: Vec<ExpectedEvent>,
}

fn row(
    case: &'static str,
    changes: Value,
    created: &'static [&'static str],
    events: &[ExpectedEvent],
) -> Row {
    let events = events.to_vec();
    Row {
        case,
        changes,
        created,
        events,
    }
}

/// Changes that set the annotation `data.enabled` to this value.
fn enabled(value: &str) -> Value {
    annotations(&[("data.enabled", Some(value))])
}

/// Changes that set the template of the volume `data`.
fn template(text: &str) -> Value {
    annotations(&[("data.pvc", Some(text))])
}

fn event(reason: &'static str, part: impl Into<String>) -> ExpectedEvent {
    (reason, part.into())
}

const DATA: &[&str] = &["data"];
const OTHER: &[&str] = &["other"];

fn rows() -> Vec<Row> {
    let one = |reason, part: &str| vec![event(reason, part)];
    let mut rows = vec![
        row("DP-03", enabled("false"), &[], &[]),
        row(
            "DP-05",
            enabled("yes"),
            &[],
            &one("ErrInvalidAnnotation", "data.enabled\" is \"yes\""),
        ),
        row("DP-06", annotations(&[("data.enabled", None)]), &[], &[]),
        row(
            "DP-07",
            annotations(&[("data.pvc", None)]),
            OTHER,
            &[event("ErrMissingPVC", format!("{PREFIX}data.pvc"))],
        ),
        row(
            "DP-08",
            annotations(&[("foo.enabled", Some("true")), ("foo.pvc", Some(TEMPLATE))]),
            DATA,
            &one("ErrMissingVolume", "\"foo\""),
        ),
        row(
            "DP-09",
            volume(json!({"emptyDir": {}})),
            &[],
            &one("ErrInvalidPVC", "\"data\""),
        ),
        row(
            "DP-09",
            volume(ephemeral()),
            &[],
            &one("ErrInvalidPVC", "\"data\""),
        ),
        row(
            "DP-10",
            template("spec:\n  a: [1\nb: }"),
            OTHER,
            &one("ErrInvalidPVC", "line 3, column 2"),
        ),
        row(
            "DP-11",
            template("apiVersion: v1\nkind: ConfigMap"),
            &[],
            &one("ErrInvalidPVC", "not \"ConfigMap\""),
        ),
        row(
            "DP-11",
            template("apiVersion: v1\nspec: {}"),
            &[],
            &one("ErrInvalidPVC", "kind is missing"),
        ),
        row(
            "DP-11",
            template("apiVersion: v1\nkind: List\nitems: []"),
            &[],
            &one("ErrInvalidPVC", "not \"List\""),
        ),
        row(
            "DP-12",
            template(&format!("{TEMPLATE}---\n{TEMPLATE}")),
            &[],
            &one("ErrInvalidPVC", "document"),
        ),
        // A misspelt key.
        row(
            "1.13",
            annotations(&[("data.enable", Some("true"))]),
            DATA,
            &one("ErrInvalidAnnotation", "data.enable\" is unknown"),
        ),
    ];
    for value in ["1", "t", "T", "TRUE", "True"] {
        rows.push(row("DP-04", enabled(value), DATA, &[]));
    }
    rows
}

/// Changes that replace the volumes of the pod with a volume `data` of this source.
fn volume(source: Value) -> Value {
    let mut volume = json!({"name": "data"});
    json_patch::merge(&mut volume, &source);
    json!({"spec": {"volumes": [volume]}})
}

/// The source of a generic ephemeral volume. Kubernetes, not Volume Warden, creates its claim. The
/// volume is never provisioned, because the pod is not scheduled.
fn ephemeral() -> Value {
    let spec = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "absent", "resources": {"requests": {"storage": "1Gi"}}});
    json!({"ephemeral": {"volumeClaimTemplate": {"spec": spec}}})
}

impl Row {
    /// The changes of the row. If a claim for the volume `other` is expected, also adds that volume
    /// and its request.
    fn pod(&self, name: &str) -> Value {
        let mut changes = self.changes.clone();
        if self.created.contains(&"other") {
            let more = annotations(&[
                ("other.enabled", Some("true")),
                ("other.pvc", Some(TEMPLATE)),
            ]);
            json_patch::merge(&mut changes, &more);
            let volumes = [
                mount("data", &claim(name, "data")),
                mount("other", &claim(name, "other")),
            ];
            changes["spec"] = json!({"volumes": volumes});
        }
        changes
    }

    /// Fails unless the pod has exactly the expected Events.
    fn has_expected_events(&self, events: &[(String, String)]) -> Result<()> {
        let mut expected = self.events.clone();
        expected.extend(
            self.created
                .iter()
                .map(|volume| event("PVCProvisioned", format!("\"{volume}\""))),
        );
        expected.sort();
        ensure!(
            events.len() == expected.len(),
            "{events:?} instead of {expected:?}"
        );
        for ((reason, message), (wanted, part)) in events.iter().zip(&expected) {
            ensure!(
                reason == wanted && message.contains(part),
                "{events:?} instead of {expected:?}"
            );
            ensure!(message.len() < 250, "the message is too long: {message}");
        }
        Ok(())
    }
}

/// The name of the claim of the volume.
fn claim(pod: &str, volume: &str) -> String {
    format!("{pod}-{volume}")
}

#[tokio::test]
async fn every_pod_gets_valid_claims_and_events_for_errors() -> Result<()> {
    let fixture = FaultFixture::new("rows").await?;
    let pod_space = &fixture.pod_space;
    let _warden = fixture.start().await?;
    let (rows, mut expected) = (rows(), BTreeSet::new());
    for (index, row) in rows.iter().enumerate() {
        let pod = format!("row{index}");
        expected.extend(row.created.iter().map(|volume| claim(&pod, volume)));
        pod_space
            .request_claim(&pod, &claim(&pod, "data"), row.pod(&pod))
            .await?;
    }
    pod_space.wait_until_processed().await?;
    for (index, row) in rows.iter().enumerate() {
        let pod = format!("row{index}");
        let check = eventually("the pod has all Events", async || {
            row.has_expected_events(&pod_space.pod_events(&pod).await?)
        });
        check
            .await
            .with_context(|| format!("{} {}", row.case, row.changes))?;
    }
    // Kubernetes may have created the claim of the ephemeral volume, which is ignored.
    let mut created = BTreeSet::from_iter(pod_space.claim_names().await?);
    created.retain(|claim| expected.contains(claim) || !is_ephemeral(claim, &rows));
    assert_eq!(created, expected);
    // Volume Warden sends no POST of another claim, except for the claim of the canary.
    assert_eq!(fixture.posts(), expected.len() + 1);
    Ok(())
}

/// Whether the name is that of a claim of an ephemeral volume in `rows`.
fn is_ephemeral(claim: &str, rows: &[Row]) -> bool {
    let mut ephemeral = rows
        .iter()
        .enumerate()
        .filter(|(_, row)| row.changes.to_string().contains("ephemeral"));
    ephemeral.any(|(index, _)| claim == format!("row{index}-data"))
}
