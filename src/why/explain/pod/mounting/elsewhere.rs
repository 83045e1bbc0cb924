//! Finds a volume of a pod that the attach-detach controller does not attach to the pod's node,
//! because it is attached to another node.
//!
//! The controller reports that by an Event only once for a volume and a node, and the kubelet
//! reports no Event when it stops waiting for the volume. So the VolumeAttachments are compared,
//! which exist for as long as the volume is attached. Source: `isMultiAttachAllowed` and
//! `reportMultiAttachError` in `pkg/controller/volume/attachdetach` of Kubernetes.

use crate::why::{
    Cause, Code, Evidence, LiveReads, Lookup,
    explain::{attachments, nodes, pod::claims::Mounted, users},
    read::{PersistentVolume, PersistentVolumeClaim, Pod},
};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::ResourceExt;

/// The access modes with which several nodes may have a volume attached.
const SHARED: [&str; 2] = ["ReadWriteMany", "ReadOnlyMany"];

/// A volume of a pod that only one node at a time can use, and that is attached to another node
/// than the pod's.
pub(super) struct Elsewhere {
    claim: String,
    volume: String,
    /// The VolumeAttachment of the other node.
    attachment: VolumeAttachment,
}

/// The first such volume of the pod. Unread if none is found, and an object could not be read.
pub(super) fn find(reads: &LiveReads, pod: &Pod, mounted: &[Mounted<'_>]) -> Lookup<Elsewhere> {
    let namespace = pod.namespace().unwrap_or_default();
    let node = nodes::name_of(pod).unwrap_or_default();
    let names = mounted.iter().map(|mounted| mounted.claim.as_str());
    let mut unread = false;
    for claim in reads.each::<PersistentVolumeClaim>(&namespace, names) {
        let found = match claim {
            Lookup::Found(claim) => of_claim(reads, &claim, node),
            Lookup::Absent => Lookup::Absent,
            Lookup::Unread => Lookup::Unread,
        };
        match found {
            Lookup::Found(found) => return Lookup::Found(found),
            Lookup::Absent => {}
            Lookup::Unread => unread = true,
        }
    }
    if unread {
        Lookup::Unread
    } else {
        Lookup::Absent
    }
}

fn of_claim(reads: &LiveReads, claim: &PersistentVolumeClaim, node: &str) -> Lookup<Elsewhere> {
    let Some(spec) = &claim.spec else {
        return Lookup::Absent;
    };
    let volume = spec.volume_name.as_deref().unwrap_or_default();
    if volume.is_empty() || is_shared(spec.access_modes.as_deref()) {
        return Lookup::Absent;
    }
    let Some(all) = attachments::all(reads) else {
        return Lookup::Unread;
    };
    // A volume that is also attached to the pod's node does not block the pod.
    let is_here = attachments::of(&all, volume).any(|each| {
        let attached = each.status.as_ref().is_some_and(|status| status.attached);
        attached && each.spec.node_name == node
    });
    let mut others = attachments::of(&all, volume).filter(|each| each.spec.node_name != node);
    let Some(attachment) = others.next().filter(|_| !is_here) else {
        return Lookup::Absent;
    };
    // The attach-detach controller compares the access modes of the volume, of which the claim may
    // request only some.
    match reads.get::<PersistentVolume>("", volume) {
        Lookup::Found(found) if is_shared(modes_of(&found)) => Lookup::Absent,
        Lookup::Unread => Lookup::Unread,
        Lookup::Found(_) | Lookup::Absent => Lookup::Found(Elsewhere {
            claim: claim.name_any(),
            volume: volume.to_owned(),
            attachment: attachment.clone(),
        }),
    }
}

fn modes_of(volume: &PersistentVolume) -> Option<&[String]> {
    volume.spec.as_ref()?.access_modes.as_deref()
}

fn is_shared(modes: Option<&[String]>) -> bool {
    let mut modes = modes.into_iter().flatten();
    modes.any(|mode| SHARED.contains(&mode.as_str()))
}

impl Elsewhere {
    /// The cause that the volume is not attached to the node of the `pod`. It begins the chain if
    /// no Event reports that.
    pub(super) fn not_attached(&self, pod: &Pod) -> Cause {
        let Self { claim, volume, .. } = self;
        let node = nodes::name_of(pod).unwrap_or_default();
        let sentence = format!(
            "The volume {volume} of the pod's claim {claim} is not attached to the pod's node {node}: one node at a time can use the volume, and another node has it."
        );
        let evidence = Evidence::new(nodes::of_pod(pod).to_string(), "spec.nodeName");
        Cause::new(Code::NotMounted, sentence, evidence).run(
            "kubectl get volumeattachments",
            "to see to which nodes the volume is attached",
        )
    }

    /// The chain of causes: the VolumeAttachment of the other node, and the pod that uses the
    /// volume there.
    pub(super) fn causes(&self, reads: &LiveReads, namespace: &str) -> Vec<Cause> {
        let attached = attachments::attached(&self.attachment);
        let user = self.user(reads, namespace);
        std::iter::once(attached).chain(user).collect()
    }

    /// The chain of causes for the pod that uses the claim on the other node: that pod, and why it
    /// does not end. Empty if there is no such pod. A pod that has finished does not keep the
    /// volume attached.
    fn user(&self, reads: &LiveReads, namespace: &str) -> Vec<Cause> {
        let node = self.attachment.spec.node_name.as_str();
        let users = reads.users(namespace, &self.claim).found();
        let users = users.unwrap_or_default();
        let user = users
            .iter()
            .find(|other| nodes::name_of(other) == Some(node) && !other.trimmed.finished);
        let Some(user) = user else {
            return Vec::new();
        };
        let sentence = format!(
            "The pod {} on the node {node} uses the claim {}, and one node at a time can use it.",
            user.name_any(),
            self.claim
        );
        users::of_other(reads, user, sentence, "spec.nodeName", "the volume moves")
    }
}
