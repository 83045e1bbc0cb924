//! The examples of plumber-cd's controllers, with pvc-provisioner, pv-releaser, kube-scheduler, and
//! files in real directories.

use super::{
    claim_requests::requesting_pod,
    directories::directory,
    support::{DEFAULT_ID, LABEL, VolumeSpace},
};
use crate::support::guarded;
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::PersistentVolume;
use kube::{ResourceExt, api::ListParams};
use std::fs;

/// 3.1, PR-28: a pod that is deleted and created again has the same volume and file.
#[tokio::test]
async fn basic() -> Result<()> {
    let volume_space = VolumeSpace::new(guarded().await?, "basic").await?;
    let class = volume_space.id();
    volume_space
        .create_class(class, "WaitForFirstConsumer")
        .await?;
    let request = (
        "reclaimable-pvc".to_owned(),
        class.to_owned(),
        "reclaimable-pvc".to_owned(),
    );
    let pod = requesting_pod(
        "pod-with-dynamic-reclaimable-pvc",
        &[request],
        &[("foo.enabled", "false")],
    )?;
    let mut first = None;
    for times in [1, 2] {
        let volume = volume_space.run(&pod).await?.pop().context("a volume")?;
        volume_space
            .pods_have_events("PVCProvisioned", times)
            .await?;
        volume_space
            .volume_has_events(&volume, "Associated", times)
            .await?;
        let file = directory(&volume)?.join("file");
        match &first {
            None => fs::write(&file, "kept")?,
            Some(first) => assert_eq!(*first, volume.name_any()),
        }
        let current = volume_space.space.volumes.get(&volume.name_any()).await?;
        assert_eq!(
            current.labels().get(LABEL).map(String::as_str),
            Some(DEFAULT_ID)
        );
        volume_space.space.delete_pod(&pod.name_any()).await?;
        volume_space.space.claim_is_gone("reclaimable-pvc").await?;
        volume_space.has_free_volumes(class, 1).await?;
        volume_space
            .volume_has_events(&volume, "Released", times)
            .await?;
        assert_eq!(fs::read_to_string(&file)?, "kept");
        first = Some(volume.name_any());
    }
    let events = volume_space
        .space
        .events
        .list(&ListParams::default())
        .await?;
    let about_foo = |text: &String| text.contains("foo");
    let about_foo = events
        .iter()
        .filter(|event| event.message.as_ref().is_some_and(about_foo));
    assert_eq!(about_foo.count(), 0);
    delete_volumes(&volume_space, &[class.to_owned()]).await
}

/// Deletes the volumes of the classes and their directories.
async fn delete_volumes(volume_space: &VolumeSpace, classes: &[String]) -> Result<()> {
    for class in classes {
        for volume in volume_space.volumes_of(class).await? {
            volume_space.delete_with_data(&volume).await?;
        }
    }
    Ok(())
}

/// Build pods, each with a cache volume of every kind that it requests.
struct Builds {
    volume_space: VolumeSpace,
}

impl Builds {
    fn class(&self, kind: &str) -> String {
        format!("{}-{kind}-cache", self.volume_space.id())
    }

    /// Starts a build. Returns its caches in the order of their kinds. Each claim has a unique
    /// name, as with Jenkins.
    async fn begin(&self, build: &str, kinds: &[&str]) -> Result<Vec<PersistentVolume>> {
        let request = |kind: &&str| {
            let claim = format!("{:032x}", fastrand::u128(..));
            (format!("{kind}-cache"), self.class(kind), claim)
        };
        let requests: Vec<_> = kinds.iter().map(request).collect();
        let pod = requesting_pod(build, &requests, &[])?;
        self.volume_space.run(&pod).await
    }

    async fn end(&self, builds: &[&str]) -> Result<()> {
        for build in builds {
            self.volume_space.space.delete_pod(build).await?;
        }
        Ok(())
    }

    /// Waits until both kinds have exactly `count` caches, and no build uses one.
    async fn are_pooled(&self, count: usize) -> Result<()> {
        for kind in KINDS {
            self.volume_space
                .has_free_volumes(&self.class(kind), count)
                .await?;
        }
        Ok(())
    }
}

const KINDS: [&str; 2] = ["maven", "golang"];

fn names(caches: &[PersistentVolume]) -> Vec<String> {
    caches.iter().map(ResourceExt::name_any).collect()
}

/// 3.2, PR-29: later builds reuse the caches, and concurrent builds share none.
#[tokio::test]
async fn jenkins_build_cache() -> Result<()> {
    let builds = Builds {
        volume_space: VolumeSpace::new(guarded().await?, "jenkins").await?,
    };
    let classes = ["maven", "golang", "node"].map(|kind| builds.class(kind));
    for class in &classes {
        builds
            .volume_space
            .create_class(class, "WaitForFirstConsumer")
            .await?;
    }

    let first = builds.begin("first", &KINDS).await?;
    builds
        .volume_space
        .pods_have_events("PVCProvisioned", 2)
        .await?;
    for (cache, kind) in first.iter().zip(KINDS) {
        fs::write(directory(cache)?.join("artefact"), kind)?;
    }
    builds.end(&["first"]).await?;
    builds.are_pooled(1).await?;

    let second = builds.begin("second", &KINDS).await?;
    assert_eq!(names(&second), names(&first));
    for (cache, kind) in second.iter().zip(KINDS) {
        let artefact = fs::read_to_string(directory(cache)?.join("artefact"))?;
        assert_eq!(artefact, kind, "the content of a reused cache");
    }
    builds.end(&["second"]).await?;
    builds.are_pooled(1).await?;

    let (third, fourth) = futures::future::try_join(
        builds.begin("third", &KINDS),
        builds.begin("fourth", &KINDS),
    )
    .await?;
    for (a, b) in names(&third).iter().zip(names(&fourth)) {
        assert_ne!(*a, b, "two builds use the same volume");
    }
    builds.end(&["third", "fourth"]).await?;
    // There are as many caches as were in use at the same time.
    builds.are_pooled(2).await?;

    let pooled: Vec<_> = names(&[third, fourth].concat());
    let fifth = names(&builds.begin("fifth", &KINDS).await?);
    ensure!(
        fifth.iter().all(|cache| pooled.contains(cache)),
        "{fifth:?}"
    );
    let node = names(&builds.begin("sixth", &["node"]).await?);
    ensure!(node.iter().all(|cache| !pooled.contains(cache)), "{node:?}");
    builds.end(&["fifth", "sixth"]).await?;
    builds.are_pooled(2).await?;
    builds.volume_space.has_free_volumes(&classes[2], 1).await?;
    delete_volumes(&builds.volume_space, &classes).await
}
