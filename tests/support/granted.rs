//! Compares the permissions that roles grant to a service account with those that it used. A
//! permission is a text: the verb, the resource, and the name of the object if the permission is
//! for one object.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding};
use kube::{Api, Client, api::ListParams};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{collections::BTreeSet, fmt::Debug};
use volume_warden_controlplane::{Call, Calls, Cluster};

/// The permissions that the calls used: for each call permission to its object, and permission to
/// all objects of the resource.
pub fn used(calls: &Calls) -> BTreeSet<String> {
    let both = calls
        .iter()
        .flat_map(|call| [of(call, ""), of(call, &call.name)]);
    both.collect()
}

/// The permissions that the roles bound to this service account grant.
pub async fn granted(
    cluster: &Cluster,
    namespace: &str,
    account: &str,
) -> Result<BTreeSet<String>> {
    let (client, mut granted) = (cluster.client(), BTreeSet::new());
    let mut bindings = all(Api::<ClusterRoleBinding>::all(client.clone())).await?;
    bindings.extend(all(Api::<RoleBinding>::namespaced(client.clone(), namespace)).await?);
    for binding in bindings {
        let mut subjects = binding["subjects"].as_array().into_iter().flatten();
        if !subjects.any(|each| each["namespace"] == namespace && each["name"] == account) {
            continue;
        }
        let kind = binding["roleRef"]["kind"].as_str().context("a kind")?;
        let role = binding["roleRef"]["name"].as_str().context("a name")?;
        granted.extend(of_role(&client, namespace, kind, role).await?);
    }
    Ok(granted)
}

/// All objects of that API.
async fn all<K>(api: Api<K>) -> Result<Vec<Value>>
where
    K: Clone + Debug + DeserializeOwned + Serialize,
{
    let list = api.list(&ListParams::default()).await?;
    let values = list.items.iter().map(serde_json::to_value);
    Ok(values.collect::<Result<_, _>>()?)
}

async fn of_role(
    client: &Client,
    namespace: &str,
    kind: &str,
    name: &str,
) -> Result<BTreeSet<String>> {
    let rules = match kind {
        "Role" => {
            let roles: Api<Role> = Api::namespaced(client.clone(), namespace);
            roles.get(name).await?.rules
        }
        _ => {
            let roles: Api<ClusterRole> = Api::all(client.clone());
            roles.get(name).await?.rules
        }
    };
    let rules = rules.context("rules")?;
    Ok(rules.iter().flat_map(permissions).collect())
}

/// Fails if the role grants no permission, or one that the account did not use in these calls.
pub async fn role_is_used(
    cluster: &Cluster,
    calls: &Calls,
    namespace: &str,
    account: &str,
    (kind, name): (&str, &str),
) -> Result<()> {
    let granted = of_role(&cluster.client(), namespace, kind, name).await?;
    ensure!(!granted.is_empty(), "{kind} {name} is empty");
    let user = format!("system:serviceaccount:{namespace}:{account}");
    let used = used(&calls.by_user(&user));
    let unused: Vec<_> = granted.difference(&used).collect();
    ensure!(unused.is_empty(), "{kind} {name}: {unused:?} not used");
    Ok(())
}

/// Verb, resource and name, if there is one.
fn permission(verb: &str, resource: &str, group: &str, name: &str) -> String {
    let dot = if group.is_empty() { "" } else { "." };
    let permission = format!("{verb} {resource}{dot}{group} {name}");
    permission.trim_end().to_owned()
}

fn of(call: &Call, name: &str) -> String {
    let resource = match call.subresource.as_str() {
        "" => call.resource.clone(),
        subresource => format!("{}/{subresource}", call.resource),
    };
    permission(&call.verb, &resource, &call.group, name)
}

/// The permissions of a rule, one for each combination of verb, resource and object name.
pub fn permissions(rule: &PolicyRule) -> Vec<String> {
    let every_object = [String::new()];
    let names = rule
        .resource_names
        .as_deref()
        .filter(|names| !names.is_empty());
    let names = names.unwrap_or(&every_object);
    let mut permissions = Vec::new();
    for verb in &rule.verbs {
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                let of_names = names
                    .iter()
                    .map(|name| permission(verb, resource, group, name));
                permissions.extend(of_names);
            }
        }
    }
    permissions
}
