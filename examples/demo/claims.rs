//! The first story: a claim is not deleted while a pod uses it.

use crate::narrator::{Narrator, step, title};
use anyhow::Result;

const DESCRIBE: &str = "kubectl describe pvc data | grep -E '^(Status|Finalizers|Used By):'";
const REFUSAL: &str =
    r#"kubectl get pod late -o jsonpath='{.status.conditions[?(@.type=="PodScheduled")].message}'"#;

/// Plays the story from the claim's creation to its deletion.
pub async fn play(narrator: &Narrator) -> Result<()> {
    title("First story: a claim in use")?;
    creation(narrator).await?;
    deletion(narrator).await?;
    late_user(narrator).await?;
    end(narrator).await
}

async fn creation(narrator: &Narrator) -> Result<()> {
    step("This claim has no finalizer in its manifest.")?;
    narrator.run("cat examples/demo/claim.yaml", "").await?;
    step(
        "The API server's response to the create request contains a finalizer. Volume Warden's webhook\n\
         added it, so the claim is protected from its creation.",
    )?;
    let create = "kubectl create -f examples/demo/claim.yaml -o jsonpath='{.metadata.finalizers}'";
    narrator.run(create, "kubernetes.io/pvc-protection").await?;
    step("The default StorageClass provisions a volume for the claim, and a pod uses it.")?;
    narrator
        .run("kubectl create -f examples/demo/pod.yaml", "created")
        .await?;
    narrator.see("kubectl get pod web", &["Running"]).await
}

async fn deletion(narrator: &Narrator) -> Result<()> {
    step("A user deletes the claim while the pod still uses it.")?;
    narrator
        .run("kubectl delete pvc data --wait=false", "deleted")
        .await?;
    step(
        "The claim stays Terminating: Volume Warden keeps the finalizer while a pod uses the claim.",
    )?;
    narrator
        .see(
            DESCRIBE,
            &["Terminating", "kubernetes.io/pvc-protection", "web"],
        )
        .await
}

async fn late_user(narrator: &Narrator) -> Result<()> {
    step("A pod created now cannot use the claim. The scheduler does not assign it to a node:")?;
    narrator
        .run("kubectl create -f examples/demo/late-pod.yaml", "created")
        .await?;
    narrator
        .see(
            REFUSAL,
            &["persistentvolumeclaim \"data\" is being deleted"],
        )
        .await?;
    narrator
        .see("kubectl get pod", &["Running", "Pending"])
        .await
}

async fn end(narrator: &Narrator) -> Result<()> {
    step("The claim still exists. It is deleted once the pod that uses it is deleted.")?;
    narrator
        .run("kubectl get pvc data -o name", "persistentvolumeclaim/data")
        .await?;
    narrator.run("kubectl delete pod web", "deleted").await?;
    narrator.see("kubectl get pvc data", &["NotFound"]).await?;
    narrator.run("kubectl delete pod late", "deleted").await
}
