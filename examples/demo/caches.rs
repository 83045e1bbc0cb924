//! The fourth story: builds that find the cache of the build before.

use crate::narrator::{Narrator, step, title};
use anyhow::Result;

/// The volume of the first build, and where it is on this machine.
struct Cache {
    volume: String,
    directory: String,
}

/// Plays it from the first build to the second one, and cleans up.
pub async fn play(narrator: &Narrator) -> Result<()> {
    title("Fourth story: a pool of build caches")?;
    let cache = first_build(narrator).await?;
    in_between(narrator, &cache).await?;
    second_build(narrator, &cache).await?;
    end(narrator, &cache).await
}

async fn first_build(narrator: &Narrator) -> Result<Cache> {
    step("Here is a class whose volumes outlive their claims.")?;
    let create = "kubectl create -f examples/demo/cache-class.yaml";
    narrator.run(create, "created").await?;
    step(
        "And here a build. Nobody makes a claim for it: what it needs is said in its annotations.",
    )?;
    narrator.run("cat examples/demo/build.yaml", "").await?;
    let create = "kubectl create -f examples/demo/build.yaml";
    narrator.run(create, "created").await?;
    step(
        "Volume Warden made the claim while the pod was being created, so there is no moment at which\n\
         the pod is there and its claim is not. By now the pod owns it.",
    )?;
    narrator.run("kubectl get pvc cache-1", "cache-1").await?;
    let owner = "kubectl get pvc cache-1 -o jsonpath='{.metadata.ownerReferences[0].name}'";
    narrator.see(owner, &["build-1"]).await?;
    narrator
        .see("kubectl get pod build-1", &["Running"])
        .await?;
    step("The pod is simulated, so we write what the build would leave behind.")?;
    let cache = found(narrator).await?;
    let write = format!("echo warm > {}/cache", cache.directory);
    narrator.run(&write, "").await?;
    Ok(cache)
}

async fn found(narrator: &Narrator) -> Result<Cache> {
    let volume = "kubectl get pvc cache-1 -o jsonpath='{.spec.volumeName}'";
    let volume = narrator.until(volume, &["pvc-"]).await?;
    let directory = format!("kubectl get pv {volume} -o jsonpath='{{.spec.hostPath.path}}'");
    let directory = narrator.until(&directory, &["/"]).await?;
    Ok(Cache { volume, directory })
}

async fn in_between(narrator: &Narrator, cache: &Cache) -> Result<()> {
    step(
        "The build ends, and its pod is deleted. The claim goes with it, and the volume is not left\n\
         Released, but made Available again.",
    )?;
    narrator
        .run("kubectl delete pod build-1", "deleted")
        .await?;
    narrator
        .see("kubectl get pvc cache-1", &["NotFound"])
        .await?;
    let volume = format!("kubectl get pv {}", cache.volume);
    narrator.see(&volume, &["Available"]).await?;
    let told = format!(
        "kubectl get events -o custom-columns=REASON:.reason --field-selector involvedObject.name={}",
        cache.volume
    );
    narrator.see(&told, &["Associated", "Released"]).await
}

async fn second_build(narrator: &Narrator, cache: &Cache) -> Result<()> {
    step("The next build comes from the same template, with a claim of its own.")?;
    let create = "sed -e s/build-1/build-2/ -e s/cache-1/cache-2/ examples/demo/build.yaml | kubectl create -f -";
    narrator.run(create, "created").await?;
    narrator
        .see("kubectl get pod build-2", &["Running"])
        .await?;
    step("It got the volume of the first, and what is on it.")?;
    narrator
        .see("kubectl get pvc cache-2", &[&cache.volume])
        .await?;
    let read = format!("cat {}/cache", cache.directory);
    narrator.run(&read, "warm").await
}

async fn end(narrator: &Narrator, cache: &Cache) -> Result<()> {
    step("Emptying the pool is left to the administrator: Volume Warden never deletes a volume.")?;
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
