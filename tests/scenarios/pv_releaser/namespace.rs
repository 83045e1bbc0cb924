//! A namespace is deleted with all its claims.

use super::{
    patient::{Patient, watch_of},
    support::PROVISIONER,
};
use anyhow::Result;
use serde_json::json;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// The volumes of its claims are released, also the one whose claim the watch of volumes has not delivered.
#[tokio::test]
async fn volumes_of_a_deleted_namespace_are_released() -> Result<()> {
    let patient = Patient::new("ending").await?;
    let (estate, id) = (&patient.estate, patient.estate.id());
    let _warden = patient.start().await?;
    for name in NAMES {
        estate.pair(name, json!({PROVISIONER: id})).await?;
        estate.is_labelled(name, id).await?;
    }
    let late = patient
        .between
        .add(watch_of("persistentvolumes").freeze_stream());
    estate.pair("late", json!({PROVISIONER: id})).await?;
    let delete = ["delete", "namespace", id, "--wait=false"];
    estate.space.cluster.kubectl(&delete).await?;
    for name in NAMES.iter().chain(&["late"]) {
        estate.is(name, "Released").await?;
    }
    drop(late);
    for name in NAMES.iter().chain(&["late"]) {
        estate.is_free(name).await?;
    }
    Ok(())
}
