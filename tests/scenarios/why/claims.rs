//! Claims that do not go.

use super::support::{Case, Fault, Stage};
use crate::support::Space;
use anyhow::Result;
use futures::{FutureExt, future::LocalBoxFuture};
use volume_warden::why::Code;

/// All of them.
pub const FAULTS: &[Fault] = &[Fault {
    name: "used by a pod",
    root: Code::InUse,
    seed: used,
}];

fn used(_: &'static Stage, space: Space) -> LocalBoxFuture<'static, Result<Case>> {
    async move {
        space.create_claim("data").await?;
        space.create_running_pod("user", "data").await?;
        space.delete_claim("data").await?;
        Ok(Case::new(
            &["pvc", "data", "-n", &space.name],
            &format!("kubectl delete pod user -n {}", space.name),
        ))
    }
    .boxed_local()
}
