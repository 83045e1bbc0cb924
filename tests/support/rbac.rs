//! Roles and bindings. The API server applies them with a delay, and refuses requests until then.

use super::space::Space;
use anyhow::{Context, Result};
use k8s_openapi::api::{
    authorization::v1::SubjectAccessReview,
    rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject},
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use serde_json::json;
use volume_warden_controlplane::eventually;

/// The subject of a binding that applies to this user.
pub fn user(name: &str) -> Subject {
    Subject {
        kind: "User".to_owned(),
        name: name.to_owned(),
        ..Subject::default()
    }
}

/// The subject of a binding that applies to this group.
pub fn group(name: &str) -> Subject {
    Subject {
        kind: "Group".to_owned(),
        ..user(name)
    }
}

/// The subject of a binding that applies to this service account.
pub fn service_account(namespace: &str, name: &str) -> Subject {
    Subject {
        kind: "ServiceAccount".to_owned(),
        namespace: Some(namespace.to_owned()),
        ..user(name)
    }
}

/// A rule that permits these verbs on `<resource>[/<subresource>][.<group>]`.
pub fn rule(verbs: &[&str], resource: &str) -> PolicyRule {
    let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        verbs: verbs.iter().map(|&verb| verb.to_owned()).collect(),
        ..PolicyRule::default()
    }
}

/// Creates a ClusterRole.
pub async fn create_cluster_role(
    client: &Client,
    name: &str,
    rules: Vec<PolicyRule>,
) -> Result<()> {
    let role = ClusterRole {
        metadata: metadata(name),
        rules: Some(rules),
        ..ClusterRole::default()
    };
    let roles: Api<ClusterRole> = Api::all(client.clone());
    roles.create(&PostParams::default(), &role).await?;
    Ok(())
}

/// Creates a Role.
pub async fn create_role(
    client: &Client,
    namespace: &str,
    name: &str,
    rules: Vec<PolicyRule>,
) -> Result<()> {
    let role = Role {
        metadata: metadata(name),
        rules: Some(rules),
    };
    let roles: Api<Role> = Api::namespaced(client.clone(), namespace);
    roles.create(&PostParams::default(), &role).await?;
    Ok(())
}

/// Binds a ClusterRole to the subject in all namespaces.
pub async fn create_cluster_role_binding(
    client: &Client,
    name: &str,
    role: &str,
    subject: &Subject,
) -> Result<()> {
    let binding = ClusterRoleBinding {
        metadata: metadata(name),
        role_ref: role_ref("ClusterRole", role),
        subjects: Some(vec![subject.clone()]),
    };
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    bindings.create(&PostParams::default(), &binding).await?;
    Ok(())
}

/// Binds a role to the subject in a namespace. `kind` is `Role` or `ClusterRole`.
pub async fn create_role_binding(
    client: &Client,
    namespace: &str,
    name: &str,
    (kind, role): (&str, &str),
    subject: &Subject,
) -> Result<()> {
    let binding = RoleBinding {
        metadata: metadata(name),
        role_ref: role_ref(kind, role),
        subjects: Some(vec![subject.clone()]),
    };
    let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), namespace);
    bindings.create(&PostParams::default(), &binding).await?;
    Ok(())
}

/// Binds the ClusterRole `edit` to the user in the namespace of the test, and waits until the API
/// server applies the binding.
pub async fn grant_edit(space: &Space, name: &str) -> Result<()> {
    let (client, user, role) = (space.cluster.client(), user(name), ("ClusterRole", "edit"));
    let binding = format!("edit-of-{name}");
    create_role_binding(&client, &space.name, &binding, role, &user).await?;
    eventually("the API server applies the binding", async || {
        let permission = "create persistentvolumeclaims";
        is_allowed(&client, &user, &space.name, permission).await
    })
    .await
}

/// Whether the API server allows the subject to use this permission in the namespace. The form of
/// the permission is that of [`super::granted`]; an empty namespace means all namespaces.
pub async fn is_allowed(
    client: &Client,
    subject: &Subject,
    namespace: &str,
    permission: &str,
) -> Result<bool> {
    let (verb, object) = permission.split_once(' ').context("a verb")?;
    let (kind, name) = object.split_once(' ').unwrap_or((object, ""));
    let (resource, group) = kind.split_once('.').unwrap_or((kind, ""));
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let of_account = subject.namespace.as_deref().unwrap_or_default();
    let (user, groups) = match subject.kind.as_str() {
        "Group" => (String::new(), vec![subject.name.clone()]),
        "ServiceAccount" => (
            format!("system:serviceaccount:{of_account}:{}", subject.name),
            vec![],
        ),
        _ => (subject.name.clone(), vec![]),
    };
    let review = serde_json::from_value(json!({"metadata": {}, "spec": {
        "user": user, "groups": groups,
        "resourceAttributes": {
            "verb": verb, "group": group, "resource": resource, "subresource": subresource,
            "name": name, "namespace": namespace,
        },
    }}))?;
    let reviews = Api::<SubjectAccessReview>::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

fn metadata(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}

fn role_ref(kind: &str, name: &str) -> RoleRef {
    RoleRef {
        api_group: "rbac.authorization.k8s.io".to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
    }
}
