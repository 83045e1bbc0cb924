//! The codes of all causes: the names that JSON output, Events, metrics and `docs/why.md` share.

use serde::Serialize;
use std::fmt;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Why an object is in its state. Codes are never renamed; `docs/why.md` describes each of
        /// them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
        pub enum Code {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Code {
            /// All codes, in the order of their declaration.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// Returns the name of the code, which lives as long as the program: metric labels
            /// require that.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }
        }
    };
}

codes! {
    /// A pod uses the claim.
    InUse,
    /// Only pods that have finished use the claim.
    FinishedPod,
    /// The node of a pod that uses the claim does not answer or does not exist.
    NodeLost,
    /// The node of a pod reports that it is not ready.
    NodeNotReady,
    /// A pod that uses the claim is being deleted but still exists.
    PodTerminating,
    /// No pod uses the claim: Volume Warden is about to remove its protection finalizer.
    NotInUse,
    /// The controller that removes the protection finalizer is not running.
    OwnerNotRunning,
    /// A finalizer of another controller keeps the object.
    ForeignFinalizer,
    /// The volume is bound to a claim.
    Bound,
    /// The volume is bound to no claim: Volume Warden is about to remove its protection finalizer.
    NotBound,
    /// The storage behind the volume is not deleted yet.
    StorageNotDeleted,
    /// A node still has the volume attached.
    Attached,
    /// The volume is kept after the deletion of its claim, because its reclaim policy is `Retain`.
    Retained,
    /// The volume is kept after the deletion of its claim, so that the deletion can be undone.
    InTrash,
    /// The volume's claim was replaced by another claim of the same name.
    ClaimReplaced,
    /// The claim names no StorageClass, and there is no default StorageClass.
    NoClass,
    /// The claim's StorageClass does not exist.
    ClassMissing,
    /// There are two default StorageClasses, and the claim got the newer one.
    TwoDefaultClasses,
    /// No volume matches the claim, and no provisioner creates one.
    NoMatchingVolume,
    /// The volume that the claim names does not exist.
    VolumeMissing,
    /// The volume that the claim waits for or is bound to is being deleted.
    VolumeDeleting,
    /// The volume that the claim waits for is reserved for another claim.
    VolumeReserved,
    /// The claim's StorageClass delays binding until a pod uses the claim, and no pod does.
    WaitsForPod,
    /// The claim's StorageClass delays binding until the claim's pod has a node, and it has none.
    PodUnscheduled,
    /// A ResourceQuota rejects the claim, because its limit is reached.
    QuotaExhausted,
    /// The provisioner of the claim has reported nothing.
    ProvisionerSilent,
    /// The provisioner of the claim reported a failure.
    ProvisionerFailed,
    /// The volume does not have the size that the claim requests yet.
    ResizePending,
    /// The volume cannot be resized to the size that the claim requests.
    ResizeFailed,
    /// The pod's claim is being deleted.
    ClaimDeleting,
    /// The pod's claim does not exist.
    ClaimMissing,
    /// The pod's claim is not bound.
    ClaimPending,
    /// A volume of the pod cannot be attached to its node or mounted there.
    NotMounted,
    /// A ConfigMap or Secret that the pod mounts does not exist.
    ConfigMissing,
    /// Another pod uses a volume that one pod, or one node, at a time can use.
    UsedByOtherPod,
    /// No node that takes pods can use the pod's volumes.
    NoNodeForVolume,
    /// The nodes have as many volumes of a CSI driver attached as they can have.
    TooManyVolumes,
    /// The claim that the pod requests by annotation is invalid.
    InvalidTemplate,
    /// The pod waits for something other than a volume.
    NoVolumeProblem,
    /// A pod of the StatefulSet is pending.
    PodPending,
    /// A claim of an earlier pod prevents the StatefulSet from creating its next pod.
    PodBlockedByClaim,
    /// The retention policy of the claim's StatefulSet keeps the claim.
    KeptByPolicy,
    /// The retention policy of the claim's StatefulSet deletes the claim.
    DeletedByPolicy,
    /// The owner of the claim does not exist, so the garbage collector deletes the claim.
    DeadOwner,
    /// Claims prevent the deletion of the namespace.
    ClaimsInNamespace,
    /// Objects other than claims prevent the deletion of the namespace.
    NamespaceContent,
    /// The storage backend still has the namespace, and it is not empty.
    BackendNotEmpty,
    /// No replica of Volume Warden answers the webhooks.
    WebhookDown,
    /// The API server does not trust the certificate of the webhooks.
    CertificateWrong,
    /// The built-in controller of Kubernetes does the same work as Volume Warden's.
    BothActive,
}

impl Code {
    /// Returns whether the object is kept until a user or another controller acts. False if Volume
    /// Warden is about to remove its own finalizer.
    pub fn lasts(self) -> bool {
        !matches!(self, Self::NotInUse | Self::NotBound)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
