//! Users' operations on namespaces.

use super::{Users, patch_and_update};
use crate::support::claim;
use anyhow::{Context, Result};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::json;

impl Users {
    pub(super) async fn use_namespaces(&self) -> Result<()> {
        let (name, create) = (self.cluster_scoped_name("new"), PostParams::default());
        let new = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        self.namespaces.create(&create, &new).await?;
        patch_and_update(&self.namespaces, &name).await?;
        let claims = Api::namespaced(self.space.cluster.client(), &name);
        claims.create(&create, &claim("data", json!({}))?).await?;
        for name in [name, self.cluster_scoped_name("doomed")] {
            let delete = DeleteParams::default();
            self.namespaces.delete(&name, &delete).await.context(name)?;
        }
        Ok(())
    }
}
