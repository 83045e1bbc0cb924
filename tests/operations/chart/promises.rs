//! Statements of the documentation about the installed objects.

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
    const DATA_SOURCE: &str = "with spec.dataSource or spec.dataSourceRef";
    const FINALIZERS: &str = "with finalizers other than kubernetes.io/pvc-protection";
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
        let messages = [BOUND, DATA_SOURCE, FINALIZERS, SELECTOR].into_iter();
        Ok(messages
            .filter(|message| validations.contains(message))
            .collect())
    };
    assert_eq!(
        forbidden(&[]).await?,
        [BOUND, DATA_SOURCE, FINALIZERS, SELECTOR]
    );
    for (field, message) in [
        ("annotations", BOUND),
        ("volumeName", BOUND),
        ("dataSource", DATA_SOURCE),
        ("dataSourceRef", DATA_SOURCE),
        ("finalizers", FINALIZERS),
        ("selector", SELECTOR),
    ] {
        let still_forbidden = forbidden(&[field]).await?;
        let permitted = !still_forbidden.contains(&message);
        assert!(still_forbidden.len() == 3 && permitted, "{field}");
    }
    Ok(())
}

/// The NetworkPolicy permits egress to TCP 443 and 6443 for the API server, to 53 and 5353 for DNS,
/// and to the port of the storage backend if there is one. The DNS pods of OpenShift use 5353.
#[tokio::test]
async fn egress_is_limited_to_these_ports() -> Result<()> {
    let storageos = json!({"namespaceGc": {"storageBackend": "storageos"}});
    for (values, backend) in [(json!({}), None), (storageos, Some("5705/TCP"))] {
        let policy = find(&rendered(&values).await?, "NetworkPolicy");
        let rules = policy["spec"]["egress"].as_array().context("no egress")?;
        let ports = rules.iter().flat_map(|rule| rule["ports"].as_array());
        let ports = ports.flatten();
        let found: BTreeSet<_> = ports
            .map(|port| format!("{}/{}", port["port"], port["protocol"]).replace('"', ""))
            .collect();
        let api_server = ["443/TCP", "6443/TCP"].into_iter();
        let dns = ["53/UDP", "53/TCP", "5353/UDP", "5353/TCP"];
        let expected = api_server.chain(dns).chain(backend);
        let expected: BTreeSet<_> = expected.map(str::to_owned).collect();
        assert_eq!(found, expected);
        let has_no_ports = |rule: &Value| rule["ports"].as_array().is_none_or(Vec::is_empty);
        ensure!(!rules.iter().any(has_no_ports), "{rules:?}");
    }
    Ok(())
}

/// The NetworkPolicy permits egress to the port that the program connects to, which
/// `ns_32_every_form_of_an_endpoint_is_understood` shows.
#[tokio::test]
async fn egress_allows_the_port_of_every_form_of_an_endpoint() -> Result<()> {
    for (endpoint, port) in [
        ("storageos", 5705),
        (" storageos ", 5705),
        ("storageos:", 5705),
        ("storageos:80", 80),
        ("storageos.storageos.svc:8080", 8080),
        ("http://storageos", 5705),
        ("HTTPS://storageos", 5705),
        ("https://storageos/", 5705),
        ("https://storageos:443", 443),
        ("10.0.0.1:1", 1),
        ("::1", 5705),
        ("fd00::5:80", 5705),
        ("[::1]", 5705),
        ("[::1]:8080", 8080),
        ("https://[fd00::5]", 5705),
        ("https://[fd00::5]:443/", 443),
        ("https://gate/storage/one", 5705),
        ("https://gate:443/storage/", 443),
        ("gate/a:80", 5705),
    ] {
        let values = json!({"namespaceGc": {
            "storageBackend": "storageos", "storageos": {"endpoint": endpoint, "insecureHttp": true},
        }});
        let policy = find(&rendered(&values).await?, "NetworkPolicy");
        // The first two rules are those for the API server and for DNS.
        let found = policy.pointer("/spec/egress/2/ports");
        let expected = json!([{"port": port, "protocol": "TCP"}]);
        assert_eq!(found, Some(&expected), "{endpoint}");
    }
    Ok(())
}

/// The manifests set no user and no group. The image names the user, or OpenShift assigns one: its
/// `restricted-v2` refuses a fixed user.
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
