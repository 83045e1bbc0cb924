//! The second story: a volume is not deleted while it is bound to a claim.

use crate::narrator::{Narrator, step, title};
use anyhow::Result;

const DESCRIBE: &str = "kubectl describe pv archive | grep -E '^(Status|Finalizers|Claim):'";
const CLAIM_PHASE: &str = "kubectl get pvc papers -o jsonpath='{.status.phase}'";
const VOLUME_PHASE: &str = "kubectl get pv archive -o jsonpath='{.status.phase}'";

/// Plays the story from the volume's creation to its deletion.
pub async fn play(narrator: &Narrator) -> Result<()> {
    title("Second story: a bound volume")?;
    binding(narrator).await?;
    deletion(narrator).await?;
    end(narrator).await
}

async fn binding(narrator: &Narrator) -> Result<()> {
    step("An administrator creates a volume. The webhook adds its finalizer during creation.")?;
    let create = "kubectl create -f examples/demo/volume.yaml -o jsonpath='{.metadata.finalizers}'";
    narrator.run(create, "kubernetes.io/pv-protection").await?;
    step("A claim requests this volume by name, and is bound to it.")?;
    narrator
        .run(
            "kubectl create -f examples/demo/volume-claim.yaml",
            "created",
        )
        .await?;
    // The volume is bound first; the claim may follow later.
    narrator.see(CLAIM_PHASE, &["Bound"]).await?;
    narrator.see(DESCRIBE, &["Bound", "default/papers"]).await
}

async fn deletion(narrator: &Narrator) -> Result<()> {
    step("A user deletes the volume. It stays Terminating while it is bound.")?;
    narrator
        .run("kubectl delete pv archive --wait=false", "deleted")
        .await?;
    narrator
        .see(
            DESCRIBE,
            &[
                "Terminating",
                "kubernetes.io/pv-protection",
                "default/papers",
            ],
        )
        .await?;
    step("The volume's phase is still Bound, and the claim is unaffected.")?;
    narrator.run(VOLUME_PHASE, "Bound").await?;
    narrator.run(CLAIM_PHASE, "Bound").await
}

async fn end(narrator: &Narrator) -> Result<()> {
    step(
        "The claim is deleted. That releases the volume, Volume Warden removes its finalizer, and the\n\
         pending deletion completes. The data remain: the reclaim policy is Retain.",
    )?;
    narrator.run("kubectl delete pvc papers", "deleted").await?;
    narrator.see("kubectl get pv archive", &["NotFound"]).await
}
