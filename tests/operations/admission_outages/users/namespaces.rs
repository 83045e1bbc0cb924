//! Users' operations on namespaces.

use super::{Users, change};
use crate::support::claim;
use anyhow::{Context, Result};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::json;

impl Users {
    pub(super) async fn use_namespaces(&self) -> Result<()> {
        let (name, create) = (self.wide("new"), PostParams::default());
        let wanted = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        self.namespaces.create(&create, &wanted).await?;
        change(&self.namespaces, &name).await?;
        let claims = Api::namespaced(self.space.cluster.client(), &name);
        claims.create(&create, &claim("data", json!({}))?).await?;
        for name in [name, self.wide("doomed")] {
            let now = DeleteParams::default();
            self.namespaces.delete(&name, &now).await.context(name)?;
        }
        Ok(())
    }
}
