//! A namespace is deleted with all its claims.

use super::{fault_fixture::FaultFixture, support::PROVISIONER};
use anyhow::Result;
use serde_json::json;
use volume_warden_controlplane::Rule;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// The volumes of its claims are released, also the one that is bound while the watch of volumes is
/// frozen.
#[tokio::test]
async fn volumes_of_a_deleted_namespace_are_released() -> Result<()> {
    let fixture = FaultFixture::new("ending").await?;
    let (estate, id) = (&fixture.estate, fixture.estate.id());
    let _warden = fixture.start().await?;
    for name in NAMES {
        estate.pair(name, json!({PROVISIONER: id})).await?;
        estate.is_labelled(name, id).await?;
    }
    let frozen = fixture
        .interposer
        .add(Rule::watch_of("persistentvolumes").freeze_stream());
    estate.pair("late", json!({PROVISIONER: id})).await?;
    let delete = ["delete", "namespace", id, "--wait=false"];
    estate.space.cluster.kubectl(&delete).await?;
    for name in NAMES.iter().chain(&["late"]) {
        estate.has_phase(name, "Released").await?;
    }
    drop(frozen);
    for name in NAMES.iter().chain(&["late"]) {
        estate.is_free(name).await?;
    }
    Ok(())
}
