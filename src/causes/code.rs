//! The codes of all causes: the names that JSON output, Events, metrics and
//! `docs/reference/causes.md` share.

use serde::Serialize;
use std::fmt;

/// Declares the codes by the headings of `docs/reference/causes.md`. The doc comment of a code is
/// the meaning that the documentation prints; what to do follows the name.
macro_rules! codes {
    ($($topic:literal {$($(#[doc = $meaning:literal])+ $name:ident: $remedy:literal,)+})+) => {
        /// Why an object is in its state. Codes are never renamed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
        pub enum Code {
            $($($(#[doc = $meaning])+ $name,)+)+
        }

        impl Code {
            /// All codes, by the state that they are causes of.
            pub const TOPICS: &[(&str, &[Self])] = &[$(($topic, &[$(Self::$name),+]),)+];

            /// Returns the name of the code, which lives as long as the program: metric labels
            /// require that.
            pub const fn name(self) -> &'static str {
                match self {
                    $($(Self::$name => stringify!($name),)+)+
                }
            }

            /// Returns what the code means, in sentences.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $($(Self::$name => concat!($($meaning),+),)+)+
                }
            }

            /// Returns what a user can do about such a cause, in general.
            pub const fn remedy(self) -> &'static str {
                match self {
                    $($(Self::$name => $remedy,)+)+
                }
            }
        }
    };
}

codes! {
    "A claim or a volume that stays Terminating" {
        /// A pod uses the claim. Kubernetes keeps a claim until no pod does.
        InUse: "Delete the pod, or scale down its controller, once it is not needed.",
        /// Only pods that have Succeeded or Failed use the claim. With `--finished-pods=hold`, as
        /// under Kubernetes' own controller, they count for as long as they exist.
        FinishedPod: "Delete the pods or their job; or run with `--finished-pods=release`.",
        /// The pod's node does not answer (`Ready` is Unknown), or is gone, so it is unknown
        /// whether the pod still writes.
        NodeLost: "Bring the node back. Only if its machine is certainly off, taint it \
            `node.kubernetes.io/out-of-service=nodeshutdown:NoExecute`.",
        /// The pod's node answers, and reports that it is not ready.
        NodeNotReady: "Check what the node lacks: mostly its container runtime or network.",
        /// The pod is being deleted, and its node reports containers that still run.
        PodTerminating: "Wait for its grace period, then check its containers.",
        /// No pod uses the claim. Its protection finalizer is removed within seconds.
        NotInUse: "Nothing.",
        /// The controller that removes the protection finalizer does not run: the Lease of Volume
        /// Warden, or of kube-controller-manager if that does the work, is not renewed; or it runs
        /// and has not removed the finalizer for a minute.
        OwnerNotRunning: "Start the controller, or check its log.",
        /// A finalizer of another controller keeps the object. The sentence names the owner of a
        /// known finalizer, or the field manager that wrote an unknown one.
        ForeignFinalizer: "Check that controller. Do not remove a finalizer manually while its \
            owner may be running: what it protects would be left behind.",
        /// A claim is bound to the volume; it can be deleted once the claim is deleted.
        Bound: "Delete the claim, only if what is on the volume is not needed.",
        /// No claim is bound to the volume. Its protection finalizer is removed within seconds.
        NotBound: "Nothing.",
        /// The storage of the volume is not deleted yet by its provisioner: an external
        /// provisioner, or kube-controller-manager.
        StorageNotDeleted: "Check the driver's messages, and whether it runs.",
        /// The volume is attached to a node, or its detachment is not confirmed.
        Attached: "Check the VolumeAttachment, and the pods of the node that it names.",
        /// The claim's owner is a StatefulSet or pod that does not exist any more, as after a
        /// restore from a backup: the garbage collector deletes the claim.
        DeadOwner: "Remove the reference immediately, if you need the claim.",
    }
    "A claim that is not resized" {
        /// The volume does not have the requested size yet; the sentence says whose turn it is:
        /// the driver, or the kubelet of a node where a pod uses the claim.
        ResizePending: "Wait; or start a pod that uses it; or check the driver's \
            external-resizer.",
        /// The driver or the kubelet cannot resize the volume; the sentence quotes it.
        ResizeFailed: "Fix what it reports, or request a smaller size that is larger than the \
            present one.",
    }
    "A volume that no claim owns" {
        /// The claim is gone and the policy is Retain: an administrator has to decide.
        Retained: "Remove `spec.claimRef` if the next claim may see its data, or let \
            `pv-releaser` do so for claims that carry its label.",
        /// The claim is deleted, and `pvc-trash` keeps the volume so that the deletion can be
        /// undone; the sentence says until when.
        InTrash: "Run `volume-warden undelete` to restore the data.",
        /// A claim of the same name was created since. A volume is never bound automatically to a
        /// new claim of that name.
        ClaimReplaced: "Remove the uid from `spec.claimRef` to let the new claim bind it.",
    }
    "A claim that is Pending" {
        /// The claim has no StorageClass, and there is no default.
        NoClass: "Make a class the default, or recreate the claim with a class.",
        /// The claim's StorageClass does not exist.
        ClassMissing: "Create the class, or recreate the claim.",
        /// Two classes are default. The newer one was used, and does not work.
        TwoDefaultClasses: "Keep one default.",
        /// No volume fits, and no provisioner creates one; the sentence says how the nearest
        /// differ. On a volume: it is reserved for a claim that it does not satisfy.
        NoMatchingVolume: "Create one that fits, or remove the reservation.",
        /// The volume that the claim names does not exist, or, for a Lost claim, no longer exists.
        VolumeMissing: "Recreate the claim; or, if the storage still exists, create a volume of \
            the same name, source and claimRef, with the policy Retain.",
        /// A matching volume, or the one that the claim is bound to, is being deleted.
        VolumeDeleting: "Run `why` for the volume. The data on a bound volume is lost with the \
            claim unless the policy is Retain: set it, save the manifest of the volume, and \
            create the volume again.",
        /// The matching volume is reserved for another claim.
        VolumeReserved: "Create another volume, or remove the reservation.",
        /// The claim is bound when a pod uses it (`WaitForFirstConsumer`), and none does.
        WaitsForPod: "Nothing.",
        /// The claim is bound when its pod has a node, and the scheduler finds none; the sentence
        /// quotes the scheduler.
        PodUnscheduled: "Provide what no node offers.",
        /// A ResourceQuota refuses the claim.
        QuotaExhausted: "Check the quota.",
        /// The provisioner of the claim's class, or the binder, does not react.
        ProvisionerSilent: "Check whether the driver is installed and runs.",
        /// The provisioner failed; the sentence quotes it.
        ProvisionerFailed: "Fix what it reports; it retries.",
    }
    "A pod or a StatefulSet that waits" {
        /// The pod's claim is being deleted, and no pod may begin to use it.
        ClaimDeleting: "Wait for the claim to be deleted and recreated.",
        /// The pod's claim does not exist.
        ClaimMissing: "Create it, or check why its controller does not.",
        /// The pod's claim is not bound; the chain continues with the cause.
        ClaimPending: "See the root.",
        /// The node affinity or the zone of the pod's volumes permits no node, or only nodes that
        /// are cordoned or not ready.
        NoNodeForVolume: "Bring the volume's node back, or restore the data into a volume that \
            another node can use.",
        /// Each node that the volumes permit has as many volumes of the CSI driver attached as its
        /// CSINode allows.
        TooManyVolumes: "End a pod with such a volume, or add a node.",
        /// The pod has a node, but a volume is not attached or mounted; the sentence quotes the
        /// node. The chain continues with the node that still has the volume, or with the
        /// ConfigMap or Secret that does not exist.
        NotMounted: "See the root, or check the driver on the node.",
        /// Another pod uses the claim, and its access mode permits one pod (`ReadWriteOncePod`) or
        /// one node (`ReadWriteOnce`).
        UsedByOtherPod: "End that pod, if it is not needed.",
        /// A ConfigMap or Secret that the pod mounts does not exist.
        ConfigMissing: "Create it, or correct the name.",
        /// The pod requests a claim by annotation, and the template cannot be used.
        InvalidTemplate: "Fix the annotation.",
        /// The pod waits for something other than a volume.
        NoVolumeProblem: "Check the pod.",
        /// A pod of the set waits; the chain continues with the cause.
        PodPending: "See the root.",
        /// A claim of an earlier pod, which is being deleted, blocks the set's next pod.
        PodBlockedByClaim: "See the root.",
    }
    "A claim of a StatefulSet, kept or deleted by policy" {
        /// The claim stays when the set is deleted, by `whenDeleted`; or it was scaled down and no
        /// object that is being deleted owns it.
        KeptByPolicy: "Nothing.",
        /// The claim is deleted with the set, by `whenDeleted`, or because the set owns it.
        DeletedByPolicy: "Nothing.",
    }
    "A namespace that stays Terminating" {
        /// The namespace still contains claims; the chain continues with the first one that is
        /// held.
        ClaimsInNamespace: "See the root.",
        /// Other objects are left in the namespace, or an API does not answer; the sentence quotes
        /// the namespace controller.
        NamespaceContent: "Check these.",
        /// Kubernetes has deleted the namespace, and the storage backend keeps it because it is
        /// not empty.
        BackendNotEmpty: "Check what the backend reports in it.",
    }
    "The installation" {
        /// The object was created while no replica of Volume Warden was ready, so its webhook
        /// wrote nothing on it.
        WebhookDown: "Start a replica: it repairs the object.",
        /// The object was created while the API server could not trust the webhook, so it wrote
        /// nothing on it.
        CertificateWrong: "Check which certificate was not renewed.",
        /// Kubernetes' own controller does the same work as `pvc-retention`. This is harmless.
        BothActive: "Disable one of them.",
    }
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
