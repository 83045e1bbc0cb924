//! The causes there are, by the names that the JSON, the Events, the metrics and the page of causes have in common.

use serde::Serialize;
use std::fmt;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Why something is as it is. A name stays once it is there; `docs/why.md` says at length what each means.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
        pub enum Code {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Code {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// Its name, for those who keep it: a label of a metric.
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
    /// The node of the pod that uses it does not answer, or is gone.
    NodeLost,
    /// The pod that uses it is being deleted and does not go.
    PodTerminating,
    /// No pod uses the claim: its protection finalizer is about to be removed.
    NotInUse,
    /// The controller that removes the protection finalizer is not running.
    OwnerNotRunning,
    /// A finalizer of another controller.
    ForeignFinalizer,
    /// A claim has the volume.
    Bound,
    /// The volume is bound to no claim: its protection finalizer is about to be removed.
    NotBound,
    /// What is behind the volume is still to be deleted.
    StorageNotDeleted,
    /// A node still has the volume.
    Attached,
    /// The volume outlives its claim, as its policy says.
    Retained,
    /// The volume's claim was replaced by another one of that name.
    ClaimReplaced,
    /// The claim has no StorageClass, and there is no default.
    NoClass,
    /// The claim's StorageClass does not exist.
    ClassMissing,
    /// There are two default classes, and the newer one was taken.
    TwoDefaultClasses,
    /// No volume fits, and no provisioner creates one.
    NoMatchingVolume,
    /// The volume that the claim names does not exist.
    VolumeMissing,
    /// The volume that the claim waits for, or has, is being deleted.
    VolumeDeleting,
    /// The volume that the claim waits for is reserved for another claim.
    VolumeReserved,
    /// The claim is bound when a pod uses it, and none does.
    WaitsForPod,
    /// The claim is bound when its pod has a node, and it has none.
    PodUnscheduled,
    /// A quota refuses the claim.
    QuotaExhausted,
    /// Nothing is heard of the provisioner.
    ProvisionerSilent,
    /// The provisioner failed.
    ProvisionerFailed,
    /// The pod's claim is being deleted.
    ClaimDeleting,
    /// The pod's claim does not exist.
    ClaimMissing,
    /// The pod's claim is not bound.
    ClaimPending,
    /// The pod's node does not get a volume attached or mounted.
    NotMounted,
    /// What the pod asks for by annotation cannot be used.
    InvalidTemplate,
    /// The pod waits for something that is no volume.
    NoVolumeProblem,
    /// A pod of the set waits.
    PodPending,
    /// A claim of an earlier pod keeps the set from making its next one.
    PodBlockedByClaim,
    /// The claim stays by its set's retention policy.
    KeptByPolicy,
    /// The claim goes by its set's retention policy.
    DeletedByPolicy,
    /// The claim's owner is gone, so the garbage collector deletes the claim.
    DeadOwner,
    /// Claims keep the namespace.
    ClaimsInNamespace,
    /// Other objects keep the namespace.
    NamespaceContent,
    /// The storage backend still has the namespace, and things in it.
    BackendNotEmpty,
    /// No replica answers the webhooks.
    WebhookDown,
    /// The API server cannot trust the webhooks.
    CertificateWrong,
    /// Kubernetes' own controller does the same work.
    BothActive,
}

impl Code {
    /// Whether the object is kept until a user or another controller acts. False if Volume Warden is about to remove
    /// its own finalizer.
    pub fn lasts(self) -> bool {
        !matches!(self, Self::NotInUse | Self::NotBound)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
