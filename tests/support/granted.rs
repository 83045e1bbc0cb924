//! Rights as words: what roles grant to a service account, and what it used. Verb, resource, and the
//! name of an object where the right is for one object.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeSet;
use volume_warden_controlplane::{Call, Calls, Cluster};

/// What the audit log saw: each call with its object's name, and without.
pub fn used(calls: &Calls) -> BTreeSet<String> {
    let both = calls
        .iter()
        .flat_map(|call| [of(call, ""), of(call, &call.name)]);
    both.collect()
}

/// What the roles bound to this account of the namespace grant.
pub async fn granted(
    cluster: &Cluster,
    namespace: &str,
    account: &str,
) -> Result<BTreeSet<String>> {
    let mut granted = BTreeSet::new();
    for kind in ["clusterrolebindings", "rolebindings"] {
        let get = ["get", kind, "-n", namespace, "-o", "json"];
        let list: Value = serde_json::from_str(&cluster.kubectl(&get).await?)?;
        for binding in list["items"].as_array().context("a list")? {
            let mut subjects = binding["subjects"].as_array().into_iter().flatten();
            if !subjects.any(|each| each["namespace"] == namespace && each["name"] == account) {
                continue;
            }
            let kind = binding["roleRef"]["kind"].as_str().context("a kind")?;
            let role = binding["roleRef"]["name"].as_str().context("a name")?;
            granted.extend(of_role(cluster, namespace, kind, role).await?);
        }
    }
    Ok(granted)
}

async fn of_role(
    cluster: &Cluster,
    namespace: &str,
    kind: &str,
    name: &str,
) -> Result<BTreeSet<String>> {
    let get = ["get", kind, name, "-n", namespace, "-o", "json"];
    let role: Value = serde_json::from_str(&cluster.kubectl(&get).await?)?;
    let rules = role["rules"].as_array().context("rules")?;
    Ok(rules.iter().flat_map(rights).collect())
}

/// Fails if the account has no rights by that role, or one that it did not use.
pub async fn role_is_used(
    cluster: &Cluster,
    namespace: &str,
    account: &str,
    (kind, name): (&str, &str),
) -> Result<()> {
    let granted = of_role(cluster, namespace, kind, name).await?;
    ensure!(!granted.is_empty(), "{kind} {name} is empty");
    let user = format!("system:serviceaccount:{namespace}:{account}");
    let used = used(&cluster.audit().all()?.by_user(&user));
    let unused: Vec<_> = granted.difference(&used).collect();
    ensure!(unused.is_empty(), "{kind} {name}: {unused:?} not used");
    Ok(())
}

/// Verb, resource and name, if there is one.
fn right(verb: &str, resource: &str, group: &str, name: &str) -> String {
    let dot = if group.is_empty() { "" } else { "." };
    let right = format!("{verb} {resource}{dot}{group} {name}");
    right.trim_end().to_owned()
}

fn of(call: &Call, name: &str) -> String {
    let resource = match call.subresource.as_str() {
        "" => call.resource.clone(),
        subresource => format!("{}/{subresource}", call.resource),
    };
    right(&call.verb, &resource, &call.group, name)
}

/// The single rights of a rule.
fn rights(rule: &Value) -> Vec<String> {
    let list = |key: &str| -> Vec<&str> {
        let values = rule[key].as_array().into_iter().flatten();
        values.filter_map(Value::as_str).collect()
    };
    let mut names = list("resourceNames");
    if names.is_empty() {
        names.push("");
    }
    let mut rights = Vec::new();
    for verb in list("verbs") {
        for group in list("apiGroups") {
            for resource in list("resources") {
                rights.extend(names.iter().map(|name| right(verb, resource, group, name)));
            }
        }
    }
    rights
}
