//! Finds the claims that a pod names.

use crate::{
    objects::finalizers::PVC_PROTECTION,
    why::{
        explain::nodes,
        read::{PersistentVolumeClaim, Pod},
    },
};
use k8s_openapi::api::core::v1::Volume;
use kube::ResourceExt;

/// A volume of a pod whose source is a claim.
#[derive(Clone)]
pub(super) struct Mounted<'a> {
    pub volume: &'a Volume,
    /// The name of the claim, also of an ephemeral volume.
    pub claim: String,
}

impl Mounted<'_> {
    /// Whether the volume is ephemeral, and the claim was not created for the pod: its controller
    /// is not the pod. Neither the scheduler nor the kubelet lets the pod use such a claim
    /// (`VolumeIsForPod` in `component-helpers/storage/ephemeral` of Kubernetes).
    pub fn is_foreign(&self, pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
        let controller = claim.trimmed.controller();
        let is_owned = controller.is_some_and(|controller| pod.trimmed.uid == controller);
        self.volume.ephemeral.is_some() && !is_owned
    }
}

/// The volumes of the pod whose source is a claim, in the order of the pod's spec.
pub(super) fn mounted(pod: &Pod) -> Vec<Mounted<'_>> {
    let volumes = pod.spec.iter().flat_map(|spec| &spec.volumes).flatten();
    let mounted = volumes.filter_map(|volume| {
        let claim = match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(source), _) => source.claim_name.clone(),
            (None, Some(_)) => format!("{}-{}", pod.name_any(), volume.name),
            (None, None) => return None,
        };
        Some(Mounted { volume, claim })
    });
    mounted.collect()
}

/// Whether the claim is being deleted and the pod cannot use it any more. A pod that has a node can
/// still use a bound claim with the protection finalizer: the claim exists for as long as the pod
/// uses it (`getPVCExtractPV` of the kubelet).
pub(in crate::why::explain) fn is_lost(claim: &PersistentVolumeClaim, pod: Option<&Pod>) -> bool {
    let has_node = pod.and_then(nodes::name_of).is_some();
    let is_protected = claim.finalizers().iter().any(|each| each == PVC_PROTECTION);
    let is_bound = claim.status.as_ref().and_then(|each| each.phase.as_deref()) == Some("Bound");
    let is_given = has_node && is_protected && is_bound;
    claim.metadata.deletion_timestamp.is_some() && !is_given
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_with_a_node_gets_a_protected_claim_that_is_being_deleted() {
        let lost = |deleted: Option<&str>, finalizer: &str, phase: &str, node: Option<&str>| {
            let claim = json!({
                "metadata": {"deletionTimestamp": deleted, "finalizers": [finalizer]}, "status": {"phase": phase},
            });
            let claim = serde_json::from_value(claim).expect("a claim");
            let pod = json!({"metadata": {}, "spec": {"containers": [], "nodeName": node}});
            let pod = serde_json::from_value(pod).expect("a pod");
            is_lost(&claim, Some(&pod))
        };
        let now = Some("2026-01-01T00:00:00Z");
        let node = Some("node");
        assert!(!lost(now, PVC_PROTECTION, "Bound", node));
        assert!(!lost(None, PVC_PROTECTION, "Bound", None));
        assert!(lost(now, PVC_PROTECTION, "Bound", None));
        assert!(lost(now, PVC_PROTECTION, "Pending", node));
        assert!(lost(now, "example.com/hold", "Bound", node));
    }
}
