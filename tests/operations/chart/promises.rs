//! Promises of the documentation about the objects that are installed.

use super::{
    settings::{find, rendered},
    template_with,
};
use crate::support::repository;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The policy for the service account permits the fields that templates may set, and no others.
#[tokio::test]
async fn the_policy_permits_the_fields_of_templates() -> Result<()> {
    const BOUND: &str = "with spec.volumeName or annotations under pv.kubernetes.io/";
    const COPY: &str = "with spec.dataSource or spec.dataSourceRef";
    const HELD: &str = "with finalizers other than kubernetes.io/pvc-protection";
    const SELECTOR: &str = "with spec.selector";
    let forbidden = async |fields: &[&str]| -> Result<Vec<&'static str>> {
        let values = json!({"pvcProvisioner": {"templateFields": fields}});
        let objects = rendered(&values).await?;
        let name = "volume-warden-restrict-claims";
        let mut policies = objects
            .iter()
            .filter(|object| object["metadata"]["name"] == name);
        let policy = policies.next().context("no policy")?;
        let validations = policy["spec"]["validations"].to_string();
        let messages = [BOUND, COPY, HELD, SELECTOR].into_iter();
        Ok(messages
            .filter(|message| validations.contains(message))
            .collect())
    };
    assert_eq!(forbidden(&[]).await?, [BOUND, COPY, HELD, SELECTOR]);
    for (field, message) in [
        ("annotations", BOUND),
        ("volumeName", BOUND),
        ("dataSource", COPY),
        ("dataSourceRef", COPY),
        ("finalizers", HELD),
        ("selector", SELECTOR),
    ] {
        let left = forbidden(&[field]).await?;
        assert!(left.len() == 3 && !left.contains(&message), "{field}");
    }
    Ok(())
}

/// TCP 443 and 6443 for the API server, DNS, and the port of the storage backend if there is one.
#[tokio::test]
async fn egress_is_limited_to_these_ports() -> Result<()> {
    let storageos = json!({"namespaceGc": {"storageBackend": "storageos"}});
    for (values, more) in [(json!({}), None), (storageos, Some("5705/TCP"))] {
        let policy = find(&rendered(&values).await?, "NetworkPolicy");
        let rules = policy["spec"]["egress"].as_array().context("no egress")?;
        let ports = rules.iter().flat_map(|rule| rule["ports"].as_array());
        let ports = ports.flatten();
        let found: BTreeSet<_> = ports
            .map(|port| format!("{}/{}", port["port"], port["protocol"]).replace('"', ""))
            .collect();
        let expected = ["443/TCP", "6443/TCP", "53/UDP", "53/TCP"].into_iter();
        let expected: BTreeSet<_> = expected.chain(more).map(str::to_owned).collect();
        assert_eq!(found, expected);
        let any = |rule: &Value| rule["ports"].as_array().is_none_or(Vec::is_empty);
        ensure!(!rules.iter().any(any), "{rules:?}");
    }
    Ok(())
}

/// The image names the user, or OpenShift assigns one: `restricted-v2` refuses a fixed one.
#[tokio::test]
async fn no_user_or_group_is_fixed() -> Result<()> {
    let chart = template_with(&json!({}), "volume-warden", &[]).await?;
    let job = "manifests/drain/base/job.yaml";
    let mut texts = vec![("chart".to_owned(), chart)];
    for path in ["manifests/install.yaml", job] {
        let text = std::fs::read_to_string(repository().join(path))?;
        texts.push((path.to_owned(), text));
    }
    for (path, text) in texts {
        ensure!(text.contains("runAsNonRoot: true"), "{path}");
        for field in [
            "runAsUser:",
            "runAsGroup:",
            "fsGroup:",
            "supplementalGroups:",
        ] {
            ensure!(!text.contains(field), "{path}: {field}");
        }
    }
    Ok(())
}
