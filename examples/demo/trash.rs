//! The sixth story: a claim is deleted by mistake, and restored with its data.

use crate::narrator::{Narrator, step, title};
use anyhow::Result;

const PHASE: &str = "kubectl get pvc photos -o jsonpath='{.status.phase}'";

/// The volume of the claim, and its directory on this machine.
struct Photos {
    volume: String,
    directory: String,
}

/// Plays the story from the class to the purge of its only volume.
pub async fn play(narrator: &Narrator) -> Result<()> {
    title("Sixth story: a deletion that is undone")?;
    let photos = creation(narrator).await?;
    deletion(narrator, &photos).await?;
    restoration(narrator, &photos).await?;
    purge(narrator, &photos).await
}

async fn creation(narrator: &Narrator) -> Result<Photos> {
    step(
        "The annotation of this StorageClass keeps the data of deleted claims for three days. Its\n\
         reclaim policy is Delete: without Volume Warden, the data is deleted with the claim.",
    )?;
    narrator
        .run("cat examples/demo/photo-class.yaml", "")
        .await?;
    let create = "kubectl create -f examples/demo/photo-class.yaml -f examples/demo/photos.yaml";
    narrator.run(create, "photos created").await?;
    narrator.see(PHASE, &["Bound"]).await?;
    step("The nodes are simulated, so the demo writes a file into the volume itself.")?;
    let volume = "kubectl get pvc photos -o jsonpath='{.spec.volumeName}'";
    let volume = narrator.until(volume, &["pvc-"]).await?;
    let directory = format!("kubectl get pv {volume} -o jsonpath='{{.spec.hostPath.path}}'");
    let directory = narrator.until(&directory, &["/"]).await?;
    let write = format!("echo 'the only copy' > {directory}/photo");
    narrator.run(&write, "").await?;
    Ok(Photos { volume, directory })
}

async fn deletion(narrator: &Narrator, photos: &Photos) -> Result<()> {
    step("A user deletes the claim by mistake. The answer says that this can be undone.")?;
    let delete = "kubectl delete pvc photos";
    narrator.run(delete, "volume-warden undelete").await?;
    step("The claim is gone. Its volume is in the trash, with its file.")?;
    narrator
        .see("kubectl get pvc photos", &["NotFound"])
        .await?;
    narrator
        .see("volume-warden trash", &["photos", &photos.volume])
        .await?;
    let list = format!("ls {}", photos.directory);
    narrator.run(&list, "photo").await
}

async fn restoration(narrator: &Narrator, photos: &Photos) -> Result<()> {
    step("The user restores it. This needs permission to create claims, and none on volumes.")?;
    narrator
        .run("volume-warden undelete pvc photos", &photos.volume)
        .await?;
    let read = format!("cat {}/photo", photos.directory);
    narrator.run(&read, "the only copy").await
}

async fn purge(narrator: &Narrator, photos: &Photos) -> Result<()> {
    step(
        "This time the deletion is meant. An administrator does not wait for three days: after the\n\
         purge, the provisioner deletes the data.",
    )?;
    narrator.run("kubectl delete pvc photos", "deleted").await?;
    narrator
        .until("volume-warden trash", &["photos", &photos.volume])
        .await?;
    narrator
        .run("volume-warden purge pvc photos --yes", &photos.volume)
        .await?;
    let get = format!("kubectl get pv {}", photos.volume);
    narrator.see(&get, &["NotFound"]).await?;
    let list = format!("ls {}", photos.directory);
    narrator.see(&list, &["No such file"]).await
}
