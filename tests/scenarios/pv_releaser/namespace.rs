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
    let (volume_space, id) = (&fixture.volume_space, fixture.volume_space.id());
    let _warden = fixture.start().await?;
    for name in NAMES {
        volume_space.pair(name, json!({PROVISIONER: id})).await?;
        volume_space.is_labelled(name, id).await?;
    }
    let frozen = fixture
        .interposer
        .add(Rule::watch_of("persistentvolumes").freeze_stream());
    volume_space.pair("late", json!({PROVISIONER: id})).await?;
    let delete = ["delete", "namespace", id, "--wait=false"];
    volume_space.space.cluster.kubectl(&delete).await?;
    for name in NAMES.iter().chain(&["late"]) {
        volume_space.has_phase(name, "Released").await?;
    }
    drop(frozen);
    for name in NAMES.iter().chain(&["late"]) {
        volume_space.is_free(name).await?;
    }
    Ok(())
}
