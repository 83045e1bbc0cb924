//! The steady state: the sets have the pods they want, their claims match the policy, and no
//! controller has pending work.

use super::{
    model::{Found, set_and_ordinal},
    steps::Spec,
};
use crate::pvc_retention::support::{MARK, SetSpace};
use anyhow::{Context, Result, ensure};
use k8s_openapi::{api::apps::v1::StatefulSet, api::core::v1::PersistentVolumeClaim};
use kube::{
    ResourceExt,
    api::{ListParams, ObjectList},
};
use std::collections::{BTreeMap, BTreeSet};

type Specs = BTreeMap<&'static str, Spec>;

/// The claims; fails unless the steady state is reached.
pub async fn at_rest(space: &SetSpace, specs: &Specs) -> Result<Vec<Found>> {
    let all = ListParams::default();
    let sets = sets_at_rest(space.sets.list(&all).await?, specs)?;
    let mut alive: BTreeSet<_> = sets.values().cloned().collect();
    let pods = space.space.pods.list(&all).await?;
    let mut owned: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for pod in &pods {
        let name = pod.name_any();
        ensure!(pod.metadata.deletion_timestamp.is_none(), "{name} ends");
        for owner in pod.owner_references() {
            ensure!(alive.contains(&owner.uid), "{name} is without its set");
            let set = sets.iter().find(|(_, uid)| **uid == owner.uid);
            let (set, _) = set.context("a pod of a pod")?;
            owned.entry(set).or_default().insert(name.clone());
        }
    }
    for (set, spec) in specs {
        let wanted = spec.start..spec.start + spec.replicas;
        let wanted: BTreeSet<_> = wanted.map(|ordinal| format!("{set}-{ordinal}")).collect();
        let there = owned.remove(set).unwrap_or_default();
        ensure!(there == wanted, "{set} has {there:?} and wants {wanted:?}");
    }
    alive.extend(pods.iter().filter_map(ResourceExt::uid));
    let claims = space.space.claims.list(&all).await?;
    for claim in &claims {
        claim_at_rest(claim, &alive, &sets, specs).with_context(|| claim.name_any())?;
    }
    claims.iter().map(found).collect()
}

/// The sets' uids by their names.
fn sets_at_rest(sets: ObjectList<StatefulSet>, specs: &Specs) -> Result<BTreeMap<String, String>> {
    let names: BTreeSet<_> = sets.iter().map(ResourceExt::name_any).collect();
    let wanted: BTreeSet<_> = specs.keys().map(|name| (*name).to_owned()).collect();
    ensure!(names == wanted, "there are {names:?}, and not {wanted:?}");
    for set in &sets {
        let name = set.name_any();
        ensure!(set.metadata.deletion_timestamp.is_none(), "{name} ends");
        let seen = set.status.as_ref().and_then(|it| it.observed_generation);
        ensure!(seen == set.metadata.generation, "{name} is not seen yet");
    }
    let uid = |set: StatefulSet| set.uid().map(|uid| (set.name_any(), uid)).context("a uid");
    sets.into_iter().map(uid).collect()
}

fn claim_at_rest(
    claim: &PersistentVolumeClaim,
    alive: &BTreeSet<String>,
    sets: &BTreeMap<String, String>,
    specs: &Specs,
) -> Result<()> {
    ensure!(claim.metadata.deletion_timestamp.is_none(), "ends");
    let owners: Vec<_> = claim.owner_references().iter().map(|it| &it.uid).collect();
    ensure!(
        owners.iter().all(|uid| alive.contains(*uid)),
        "an owner is gone"
    );
    let Some((set, ordinal)) = set_and_ordinal(&claim.name_any()) else {
        return Ok(());
    };
    let (Some(spec), Some(uid)) = (specs.get(set), sets.get(set)) else {
        return Ok(());
    };
    let wanted = spec.deletes_with_set().then_some(uid);
    ensure!(
        owners == Vec::from_iter(wanted),
        "owners {owners:?} and not {wanted:?}"
    );
    // A claim with the mark that is out of range is to be deleted.
    let is_marked = claim.annotations().get(MARK) == Some(uid);
    let wants_mark = spec.deletes_when_scaled() && spec.wants(ordinal);
    ensure!(is_marked == wants_mark, "marked: {is_marked}");
    Ok(())
}

/// Claims that exist and are not being deleted.
pub async fn there(space: &SetSpace) -> Result<Vec<Found>> {
    let claims = space.space.claims.list(&ListParams::default()).await?;
    let stays = |claim: &&PersistentVolumeClaim| claim.metadata.deletion_timestamp.is_none();
    claims.iter().filter(stays).map(found).collect()
}

fn found(claim: &PersistentVolumeClaim) -> Result<Found> {
    Ok(Found {
        name: claim.name_any(),
        uid: claim.uid().context("a uid")?,
    })
}
