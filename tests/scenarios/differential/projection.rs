//! What of a scenario's objects can be compared between two clusters: neither uids nor times.

use kube::{ResourceExt, api::DynamicObject};
use std::collections::BTreeSet;

/// A line for each claim, pod and volume.
pub type Projection = BTreeSet<String>;

/// `claim data: Terminating Pending [kubernetes.io/pvc-protection] of Pod/user`, less what it has not.
pub fn line(kind: &str, name: &str, object: &DynamicObject) -> String {
    let mut line = format!("{kind} {name}:");
    if object.metadata.deletion_timestamp.is_some() {
        line += " Terminating";
    }
    if let Some(phase) = object.data["status"]["phase"].as_str() {
        line += &format!(" {phase}");
    }
    if !object.finalizers().is_empty() {
        line += &format!(" [{}]", object.finalizers().join(" "));
    }
    for owner in object.owner_references() {
        line += &format!(" of {}/{}", owner.kind, owner.name);
    }
    line
}

/// What one cluster should look like and what it does look like, for the message of a failure.
pub fn report(cluster: &str, wanted: &Projection, found: &Projection) -> String {
    let show = |projection: &Projection| -> String {
        let lines = projection.iter().map(|line| format!("\n    {line}"));
        lines.collect()
    };
    format!(
        "\n{cluster}\n  wanted:{}\n  found:{}",
        show(wanted),
        show(found)
    )
}
