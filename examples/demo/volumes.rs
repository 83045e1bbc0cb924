//! The second story: a volume that is bound to a claim is not deleted under it.

use crate::narrator::{Narrator, step, title};
use anyhow::Result;

const DESCRIBE: &str = "kubectl describe pv archive | grep -E '^(Status|Finalizers|Claim):'";
const CLAIM_PHASE: &str = "kubectl get pvc papers -o jsonpath='{.status.phase}'";
const VOLUME_PHASE: &str = "kubectl get pv archive -o jsonpath='{.status.phase}'";

/// Plays it from the volume's birth to its end.
pub async fn play(narrator: &Narrator) -> Result<()> {
    title("Second story: a bound volume")?;
    binding(narrator).await?;
    deletion(narrator).await?;
    end(narrator).await
}

async fn binding(narrator: &Narrator) -> Result<()> {
    step("An administrator makes a volume by hand. It too has its finalizer from birth.")?;
    let create = "kubectl create -f examples/demo/volume.yaml -o jsonpath='{.metadata.finalizers}'";
    narrator.run(create, "kubernetes.io/pv-protection").await?;
    step("A claim asks for this volume by name, and gets it.")?;
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
    step("Now someone deletes the volume. It is Terminating, and stays that while it is bound.")?;
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
    step("Its phase is what counts, and to the claim nothing has happened.")?;
    narrator.run(VOLUME_PHASE, "Bound").await?;
    narrator.run(CLAIM_PHASE, "Bound").await
}

async fn end(narrator: &Narrator) -> Result<()> {
    step(
        "The claim is deleted. That releases the volume, Volume Warden lets go of it, and the volume\n\
         whose deletion was pending is gone. The data behind it remain: its policy is Retain.",
    )?;
    narrator.run("kubectl delete pvc papers", "deleted").await?;
    narrator.see("kubectl get pv archive", &["NotFound"]).await
}
