//! The fourth story: a build reuses the cache of the build before.

use crate::narrator::{Narrator, step, title};
use anyhow::Result;

/// The volume of the first build, and its directory on this machine.
struct Cache {
    volume: String,
    directory: String,
}

/// Plays the story from the first build to the second one, and cleans up.
pub async fn play(narrator: &Narrator) -> Result<()> {
    title("Fourth story: a pool of build caches")?;
    let cache = first_build(narrator).await?;
    release(narrator, &cache).await?;
    second_build(narrator, &cache).await?;
    end(narrator, &cache).await
}

async fn first_build(narrator: &Narrator) -> Result<Cache> {
    step("This StorageClass has the reclaim policy Retain: its volumes outlive their claims.")?;
    let create = "kubectl create -f examples/demo/cache-class.yaml";
    narrator.run(create, "created").await?;
    step("This pod is a build. Its claim does not exist yet: annotations of the pod describe it.")?;
    narrator.run("cat examples/demo/build.yaml", "").await?;
    let create = "kubectl create -f examples/demo/build.yaml";
    narrator.run(create, "created").await?;
    step(
        "Volume Warden created the claim during the pod's admission, so the pod never exists without\n\
         its claim. The pod now owns the claim.",
    )?;
    narrator.run("kubectl get pvc cache-1", "cache-1").await?;
    let owner = "kubectl get pvc cache-1 -o jsonpath='{.metadata.ownerReferences[0].name}'";
    narrator.see(owner, &["build-1"]).await?;
    narrator
        .see("kubectl get pod build-1", &["Running"])
        .await?;
    step(
        "The pod is simulated, so the demo writes the file that the build would leave in its cache.",
    )?;
    let cache = first_volume(narrator).await?;
    let write = format!("echo warm > {}/cache", cache.directory);
    narrator.run(&write, "").await?;
    Ok(cache)
}

async fn first_volume(narrator: &Narrator) -> Result<Cache> {
    let volume = "kubectl get pvc cache-1 -o jsonpath='{.spec.volumeName}'";
    let volume = narrator.until(volume, &["pvc-"]).await?;
    let directory = format!("kubectl get pv {volume} -o jsonpath='{{.spec.hostPath.path}}'");
    let directory = narrator.until(&directory, &["/"]).await?;
    Ok(Cache { volume, directory })
}

async fn release(narrator: &Narrator, cache: &Cache) -> Result<()> {
    step(
        "The build ends, and its pod is deleted. The claim is deleted with its owner, and Volume Warden\n\
         makes the Released volume Available again.",
    )?;
    narrator
        .run("kubectl delete pod build-1", "deleted")
        .await?;
    narrator
        .see("kubectl get pvc cache-1", &["NotFound"])
        .await?;
    let volume = format!("kubectl get pv {}", cache.volume);
    narrator.see(&volume, &["Available"]).await?;
    let events = format!(
        "kubectl get events -o custom-columns=REASON:.reason --field-selector involvedObject.name={}",
        cache.volume
    );
    narrator.see(&events, &["Associated", "Released"]).await
}

async fn second_build(narrator: &Narrator, cache: &Cache) -> Result<()> {
    step("The next build uses the same annotations, with its own claim.")?;
    let create = "sed -e s/build-1/build-2/ -e s/cache-1/cache-2/ examples/demo/build.yaml | kubectl create -f -";
    narrator.run(create, "created").await?;
    narrator
        .see("kubectl get pod build-2", &["Running"])
        .await?;
    step(
        "Its claim is bound to the volume of the first build, and the cached file is still there.",
    )?;
    narrator
        .see("kubectl get pvc cache-2", &[&cache.volume])
        .await?;
    let read = format!("cat {}/cache", cache.directory);
    narrator.run(&read, "warm").await
}

async fn end(narrator: &Narrator, cache: &Cache) -> Result<()> {
    step("An administrator deletes volumes of the pool: Volume Warden never deletes a volume.")?;
    narrator
        .run("kubectl delete pod build-2", "deleted")
        .await?;
    let volume = format!("kubectl get pv {}", cache.volume);
    narrator.see(&volume, &["Available"]).await?;
    let delete = format!(
        "kubectl delete pv {} && rm -r {}",
        cache.volume, cache.directory
    );
    narrator.run(&delete, "deleted").await
}
