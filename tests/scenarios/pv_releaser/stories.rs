//! The stories of the original's examples, with both components, the scheduler, and real files in
//! real directories.

use super::{
    asking::asking,
    directories::directory,
    support::{DEFAULT_ID, Estate, LABEL},
};
use crate::support::guarded;
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::PersistentVolume;
use kube::{ResourceExt, api::ListParams};
use std::fs;

/// 3.1, PR-28: a pod, deleted and applied again, finds its file.
#[tokio::test]
async fn basic() -> Result<()> {
    let estate = Estate::new(guarded().await?, "basic").await?;
    let class = estate.id();
    estate.create_class(class, "WaitForFirstConsumer").await?;
    let wish = (
        "reclaimable-pvc".to_owned(),
        class.to_owned(),
        "reclaimable-pvc".to_owned(),
    );
    let pod = asking(
        "pod-with-dynamic-reclaimable-pvc",
        &[wish],
        &[("foo.enabled", "false")],
    )?;
    let mut first = None;
    for times in [1, 2] {
        let volume = estate.run(&pod).await?.pop().context("a volume")?;
        estate.pods_were_reported("PVCProvisioned", times).await?;
        estate
            .volume_was_reported(&volume, "Associated", times)
            .await?;
        let file = directory(&volume)?.join("file");
        match &first {
            None => fs::write(&file, "kept")?,
            Some(first) => assert_eq!(*first, volume.name_any()),
        }
        let label = estate.space.volumes.get(&volume.name_any()).await?;
        assert_eq!(
            label.labels().get(LABEL).map(String::as_str),
            Some(DEFAULT_ID)
        );
        estate.space.delete_pod(&pod.name_any()).await?;
        estate.space.claim_is_gone("reclaimable-pvc").await?;
        estate.is_pool_of(class, 1).await?;
        estate
            .volume_was_reported(&volume, "Released", times)
            .await?;
        assert_eq!(fs::read_to_string(&file)?, "kept");
        first = Some(volume.name_any());
    }
    let events = estate.space.events.list(&ListParams::default()).await?;
    let about_foo = |text: &String| text.contains("foo");
    let about_foo = events
        .iter()
        .filter(|event| event.message.as_ref().is_some_and(about_foo));
    assert_eq!(about_foo.count(), 0);
    clear(&estate, &[class.to_owned()]).await
}

async fn clear(estate: &Estate, classes: &[String]) -> Result<()> {
    for class in classes {
        for volume in estate.volumes_of(class).await? {
            estate.throw_away(&volume).await?;
        }
    }
    Ok(())
}

/// Builds, each with a cache of every kind it names.
struct Builds {
    estate: Estate,
}

impl Builds {
    fn class(&self, kind: &str) -> String {
        format!("{}-{kind}-cache", self.estate.id())
    }

    /// Starts one; returns its caches in the order of their kinds. As Jenkins does it, every claim
    /// has a name of its own.
    async fn begin(&self, build: &str, kinds: &[&str]) -> Result<Vec<PersistentVolume>> {
        let wish = |kind: &&str| {
            let claim = format!("{:032x}", fastrand::u128(..));
            (format!("{kind}-cache"), self.class(kind), claim)
        };
        let wishes: Vec<_> = kinds.iter().map(wish).collect();
        self.estate.run(&asking(build, &wishes, &[])?).await
    }

    async fn end(&self, builds: &[&str]) -> Result<()> {
        for build in builds {
            self.estate.space.delete_pod(build).await?;
        }
        Ok(())
    }

    /// Of both kinds, this number of caches exists, and no build uses one.
    async fn are_pooled(&self, count: usize) -> Result<()> {
        for kind in BOTH {
            self.estate.is_pool_of(&self.class(kind), count).await?;
        }
        Ok(())
    }
}

const BOTH: [&str; 2] = ["maven", "golang"];

fn names(caches: &[PersistentVolume]) -> Vec<String> {
    caches.iter().map(ResourceExt::name_any).collect()
}

/// 3.2, PR-29
#[tokio::test]
async fn jenkins_build_cache() -> Result<()> {
    let builds = Builds {
        estate: Estate::new(guarded().await?, "jenkins").await?,
    };
    let classes = ["maven", "golang", "node"].map(|kind| builds.class(kind));
    for class in &classes {
        builds
            .estate
            .create_class(class, "WaitForFirstConsumer")
            .await?;
    }

    let first = builds.begin("first", &BOTH).await?;
    builds
        .estate
        .pods_were_reported("PVCProvisioned", 2)
        .await?;
    for (cache, kind) in first.iter().zip(BOTH) {
        fs::write(directory(cache)?.join("artefact"), kind)?;
    }
    builds.end(&["first"]).await?;
    builds.are_pooled(1).await?;

    let second = builds.begin("second", &BOTH).await?;
    assert_eq!(names(&second), names(&first));
    for (cache, kind) in second.iter().zip(BOTH) {
        let artefact = fs::read_to_string(directory(cache)?.join("artefact"))?;
        assert_eq!(artefact, kind, "a warm cache");
    }
    builds.end(&["second"]).await?;
    builds.are_pooled(1).await?;

    let (third, fourth) =
        futures::future::try_join(builds.begin("third", &BOTH), builds.begin("fourth", &BOTH))
            .await?;
    for (a, b) in names(&third).iter().zip(names(&fourth)) {
        assert_ne!(*a, b, "two pods on one volume");
    }
    builds.end(&["third", "fourth"]).await?;
    // As many as were in use at once.
    builds.are_pooled(2).await?;

    let pooled: Vec<_> = names(&[third, fourth].concat());
    let fifth = names(&builds.begin("fifth", &BOTH).await?);
    ensure!(
        fifth.iter().all(|cache| pooled.contains(cache)),
        "{fifth:?}"
    );
    let node = names(&builds.begin("sixth", &["node"]).await?);
    ensure!(node.iter().all(|cache| !pooled.contains(cache)), "{node:?}");
    builds.end(&["fifth", "sixth"]).await?;
    builds.are_pooled(2).await?;
    builds.estate.is_pool_of(&classes[2], 1).await?;
    clear(&builds.estate, &classes).await
}
