//! Writes with a stolen token of Volume Warden's service account. Every write is a dry run. A write
//! that a policy must refuse is also sent as a user with the same roles, to whom the policies do
//! not apply, and must succeed.

use crate::support::Space;
use anyhow::{Result, ensure};
use http::{Method, Request};
use kube::client::Body;
use serde_json::{Value, json};
use volume_warden_controlplane::{Cluster, eventually};

const ACCOUNT: &str = "system:serviceaccount:volume-warden:volume-warden";

/// A write: method, path and body.
pub type Write = (Method, String, Value);

/// The service account, and a user with the same roles to whom the policies do not apply.
pub struct StolenToken<'a> {
    cluster: &'a Cluster,
    unrestricted_user: String,
    /// A group of both, to which [`Self::grant`] binds more rights.
    group: String,
}

impl<'a> StolenToken<'a> {
    /// Calls [`Self::with_unrestricted_user`] with a user of a new name.
    pub async fn new(space: &'a Space) -> Result<Self> {
        Self::with_unrestricted_user(space, &format!("twin-of-{}", space.name)).await
    }

    /// Binds all ClusterRoles of Volume Warden to this user, to whom the policies do not apply, and
    /// waits until the roles and the policies are in effect.
    pub async fn with_unrestricted_user(space: &'a Space, unrestricted_user: &str) -> Result<Self> {
        let (cluster, unrestricted_user) = (&*space.cluster, unrestricted_user.to_owned());
        let group = format!("thieves-of-{}", space.name);
        let roles = ["get", "clusterroles", "-o=name"];
        let roles = cluster.kubectl(&roles).await?;
        let roles = roles
            .lines()
            .filter_map(|line| line.split_once('/'))
            .filter(|(_, role)| role.starts_with("volume-warden"));
        for (_, role) in roles {
            let binding = format!("{}-{role}", space.name);
            let (role, user) = (
                format!("--clusterrole={role}"),
                format!("--user={unrestricted_user}"),
            );
            let create = ["create", "clusterrolebinding", &binding, &role, &user];
            cluster.kubectl(&create).await?;
        }
        space.create_claim("probe").await?;
        let path = format!("{}/probe", claims_path(space));
        let label = patch(&path, json!({"metadata": {"labels": {"a": "b"}}}));
        let token = Self {
            cluster,
            unrestricted_user,
            group,
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
        let (verb, what) = (format!("--verb={verbs}"), format!("--resource={resource}"));
        let role = ["create", "clusterrole", &name, &verb, &what];
        self.cluster.kubectl(&role).await?;
        let (role, group) = (
            format!("--clusterrole={name}"),
            format!("--group={}", self.group),
        );
        let bind = ["create", "clusterrolebinding", &name, &role, &group];
        self.cluster.kubectl(&bind).await?;
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let subresource = format!("--subresource={subresource}");
        let verb = verbs.rsplit(',').next().unwrap_or(verbs);
        let review = ["auth", "can-i", verb, resource, &subresource, "--as=anyone"];
        let review = [&review[..], &["--as-group", &self.group]].concat();
        eventually("the verbs are permitted", async || {
            let answer = self.cluster.kubectl(&review).await?;
            ensure!(answer.trim() == "yes", "{answer}");
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
        let (head, body) = self.cluster.client().send(request).await?.into_parts();
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
