//! The fifth story: storage with a directory for each namespace.

use crate::narrator::{Narrator, step, title};
use anyhow::Result;

/// Plays it from a namespace's first volume to the end of its directory.
pub async fn play(narrator: &Narrator, root: &str) -> Result<()> {
    title("Fifth story: what a namespace leaves behind")?;
    life(narrator, root).await?;
    deletion(narrator, root).await?;
    end(narrator, root).await
}

async fn life(narrator: &Narrator, root: &str) -> Result<()> {
    step(
        "This storage has a directory for each namespace. Volume Warden was started with\n\
         --storage-backend=directory, and takes it for the right one because of the file in it.",
    )?;
    let list = format!("ls -A {root}");
    narrator.run(&list, ".volume-warden-root").await?;
    step("An administrator makes a volume there by hand, and a namespace claims it.")?;
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
        "The namespace is deleted. Its directory is not empty, so it stays, and Volume Warden says\n\
         so: it removes no data, and tries again later.",
    )?;
    narrator
        .run("kubectl delete namespace shop", "deleted")
        .await?;
    told(narrator, "NamespaceNotEmpty").await?;
    narrator
        .run(&format!("cat {root}/shop/goods/list"), "tea")
        .await
}

async fn end(narrator: &Narrator, root: &str) -> Result<()> {
    step("The administrator has no use for the volume any more, and takes away what was in it.")?;
    let delete = format!("kubectl delete pv shop-goods && rm -r {root}/shop/goods");
    narrator.run(&delete, "deleted").await?;
    step(
        "The next look, about half a minute after the first, finds it empty, and it goes. (Outside of\n\
         this demo it waits until a directory has not changed for a minute: --gc-grace.)",
    )?;
    let look = format!("test -e {root}/shop || echo it is gone");
    narrator.see(&look, &["it is gone"]).await?;
    told(narrator, "NamespaceDeleted").await
}

/// Events about what is in no namespace any more are on our Lease.
async fn told(narrator: &Narrator, reason: &str) -> Result<()> {
    let events = format!(
        "kubectl -n volume-warden get events -o custom-columns=REASON:.reason,MESSAGE:.message --field-selector reason={reason}"
    );
    narrator.see(&events, &[reason, "namespace shop"]).await
}
