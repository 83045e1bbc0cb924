//! Writes with a stolen token of Volume Warden's service account. Every write is a dry run. A write
//! that a policy must refuse is also sent as a user with the same roles, to whom the policies do
//! not apply, and must succeed.

use crate::support::{Space, rbac};
use anyhow::{Result, ensure};
use http::{Method, Request};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::{Api, Client, api::ListParams, client::Body};
use serde_json::{Value, json};
use volume_warden_controlplane::eventually;

const ACCOUNT: &str = "system:serviceaccount:volume-warden:volume-warden";

/// A write: method, path and body.
pub type Write = (Method, String, Value);

/// The service account, and a user with the same roles to whom the policies do not apply.
pub struct StolenToken {
    /// The client of an administrator, who impersonates both.
    client: Client,
    unrestricted_user: String,
    /// A group of both, to which [`Self::grant`] binds more permissions.
    group: String,
}

impl StolenToken {
    /// Calls [`Self::with_unrestricted_user`] with a user of a new name.
    pub async fn new(space: &Space) -> Result<Self> {
        Self::with_unrestricted_user(space, &format!("twin-of-{}", space.name)).await
    }

    /// Binds all ClusterRoles of Volume Warden to this user, to whom the policies do not apply, and
    /// waits until the roles and the policies are in effect.
    pub async fn with_unrestricted_user(space: &Space, unrestricted_user: &str) -> Result<Self> {
        let client = space.cluster.client();
        let roles: Api<ClusterRole> = Api::all(client.clone());
        let roles = roles.list_metadata(&ListParams::default()).await?;
        let roles = roles
            .iter()
            .filter_map(|role| role.metadata.name.as_deref())
            .filter(|role| role.starts_with("volume-warden"));
        let subject = rbac::user(unrestricted_user);
        for role in roles {
            let binding = format!("{}-{role}", space.name);
            rbac::create_cluster_role_binding(&client, &binding, role, &subject).await?;
        }
        space.create_claim("probe").await?;
        let path = format!("{}/probe", claims_path(space));
        let label = patch(&path, json!({"metadata": {"labels": {"a": "b"}}}));
        let token = Self {
            client,
            unrestricted_user: unrestricted_user.to_owned(),
            group: format!("thieves-of-{}", space.name),
        };
        eventually("the roles and the policies are in effect", async || {
            token.is_refused(&label, "may not change the spec").await
        })
        .await?;
        Ok(token)
    }

    /// Grants these verbs, separated by commas, to both users.
    pub async fn grant(&self, verbs: &str, resource: &str) -> Result<()> {
        let name = format!("{}-{}", self.group, resource.replace('/', "-"));
        let (verbs, group) = (Vec::from_iter(verbs.split(',')), rbac::group(&self.group));
        let rule = rbac::rule(&verbs, resource);
        rbac::create_cluster_role(&self.client, &name, vec![rule]).await?;
        rbac::create_cluster_role_binding(&self.client, &name, &name, &group).await?;
        eventually("the verbs are permitted", async || {
            for verb in &verbs {
                let permission = format!("{verb} {resource}");
                let is_allowed = rbac::is_allowed(&self.client, &group, "", &permission).await?;
                ensure!(is_allowed, "not allowed yet: {permission}");
            }
            Ok(())
        })
        .await
    }

    /// Sends the write as a dry run, and returns the status code and the body of the response.
    async fn send(&self, user: &str, write: &Write) -> Result<(u16, String)> {
        let (method, path, body) = write;
        let content = match (method, body) {
            (&Method::PATCH, Value::Array(_)) => "application/json-patch+json",
            (&Method::PATCH, _) => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = Request::builder()
            .method(method)
            .uri(format!("{path}?dryRun=All"))
            .header("impersonate-user", user)
            .header("impersonate-group", &self.group)
            .header("content-type", content)
            .body(Body::from(serde_json::to_vec(body)?))?;
        let (head, body) = self.client.send(request).await?.into_parts();
        let body = String::from_utf8(body.collect_bytes().await?.to_vec())?;
        Ok((head.status.as_u16(), body))
    }

    async fn is_permitted(&self, user: &str, write: &Write) -> Result<()> {
        let (code, body) = self.send(user, write).await?;
        ensure!(matches!(code, 200 | 201), "{user}: {write:?}: {body}");
        Ok(())
    }

    /// Fails unless a policy refuses the write of the service account with this sentence, and the
    /// same write of the other user is permitted.
    async fn is_refused(&self, write: &Write, sentence: &str) -> Result<()> {
        self.is_permitted(&self.unrestricted_user, write).await?;
        let (code, body) = self.send(ACCOUNT, write).await?;
        ensure!(
            code == 422 && body.contains(sentence),
            "{write:?}: {code} {body}"
        );
        Ok(())
    }

    pub async fn all_are_refused(&self, writes: Vec<(Write, &str)>) -> Result<()> {
        let mut failed = String::new();
        for (write, sentence) in writes {
            if let Err(error) = self.is_refused(&write, sentence).await {
                failed += &format!("\n{sentence}: {error}");
            }
        }
        ensure!(failed.is_empty(), "{failed}");
        Ok(())
    }

    pub async fn all_are_permitted(&self, writes: Vec<Write>) -> Result<()> {
        for write in writes {
            self.is_permitted(ACCOUNT, &write).await?;
        }
        Ok(())
    }
}

pub fn claims_path(space: &Space) -> String {
    format!("/api/v1/namespaces/{}/persistentvolumeclaims", space.name)
}

pub fn patch(path: &str, body: Value) -> Write {
    (Method::PATCH, path.to_owned(), body)
}

/// The body of a DELETE that is a dry run. The API server ignores the query of a DELETE with a
/// body.
pub fn dry_run_delete() -> Value {
    json!({"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]})
}

pub fn owner(kind: &str, name: &str) -> Value {
    let version = match kind {
        "StatefulSet" => "apps/v1",
        _ => "v1",
    };
    json!({"metadata": {"ownerReferences": [{"apiVersion": version, "kind": kind, "name": name, "uid": "u"}]}})
}
