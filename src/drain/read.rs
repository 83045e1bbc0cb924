//! Reads all objects that `drain` needs, live.

use crate::{
    cluster::{
        DEFAULT_CALL_TIMEOUT, Evidence, Feed, Proof, Store, existing, read_all, scoped, within,
    },
    components::pvc_retention::Caches,
    objects::{
        Claim, Pod, StatefulSet, Tracked, TrashList, Volume, VolumeAttachment, VolumeSource,
        volume::Phase,
    },
    telemetry::Metrics,
};
use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// All objects on which Volume Warden may have written, and the objects that decide what is
/// removed.
pub struct ClusterObjects {
    /// The claims, and the StatefulSets and pods that were read after them.
    pub caches: Caches,
    /// The volumes of the whole cluster, also if only one namespace is drained.
    pub volumes: Store<Volume>,
    /// The VolumeAttachments, if volumes are to be purged.
    pub attachments: Store<VolumeAttachment>,
    /// Where the data of the volumes is, if volumes are to be purged.
    pub sources: Store<VolumeSource>,
    /// The lists of deleted claims, which trash-list writes; empty unless `drain` deletes them.
    pub lists: Store<TrashList>,
    /// For how long a purge may rest on these lists.
    pub proof: Proof,
}

/// Maximum age of the evidence for a purge; after a read that took longer, see
/// [`Evidence::proof`].
pub(super) const MAX_AGE: Duration = Duration::from_secs(10);

impl ClusterObjects {
    /// Reads all objects. Pods are read after claims: a claim that is being deleted gets no new
    /// user, so all of its users are found. VolumeAttachments, and where the data of volumes is,
    /// are read only to `purge` volumes, and after the volumes: a volume without a claim is
    /// attached to no further node. `lists` selects whether lists of deleted claims are read.
    ///
    /// # Errors
    /// When a list could not be read, or contradicts another one.
    pub async fn read(
        client: &Client,
        namespace: Option<&str>,
        (purge, lists): (bool, bool),
    ) -> anyhow::Result<Self> {
        let began = Instant::now();
        let claims = read::<Claim>(&scoped(client, namespace)).await?;
        let volumes = read::<Volume>(&Api::all(client.clone())).await?;
        check_consistent(&claims, &volumes, namespace)?;
        let attachments = if purge {
            read::<VolumeAttachment>(&Api::all(client.clone())).await?
        } else {
            Store::default()
        };
        let sources = if purge {
            read::<VolumeSource>(&Api::all(client.clone())).await?
        } else {
            Store::default()
        };
        let lists = if lists {
            read::<TrashList>(&scoped(client, namespace)).await?
        } else {
            Store::default()
        };
        let pods = read::<Pod>(&scoped(client, namespace)).await?;
        let sets = read::<StatefulSet>(&scoped(client, namespace)).await?;
        let metrics = Arc::new(Metrics::new());
        let caches = Caches {
            sets: Feed::listed(sets, metrics.clone()),
            claims: Feed::listed(claims, metrics.clone()),
            pods: Feed::listed(pods, metrics),
        };
        Ok(Self {
            caches,
            volumes,
            attachments,
            sources,
            lists,
            proof: Evidence::new((), began).proof(MAX_AGE),
        })
    }

    /// Returns the number of claims and of volumes.
    pub fn count(&self) -> (usize, usize) {
        (self.caches.claims.read().len(), self.volumes.len())
    }
}

/// Checks that the namespace exists, if one is given.
///
/// # Errors
/// When the namespace could not be read, or does not exist.
pub async fn exists(client: &Client, namespace: Option<&str>) -> anyhow::Result<()> {
    let Some(name) = namespace else {
        return Ok(());
    };
    let api = Api::<Namespace>::all(client.clone());
    let read = within(DEFAULT_CALL_TIMEOUT, api.get_metadata(name)).await;
    if existing(read)
        .with_context(|| format!("the namespace {name} could not be read"))?
        .is_none()
    {
        bail!("there is no namespace {name}");
    }
    Ok(())
}

async fn read<T: Tracked>(api: &Api<T::Wire>) -> anyhow::Result<Store<T>> {
    let kind = T::KIND.plural();
    let read = read_all(api).await;
    read.with_context(|| {
        format!("{kind} could not be read, so drain ends without further removals")
    })
}

/// Checks that the list of claims is plausible: it must not be empty if a volume is bound to a
/// claim of these namespaces.
fn check_consistent(
    claims: &Store<Claim>,
    volumes: &Store<Volume>,
    namespace: Option<&str>,
) -> anyhow::Result<()> {
    let in_scope = |claim: &str| namespace.is_none_or(|namespace| namespace == claim);
    let claimed = volumes.objects().find(|(_, volume)| {
        let claim = volume.claimed_by();
        volume.phase == Phase::Bound && claim.is_some_and(|claim| in_scope(&claim.name.namespace))
    });
    match claimed {
        Some((name, _)) if claims.is_empty() => bail!(
            "the list of claims is empty, but the volume {name} is bound to one, so drain ends \
             without further removals"
        ),
        _ => Ok(()),
    }
}
