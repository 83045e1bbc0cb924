//! What pods may ask for, one pod for each row: DP-03..DP-12. Each is told what is wrong, once, and what is right is made.

use super::patient::Patient;
use super::support::{PREFIX, TEMPLATE, annotations, mount};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use volume_warden_controlplane::eventually;

/// The reason and a part of the message.
type Told = (&'static str, String);

struct Row {
    case: &'static str,
    changes: Value,
    /// Volumes whose claims are made.
    made: &'static [&'static str],
    told: Vec<Told>,
}

fn row(case: &'static str, changes: Value, made: &'static [&'static str], told: &[Told]) -> Row {
    let told = told.to_vec();
    Row {
        case,
        changes,
        made,
        told,
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

fn told(reason: &'static str, part: impl Into<String>) -> Told {
    (reason, part.into())
}

const DATA: &[&str] = &["data"];
const OTHER: &[&str] = &["other"];

fn rows() -> Vec<Row> {
    let one = |reason, part: &str| vec![told(reason, part)];
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
            &[told("ErrMissingPVC", format!("{PREFIX}data.pvc"))],
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

/// Of a class that Kubernetes' own ephemeral volumes never get: nobody schedules the pod, and its claim is not ours to make.
fn ephemeral() -> Value {
    let spec = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "nobody", "resources": {"requests": {"storage": "1Gi"}}});
    json!({"ephemeral": {"volumeClaimTemplate": {"spec": spec}}})
}

impl Row {
    /// Where another volume of the pod is asked for too, the pod has it.
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

    fn fits(&self, said: &[(String, String)]) -> Result<()> {
        let mut expected = self.told.clone();
        expected.extend(
            self.made
                .iter()
                .map(|volume| told("PVCProvisioned", format!("\"{volume}\""))),
        );
        expected.sort();
        ensure!(
            said.len() == expected.len(),
            "{said:?} instead of {expected:?}"
        );
        for ((reason, message), (wanted, part)) in said.iter().zip(&expected) {
            ensure!(
                reason == wanted && message.contains(part),
                "{said:?} instead of {expected:?}"
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
async fn every_pod_gets_what_it_asks_for_and_is_told_what_is_wrong() -> Result<()> {
    let patient = Patient::new("rows").await?;
    let askers = &patient.askers;
    let _warden = patient.start().await?;
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
        let check = eventually("it is told all of it", async || {
            row.fits(&askers.told(&pod).await?)
        });
        check
            .await
            .with_context(|| format!("{} {}", row.case, row.changes))?;
    }
    // Kubernetes makes the ephemeral volume's.
    let mut made = BTreeSet::from_iter(askers.claims().await?);
    made.retain(|claim| expected.contains(claim) || !is_ephemeral(claim, &rows));
    assert_eq!(made, expected);
    // Nothing is tried that cannot be done: beside these, one for the canary.
    assert_eq!(patient.posts(), expected.len() + 1);
    Ok(())
}

fn is_ephemeral(claim: &str, rows: &[Row]) -> bool {
    let mut ephemeral = rows
        .iter()
        .enumerate()
        .filter(|(_, row)| row.changes.to_string().contains("ephemeral"));
    ephemeral.any(|(index, _)| claim == format!("row{index}-data"))
}
