//! The third story: the claims of a StatefulSet are deleted only when its policy requires it.

use crate::narrator::{Narrator, step, title};
use anyhow::Result;

const CLAIMS: &str = "kubectl get pvc -o custom-columns=CLAIM:.metadata.name,OWNER:.metadata.ownerReferences[*].kind";
const LEFT: &str = "kubectl get pvc -o name";

/// Plays the story from the set's creation to its deletion.
pub async fn play(narrator: &Narrator) -> Result<()> {
    title("Third story: the claims of a StatefulSet")?;
    creation(narrator).await?;
    lost_pod(narrator).await?;
    scaled_down(narrator).await?;
    end(narrator).await
}

async fn creation(narrator: &Narrator) -> Result<()> {
    step("This StatefulSet's policy deletes its claims when it is scaled down or deleted.")?;
    let policy = "grep -A2 RetentionPolicy examples/demo/statefulset.yaml";
    narrator.run(policy, "whenScaled: Delete").await?;
    let create = "kubectl create -f examples/demo/statefulset.yaml";
    narrator.run(create, "created").await?;
    let ready = "kubectl get statefulset db";
    narrator.see(ready, &["3/3"]).await?;
    step(
        "The set owns each claim from its creation, so deleting the set at any time leaks no claim.",
    )?;
    let owned = ["data-db-0   StatefulSet", "data-db-2   StatefulSet"];
    narrator.see(CLAIMS, &owned).await
}

async fn lost_pod(narrator: &Narrator) -> Result<()> {
    step("A pod that is deleted by hand is recreated, and uses the same claim.")?;
    let uid = "kubectl get pvc data-db-2 -o jsonpath='{.metadata.uid}'";
    let before = narrator.until(uid, &["-"]).await?;
    // kubectl would wait for the deletion of the pod that has already replaced it.
    let delete = "kubectl delete pod db-2 --wait=false";
    narrator.run(delete, "deleted").await?;
    narrator.see("kubectl get statefulset db", &["3/3"]).await?;
    narrator.run(uid, &before).await
}

async fn scaled_down(narrator: &Narrator) -> Result<()> {
    step(
        "The set is scaled down to one replica. The claims of the removed pods are deleted with them.",
    )?;
    let scale = "kubectl scale statefulset db --replicas=1";
    narrator.run(scale, "scaled").await?;
    narrator
        .see("kubectl get pvc data-db-1", &["NotFound"])
        .await?;
    narrator
        .see("kubectl get pvc data-db-2", &["NotFound"])
        .await?;
    narrator.see(CLAIMS, &["data-db-0   StatefulSet"]).await
}

async fn end(narrator: &Narrator) -> Result<()> {
    step("The last claim is deleted with the set.")?;
    narrator
        .run("kubectl delete statefulset db", "deleted")
        .await?;
    narrator
        .see("kubectl get pvc data-db-0", &["NotFound"])
        .await?;
    narrator.run(LEFT, "").await
}
