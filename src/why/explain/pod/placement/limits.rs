//! Compares how many volumes of a CSI driver are attached to a node with how many may be.

use crate::why::{
    Cause, Code, Evidence, LiveReads, Selection,
    explain::{attachments, quote},
    read::PersistentVolume,
};
use k8s_openapi::api::{
    core::v1::Node,
    storage::v1::{CSINode, VolumeAttachment},
};
use kube::ResourceExt;
use std::collections::BTreeSet;

/// The CSI driver of the volume.
pub(super) fn driver(volume: &PersistentVolume) -> Option<&str> {
    let source = volume.spec.as_ref()?.csi.as_ref()?;
    Some(&source.driver)
}

/// The cause that none of these nodes may attach the volumes of the pod, because of the limit of a
/// CSI driver. Empty if one of them may, or if there are no nodes. None if an object could not be
/// read.
pub(super) fn cause(
    reads: &LiveReads,
    volumes: &[PersistentVolume],
    nodes: &[&Node],
) -> Option<Vec<Cause>> {
    if nodes.is_empty() || volumes.iter().all(|volume| driver(volume).is_none()) {
        return Some(Vec::new());
    }
    let csi_nodes = reads.list::<CSINode>("", Selection::default()).found()?;
    // The VolumeAttachments are read only if a driver has a limit.
    let limited = |each: &CSINode| {
        each.spec
            .drivers
            .iter()
            .any(|each| each.allocatable.is_some())
    };
    if !csi_nodes.iter().any(limited) {
        return Some(Vec::new());
    }
    let attachments = attachments::all(reads)?;
    let full: Option<Vec<Full>> = nodes
        .iter()
        .map(|node| Full::of(&node.name_any(), volumes, &csi_nodes, &attachments))
        .collect();
    Some(full.and_then(|full| report(&full)).into_iter().collect())
}

/// A node without room for the pod's volumes.
struct Full {
    node: String,
    driver: String,
    attached: usize,
    limit: usize,
}

impl Full {
    fn of(
        node: &str,
        volumes: &[PersistentVolume],
        csi_nodes: &[CSINode],
        attachments: &[VolumeAttachment],
    ) -> Option<Self> {
        let csi_node = csi_nodes.iter().find(|each| each.name_any() == node)?;
        let wanted: BTreeSet<_> = volumes.iter().filter_map(|volume| driver(volume)).collect();
        wanted.into_iter().find_map(|driver| {
            let has = csi_node
                .spec
                .drivers
                .iter()
                .find(|each| each.name == driver)?;
            let limit = usize::try_from(has.allocatable.as_ref()?.count?).ok()?;
            let here = attachments
                .iter()
                .filter(|each| each.spec.node_name == node && each.spec.attacher == driver);
            let attached: BTreeSet<_> = here.filter_map(attachments::volume_name).collect();
            // The pod may name a claim several times.
            let own = volumes
                .iter()
                .filter(|volume| self::driver(volume) == Some(driver));
            let own: BTreeSet<_> = own.map(ResourceExt::name_any).collect();
            let more = own.iter().filter(|name| !attached.contains(name.as_str()));
            (attached.len() + more.count() > limit).then(|| Self {
                node: node.to_owned(),
                driver: driver.to_owned(),
                attached: attached.len(),
                limit,
            })
        })
    }
}

fn report(full: &[Full]) -> Option<Cause> {
    let first = full.first()?;
    let each = full.iter().map(|full| {
        format!(
            "{} has {} of {} attached",
            full.node, full.attached, full.limit
        )
    });
    let each: Vec<_> = each.collect();
    let sentence = format!(
        "No node on which the pod can be scheduled and that can use its volumes has room for another volume of the CSI driver {}: {}.",
        first.driver,
        quote::first(&each, super::NAMED)
    );
    let field = format!("spec.drivers[{}].allocatable.count", first.driver);
    let evidence = Evidence::new(format!("CSINode {}", first.node), field);
    Some(Cause::new(Code::TooManyVolumes, sentence, evidence).run(
        "kubectl get volumeattachments",
        "to see which volumes are attached; the pod gets a node once a pod with such a volume has ended, \
         or on a new node",
    ))
}
