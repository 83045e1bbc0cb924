//! The owners of known finalizers: which controller removes each of them, and when.
//!
//! Sources: kubernetes (`pkg/volume/util`, `pkg/controller/volume/persistentvolume`,
//! `pkg/apis/core`), and the external-provisioner, external-attacher and external-snapshotter of
//! kubernetes-csi.

use crate::objects::finalizers::{PV_PROTECTION, PVC_PROTECTION};

/// Finalizer of the external-provisioner on volumes whose storage it deletes together with the
/// volume.
pub const PROVISIONER: &str = "external-provisioner.volume.kubernetes.io/finalizer";
/// Finalizer of the built-in volume controller on volumes that an in-tree provisioner created.
pub const PV_CONTROLLER: &str = "kubernetes.io/pv-controller";
/// Prefix of the finalizers of external-attachers; the name of the CSI driver follows, with dashes
/// for dots.
pub const ATTACHER: &str = "external-attacher/";

/// The controller that removes a finalizer, and when it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The name of the controller, as a part of a sentence.
    pub who: String,
    /// When the controller removes the finalizer: "once …".
    pub when: &'static str,
}

/// Returns the owner of the finalizer, if it is known.
pub fn owner(finalizer: &str) -> Option<Owner> {
    if let Some(driver) = finalizer.strip_prefix(ATTACHER) {
        return Some(Owner {
            who: format!("the external-attacher of the CSI driver {driver} (with dashes for dots)"),
            when: "once no node has the volume attached",
        });
    }
    let (who, when) = match finalizer {
        PVC_PROTECTION => (
            "Volume Warden's pvc-protection, or the controller of that name in kube-controller-manager,",
            "once no pod uses the claim",
        ),
        PV_PROTECTION => (
            "Volume Warden's pv-protection, or the controller of that name in kube-controller-manager,",
            "once no claim is bound to the volume",
        ),
        PV_CONTROLLER => (
            "the volume binder in kube-controller-manager",
            "once the storage behind the volume is deleted",
        ),
        PROVISIONER => (
            "the external-provisioner of the volume's CSI driver",
            "once the storage behind the volume is deleted",
        ),
        "provisioner.storage.kubernetes.io/cloning-protection" => (
            "the external-provisioner of the claim's CSI driver",
            "once no claim is being cloned from it",
        ),
        "snapshot.storage.kubernetes.io/pvc-as-source-protection" => (
            "the snapshot controller",
            "once no snapshot is being taken of it",
        ),
        "foregroundDeletion" => (
            "the garbage collector in kube-controller-manager",
            "once the objects that it owns are deleted",
        ),
        "orphan" => (
            "the garbage collector in kube-controller-manager",
            "once it has removed the owner references to this object from the objects that it \
             owned",
        ),
        "batch.kubernetes.io/job-tracking" => (
            "the job controller in kube-controller-manager",
            "once it has counted the pod",
        ),
        _ => return None,
    };
    Some(Owner {
        who: who.to_owned(),
        when,
    })
}
