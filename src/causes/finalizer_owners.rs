//! Whose finalizers these are.
//!
//! Sources: kubernetes (`pkg/volume/util`, `pkg/controller/volume/persistentvolume`, `pkg/apis/core`), the external-provisioner, the
//! external-attacher and the external-snapshotter of kubernetes-csi.

use crate::objects::finalizers::{PV_PROTECTION, PVC_PROTECTION};

/// Of external-provisioner, on volumes that it provisioned and whose storage it deletes with them.
pub const PROVISIONER: &str = "external-provisioner.volume.kubernetes.io/finalizer";
/// The same of volumes that Kubernetes itself made.
pub const PV_CONTROLLER: &str = "kubernetes.io/pv-controller";
/// What the names of the external-attacher's begin with; the driver follows.
pub const ATTACHER: &str = "external-attacher/";

/// Who takes a finalizer off, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// In words.
    pub who: String,
    /// When it takes the finalizer off: "once …".
    pub when: &'static str,
}

/// The owner of the finalizer, if it is a known one.
pub fn owner(finalizer: &str) -> Option<Owner> {
    if let Some(driver) = finalizer.strip_prefix(ATTACHER) {
        return Some(Owner {
            who: format!(
                "the external-attacher of the CSI driver {driver} (dots are dashes in it)"
            ),
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
            "once no claim has the volume",
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
            "once the objects that it owns are gone",
        ),
        "orphan" => (
            "the garbage collector in kube-controller-manager",
            "once the objects that it owned are set free",
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
