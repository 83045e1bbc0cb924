//! Fewer Events of kube-controller-manager's volume binder.

use anyhow::{Context, Result};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{Api, PostParams};

const ROLE: &str = "system:controller:persistent-volume-binder";

/// Removes the permission of the binder to patch its Events, so that it cannot increment their
/// counts. The binder would do so for each pending claim, up to 25 times, at each of its frequent
/// syncs; in some test clusters that was a quarter of all requests. It still creates the first
/// Event of each kind.
pub(crate) async fn keep_first_events_only(client: kube::Client) -> Result<()> {
    let roles: Api<ClusterRole> = Api::all(client);
    let mut role = roles.get(ROLE).await?;
    for rule in role.rules.iter_mut().flatten() {
        if rule.resources.iter().flatten().any(|name| name == "events") {
            rule.verbs.retain(|verb| verb != "patch");
        }
    }
    roles
        .replace(ROLE, &PostParams::default(), &role)
        .await
        .with_context(|| format!("changing {ROLE}"))?;
    Ok(())
}
