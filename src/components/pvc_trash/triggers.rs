//! Enqueues volumes for the reconciler of pvc-trash when related objects change.

use super::caches::{Caches, requested};
use crate::{
    cluster::{Change, WorkQueue},
    objects::{Claim, ObjectName, Volume},
};
use std::sync::Arc;

/// Enqueues a volume when it, its claim, its StorageClass or a claim that requests it changes.
pub fn listen(caches: &Caches, queue: &Arc<WorkQueue<ObjectName>>) {
    let (line, classes) = (queue.clone(), caches.classes.clone());
    caches.volumes.listen(move |change| {
        let class = |volume: &Volume| classes.read().get(&ObjectName::new("", &*volume.class));
        if change
            .new
            .is_some_and(|volume| volume.trash.is_some() || class(volume).is_some())
        {
            line.add(change.name.clone());
        }
    });
    let (line, volumes) = (queue.clone(), caches.volumes.clone());
    caches.claims.listen(move |change| {
        if !concerns_us(change) {
            return;
        }
        let (claimed, named) = {
            let volumes = volumes.read();
            let claimed: Vec<_> = volumes.names_referring_to(change.name).cloned().collect();
            (claimed, change.new.and_then(|claim| requested(claim)))
        };
        let named = named.map(|volume| ObjectName::new("", volume));
        claimed
            .into_iter()
            .chain(named)
            .for_each(|volume| line.add(volume));
    });
    let (line, volumes) = (queue.clone(), caches.volumes.clone());
    caches.classes.listen(move |change| {
        let class = &*change.name.name;
        let of_class = volumes.read().names_where(|volume| &*volume.class == class);
        of_class.into_iter().for_each(|volume| line.add(volume));
    });
}

/// Returns whether the rule may decide otherwise after the change. It does not read the annotation
/// that Volume Warden changes until a claim is Bound.
fn concerns_us(change: &Change<'_, Claim>) -> bool {
    let looked_at = |claim: &Arc<Claim>| {
        let Claim {
            uid,
            deleting,
            pending,
            volume_name,
            trash,
            ..
        } = &**claim;
        (
            uid.clone(),
            *deleting,
            *pending,
            volume_name.clone(),
            trash.clone(),
        )
    };
    change.old.map(looked_at) != change.new.map(looked_at)
}
