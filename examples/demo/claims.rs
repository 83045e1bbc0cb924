//! The first story: a claim that a pod uses is not deleted under it.

use crate::narrator::{Narrator, step, title};
use anyhow::Result;

const DESCRIBE: &str = "kubectl describe pvc data | grep -E '^(Status|Finalizers|Used By):'";
const REFUSAL: &str =
    r#"kubectl get pod late -o jsonpath='{.status.conditions[?(@.type=="PodScheduled")].message}'"#;

/// Plays it from the claim's birth to its end.
pub async fn play(narrator: &Narrator) -> Result<()> {
    title("First story: a claim in use")?;
    birth(narrator).await?;
    deletion(narrator).await?;
    late_user(narrator).await?;
    end(narrator).await
}

async fn birth(narrator: &Narrator) -> Result<()> {
    step("Here is a claim. It says nothing about finalizers.")?;
    narrator.run("cat examples/demo/claim.yaml", "").await?;
    step(
        "The API server's answer to its creation has one already. Volume Warden's webhook added it,\n\
         so there is no moment at which the claim is unprotected.",
    )?;
    let create = "kubectl create -f examples/demo/claim.yaml -o jsonpath='{.metadata.finalizers}'";
    narrator.run(create, "kubernetes.io/pvc-protection").await?;
    step("The default StorageClass gives it a volume, and a pod uses it.")?;
    narrator
        .run("kubectl create -f examples/demo/pod.yaml", "created")
        .await?;
    narrator.see("kubectl get pod web", &["Running"]).await
}

async fn deletion(narrator: &Narrator) -> Result<()> {
    step("Now someone deletes the claim, although the pod still works with its data.")?;
    narrator
        .run("kubectl delete pvc data --wait=false", "deleted")
        .await?;
    step(
        "It is Terminating, and stays that: Volume Warden keeps the finalizer while a pod uses it.",
    )?;
    narrator
        .see(
            DESCRIBE,
            &["Terminating", "kubernetes.io/pvc-protection", "web"],
        )
        .await
}

async fn late_user(narrator: &Narrator) -> Result<()> {
    step("A pod that comes now comes too late. The scheduler gives it no node:")?;
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
    step("The claim is still there. Only when the pod that uses it is gone, the claim goes too.")?;
    narrator
        .run("kubectl get pvc data -o name", "persistentvolumeclaim/data")
        .await?;
    narrator.run("kubectl delete pod web", "deleted").await?;
    narrator.see("kubectl get pvc data", &["NotFound"]).await?;
    narrator.run("kubectl delete pod late", "deleted").await
}
