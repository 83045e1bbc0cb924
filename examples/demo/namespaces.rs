//! The fifth story: storage with one directory per namespace.

use crate::narrator::{Narrator, step, title};
use anyhow::Result;

/// Plays the story from a namespace's first volume to the removal of its directory.
pub async fn play(narrator: &Narrator, root: &str) -> Result<()> {
    title("Fifth story: the directory of a deleted namespace")?;
    life(narrator, root).await?;
    deletion(narrator, root).await?;
    end(narrator, root).await
}

async fn life(narrator: &Narrator, root: &str) -> Result<()> {
    step(
        "This storage has one directory per namespace. Volume Warden was started with\n\
         --storage-backend=directory, and recognizes the storage by its marker file:",
    )?;
    let list = format!("ls -A {root}");
    narrator.run(&list, ".volume-warden-root").await?;
    step("An administrator creates a volume there, and a claim in the namespace is bound to it.")?;
    let make = format!("mkdir -p {root}/shop/goods && echo tea > {root}/shop/goods/list");
    narrator.run(&make, "").await?;
    let create = format!("sed 's|ROOT|{root}|' examples/demo/namespace.yaml | kubectl create -f -");
    narrator.run(&create, "namespace/shop created").await?;
    narrator
        .see("kubectl -n shop get pvc goods", &["Bound"])
        .await
}

async fn deletion(narrator: &Narrator, root: &str) -> Result<()> {
    step(
        "The namespace is deleted. Its directory is not empty, so Volume Warden keeps it and publishes\n\
         an Event: it never removes data, and retries later.",
    )?;
    narrator
        .run("kubectl delete namespace shop", "deleted")
        .await?;
    event_published(narrator, "NamespaceNotEmpty").await?;
    narrator
        .run(&format!("cat {root}/shop/goods/list"), "tea")
        .await
}

async fn end(narrator: &Narrator, root: &str) -> Result<()> {
    step("The administrator deletes the volume and its data.")?;
    let delete = format!("kubectl delete pv shop-goods && rm -r {root}/shop/goods");
    narrator.run(&delete, "deleted").await?;
    step(
        "The next collection, about 30 seconds after the first, removes the empty directory. (Outside\n\
         of this demo, a directory must first be unchanged for one minute: --gc-grace.)",
    )?;
    let removed = format!("test -e {root}/shop || echo it is removed");
    narrator.see(&removed, &["it is removed"]).await?;
    event_published(narrator, "NamespaceDeleted").await
}

/// Events about objects without a namespace are recorded on Volume Warden's Lease.
async fn event_published(narrator: &Narrator, reason: &str) -> Result<()> {
    let events = format!(
        "kubectl -n volume-warden get events -o custom-columns=REASON:.reason,MESSAGE:.message --field-selector reason={reason}"
    );
    narrator.see(&events, &[reason, "namespace shop"]).await
}
