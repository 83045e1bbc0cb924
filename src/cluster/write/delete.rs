//! Deletion, by the only writer, of objects of kinds that no component has a rule for.

use super::applied::Applied;
use super::applied::judge;
use super::apply::ALWAYS;
use super::apply::Apply;
use super::apply::Turn;
use super::apply::WRITE_TIMEOUT;
use super::lanes::Lane;
use crate::cluster::api::within;
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, ObjectMeta, Preconditions},
};
use std::sync::Arc;

impl Apply {
    /// Deletes a cluster-scoped object, if it has not changed since it was read.
    pub async fn delete(&self, resource: &ApiResource, read: &ObjectMeta) -> Applied {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), resource);
        let name = read.name.as_deref().unwrap_or_default();
        let parameters = DeleteParams::background().preconditions(Preconditions {
            uid: read.uid.clone(),
            resource_version: read.resource_version.clone(),
        });
        let delete = || async { api.delete(name, &parameters).await.map(drop) };
        let write = || async { judge(within(WRITE_TIMEOUT, delete()).await) };
        let turn = Turn {
            lane: Lane::Bulk,
            namespace: &Arc::from(""),
            deadline: None,
            still_holds: ALWAYS,
        };
        self.in_turn(turn, write).await
    }
}
