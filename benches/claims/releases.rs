//! The time until released volumes are Available again.

use crate::{
    Missed,
    book::{Book, Pages},
    calls::Tally,
    each::{AT_ONCE, each},
    figures::{Times, last_to_last, milliseconds},
    scene,
    size::Size,
};
use anyhow::Result;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams},
};
use serde_json::json;
use std::{collections::BTreeMap, time::Instant};
use volume_warden_controlplane::{Call, Cluster};

const NAMESPACE: &str = "default";
const DEFAULT_ID: &str = "dynamic-reclaimable-pvc-controllers";
const CLAIM_LABEL: &str = "dynamic-pvc-provisioner.kubernetes.io/managed-by";
const VOLUME_LABEL: &str = "reclaimable-pv-releaser.kubernetes.io/managed-by";

/// The states of a volume.
#[derive(Clone, Default)]
struct Life {
    phase: String,
    labelled: bool,
    released: Option<Instant>,
    freed: Option<Instant>,
}

impl Life {
    fn note(&mut self, volume: &PersistentVolume) {
        let now = Instant::now();
        let status = volume.status.as_ref();
        self.phase = status
            .and_then(|status| status.phase.clone())
            .unwrap_or_default();
        self.labelled = volume
            .labels()
            .get(VOLUME_LABEL)
            .is_some_and(|id| id == DEFAULT_ID);
        if self.phase == "Released" {
            self.released.get_or_insert(now);
        }
        let claim = volume
            .spec
            .as_ref()
            .and_then(|spec| spec.claim_ref.as_ref());
        if claim.is_none_or(|claim| claim.uid.is_none()) {
            self.freed.get_or_insert(now);
        }
    }
}

struct Outcome {
    lives: Pages<Life>,
    /// The number of writes by volume.
    writes: BTreeMap<String, usize>,
}

/// Runs the part and prints its table.
pub async fn measure(size: Size) -> Result<Missed> {
    let unlimited = Cluster::without_in_tree()
        .nodes(1)
        .controller_manager_qps(Some((10_000, 10_000)));
    let outcome = scene::on(unlimited, async |cluster| release(cluster, size.pods).await).await?;
    let lives = outcome.lives.values();
    let times: Times = lives
        .clone()
        .filter_map(|life| Some(life.freed?.saturating_duration_since(life.released?)))
        .collect();
    let last = last_to_last(
        lives.clone().filter_map(|life| life.released),
        lives.filter_map(|life| life.freed),
    );
    println!("\n**{} volumes are released**\n", size.pods);
    println!(
        "| free after Released: p50 | p99 | longest | last free, after the last Released | writes to volumes |"
    );
    println!("|---|---|---|---|---|");
    let (cells, longest) = (times.cells(), milliseconds(times.percentile(100)));
    let (last, writes) = (milliseconds(last), outcome.writes.values().sum::<usize>());
    println!("| {cells} | {longest} | {last} | {writes} |");
    let once = outcome.writes.values().filter(|count| **count == 1);
    let other = size.pods - once.count();
    let missed = (other > 0).then(|| {
        let twice = outcome.writes.into_iter().filter(|(_, count)| *count > 1);
        let twice: Vec<_> = twice.map(|(name, _)| name).collect();
        format!("{other} volumes were not written once; more often: {twice:?}")
    });
    Ok(missed.into_iter().collect())
}

/// Creates each volume for a managed claim, so that Volume Warden labels the volume. Then deletes
/// the claims, and waits until the volumes are Available.
async fn release(cluster: &Cluster, count: usize) -> Result<Outcome> {
    let volumes: Api<PersistentVolume> = Api::all(cluster.client());
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(cluster.client(), NAMESPACE);
    let _warden = scene::served(cluster).await?;
    let mut book = Book::open(&volumes, Life::note).await?;
    each(count, AT_ONCE, async |index| {
        let parameters = PostParams::default();
        volumes.create(&parameters, &volume(index)?).await?;
        claims.create(&parameters, &claim(index)?).await?;
        Ok(())
    })
    .await?;
    book.once(count, |life| life.phase == "Bound" && life.labelled)
        .await?;
    // The watch shows a write a moment before the audit log.
    let audit = cluster.audit();
    Tally::settled(&audit, audit.mark()?).await?;
    let mark = audit.mark()?;
    each(count, AT_ONCE, async |index| {
        claims
            .delete(&name(index), &DeleteParams::default())
            .await?;
        Ok(())
    })
    .await?;
    let lives = book
        .once(count, |life| life.phase == "Available" && !life.labelled)
        .await?;
    Tally::settled(&audit, mark).await?;
    let calls = audit.since(mark)?.by_user_agent("volume-warden/");
    let mut writes = BTreeMap::new();
    for call in calls.writes().iter().filter(|call| is_a_volumes(call)) {
        *writes.entry(call.name.clone()).or_default() += 1;
    }
    Ok(Outcome { lives, writes })
}

/// Whether a write is to a volume and successful. A conflict does not count as a write.
fn is_a_volumes(call: &Call) -> bool {
    call.resource == "persistentvolumes" && call.code == 200
}

fn name(index: usize) -> String {
    format!("released-{index:05}")
}

fn volume(index: usize) -> Result<PersistentVolume> {
    let name = name(index);
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": NAMESPACE, "name": name},
            "hostPath": {"path": format!("/tmp/{name}")},
            "persistentVolumeReclaimPolicy": "Retain",
        },
    }))?)
}

fn claim(index: usize) -> Result<PersistentVolumeClaim> {
    let name = name(index);
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {CLAIM_LABEL: DEFAULT_ID}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
            "volumeName": name,
        },
    }))?)
}
