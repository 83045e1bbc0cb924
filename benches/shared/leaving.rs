//! The deletion of protected claims, and of the pods that use them.

use crate::{
    each::{AT_ONCE, each},
    protected::{Space, claim_name, pod_name},
};
use anyhow::Result;
use kube::api::DeleteParams;

impl Space {
    /// Deletes this many claims.
    pub async fn delete_claims(&self, count: usize) -> Result<()> {
        each(count, AT_ONCE, async |index| {
            let parameters = DeleteParams::default();
            self.claims.delete(&claim_name(index), &parameters).await?;
            Ok(())
        })
        .await
        .map(drop)
    }

    /// Deletes the pods that use this many claims.
    pub async fn delete_users(&self, count: usize) -> Result<()> {
        let now = &DeleteParams::default().grace_period(0);
        each(count, AT_ONCE, async |index| {
            self.pods.delete(&pod_name(index), now).await?;
            Ok(())
        })
        .await
        .map(drop)
    }
}
