//! Requests of pods, one pod for each row: DP-03..DP-12. Each error has one Event, and each valid
//! claim is created.

use super::fault_fixture::FaultFixture;
use super::support::{PREFIX, TEMPLATE, annotations, mount};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use volume_warden_controlplane::eventually;

/// The reason and a part of the message of an Event.
type ExpectedEvent = (&'static str, String);

struct Row {
    case: &'static str,
    changes: Value,
    /// Volumes whose claims are created.
    made: &'static [&'static str],
    events: Vec<ExpectedEvent>,
}

fn row(
    case: &'static str,
    changes: Value,
    made: &'static [&'static str],
    events: &[ExpectedEvent],
) -> Row {
    let events = events.to_vec();
    Row {
        case,
        changes,
        made,
        events,
    }
}

/// The volume `data` is enabled like this.
fn enabled(value: &str) -> Value {
    annotations(&[("data.enabled", Some(value))])
}

/// The volume `data` has this template.
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
        // A key that is misspelt.
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

fn volume(source: Value) -> Value {
    let mut volume = json!({"name": "data"});
    json_patch::merge(&mut volume, &source);
    json!({"spec": {"volumes": [volume]}})
}

/// An ephemeral volume that is never provisioned, because its pod is not scheduled. Kubernetes,
/// not Volume Warden, creates its claim.
fn ephemeral() -> Value {
    let spec = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "absent", "resources": {"requests": {"storage": "1Gi"}}});
    json!({"ephemeral": {"volumeClaimTemplate": {"spec": spec}}})
}

impl Row {
    /// Adds the pod's other volume if its claim is requested too.
    fn pod(&self, name: &str) -> Value {
        let mut changes = self.changes.clone();
        if self.made.contains(&"other") {
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

    fn fits(&self, events: &[(String, String)]) -> Result<()> {
        let mut expected = self.events.clone();
        expected.extend(
            self.made
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
            ensure!(message.len() < 250, "too long: {message}");
        }
        Ok(())
    }
}

fn claim(pod: &str, volume: &str) -> String {
    format!("{pod}-{volume}")
}

#[tokio::test]
async fn every_pod_gets_valid_claims_and_events_for_errors() -> Result<()> {
    let fixture = FaultFixture::new("rows").await?;
    let askers = &fixture.askers;
    let _warden = fixture.start().await?;
    let (rows, mut expected) = (rows(), BTreeSet::new());
    for (index, row) in rows.iter().enumerate() {
        let pod = format!("row{index}");
        expected.extend(row.made.iter().map(|volume| claim(&pod, volume)));
        askers
            .ask(&pod, &claim(&pod, "data"), row.pod(&pod))
            .await?;
    }
    askers.settled().await?;
    for (index, row) in rows.iter().enumerate() {
        let pod = format!("row{index}");
        let check = eventually("the pod has all Events", async || {
            row.fits(&askers.pod_events(&pod).await?)
        });
        check
            .await
            .with_context(|| format!("{} {}", row.case, row.changes))?;
    }
    // Kubernetes creates the claim of the ephemeral volume.
    let mut made = BTreeSet::from_iter(askers.claims().await?);
    made.retain(|claim| expected.contains(claim) || !is_ephemeral(claim, &rows));
    assert_eq!(made, expected);
    // No impossible creation is attempted: besides these, one for the canary.
    assert_eq!(fixture.posts(), expected.len() + 1);
    Ok(())
}

fn is_ephemeral(claim: &str, rows: &[Row]) -> bool {
    let mut ephemeral = rows
        .iter()
        .enumerate()
        .filter(|(_, row)| row.changes.to_string().contains("ephemeral"));
    ephemeral.any(|(index, _)| claim == format!("row{index}-data"))
}
