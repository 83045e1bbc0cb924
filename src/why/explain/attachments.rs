//! Finds the VolumeAttachments of volumes.

use crate::why::{Cause, Code, Evidence, LiveReads, Selection};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::ResourceExt;
use std::sync::Arc;

/// All VolumeAttachments; none if they could not be read.
pub(super) fn all(reads: &LiveReads) -> Option<Arc<Vec<VolumeAttachment>>> {
    let all = reads.list::<VolumeAttachment>("", Selection::default());
    all.found()
}

/// Returns those of the `attachments` whose volume has this name.
pub(super) fn of<'a>(
    attachments: &'a [VolumeAttachment],
    volume: &'a str,
) -> impl Iterator<Item = &'a VolumeAttachment> {
    let of_it = move |each: &&VolumeAttachment| volume_name(each) == Some(volume);
    attachments.iter().filter(of_it)
}

/// The volume that is attached; none for an inline volume of a pod.
pub(super) fn volume_name(attachment: &VolumeAttachment) -> Option<&str> {
    let source = &attachment.spec.source;
    source.persistent_volume_name.as_deref()
}

/// The cause that a volume is attached to a node, or that its detachment is not confirmed: its
/// VolumeAttachment exists.
pub(super) fn attached(attachment: &VolumeAttachment) -> Cause {
    let (node, name) = (&attachment.spec.node_name, attachment.name_any());
    let sentence = format!(
        "The VolumeAttachment {name} exists: the volume is still attached to the node {node}, or \
         its detachment is not confirmed yet."
    );
    let evidence = Evidence::new(format!("VolumeAttachment {name}"), "spec.nodeName")
        .since(attachment.creation_timestamp().map(|time| time.0));
    Cause::new(Code::Attached, sentence, evidence).run(
        format!("kubectl describe volumeattachment {name}"),
        "to see what the detachment waits for: mostly a pod on that node, or the node itself",
    )
}
