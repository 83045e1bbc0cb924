//! The codes of all causes: the names that JSON output, Events, metrics and
//! `docs/reference/causes.md` share.

use serde::Serialize;
use std::fmt;

/// Declares the codes by the headings of `docs/reference/causes.md`. The doc comment of a code is
/// the meaning that the documentation prints; what to do follows the name.
macro_rules! codes {
    ($($topic:literal {$($(#[doc = $meaning:literal])+ $name:ident: $remedy:literal,)+})+) => {
        /// Why an object is in its state. `docs/compatibility.md` says when a code may be renamed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
        pub enum Code {
            $($($(#[doc = $meaning])+ $name,)+)+
        }

        impl Code {
            /// All codes, by the state that they are causes of.
            #[cfg(feature = "simulation")]
            pub const TOPICS: &[(&str, &[Self])] = &[$(($topic, &[$(Self::$name),+]),)+];

            /// Returns the name of the code, which lives as long as the program: metric labels
            /// require that.
            pub const fn name(self) -> &'static str {
                match self {
                    $($(Self::$name => stringify!($name),)+)+
                }
            }

            /// Returns what the code means, in sentences.
            #[cfg(feature = "simulation")]
            pub const fn meaning(self) -> &'static str {
                match self {
                    $($(Self::$name => concat!($($meaning),+),)+)+
                }
            }

            /// Returns what a user can do about such a cause, in general.
            #[cfg(feature = "simulation")]
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
        /// A pod uses the claim. Kubernetes keeps a claim until no pod uses it.
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
        /// The pod is being deleted, and its node has not reported yet that all its containers have
        /// stopped, or that the volumes of the pod are unmounted.
        PodTerminating: "Wait for its grace period, then check its containers and its node.",
        /// No pod uses the claim. Volume Warden or kube-controller-manager removes its protection
        /// finalizer within seconds.
        NotInUse: "Nothing.",
        /// The controller that removes the protection finalizer, Volume Warden or
        /// kube-controller-manager, does not renew its Lease, so it does not run; or it runs and
        /// has not removed the finalizer for a minute.
        OwnerNotRunning: "Start the controller, or check its log.",
        /// A finalizer of another controller keeps the object. `why` names the controller that
        /// owns a known finalizer, or the field manager that wrote an unknown one.
        ForeignFinalizer: "Check that controller. Do not remove a finalizer manually while its \
            owner may be running: what the finalizer protects would be left behind.",
        /// A claim is bound to the volume; it can be deleted once the claim is deleted.
        Bound: "Save the data before the claim is deleted, with the command that `why` prints, \
            unless it is not needed.",
        /// No claim is bound to the volume. Volume Warden or kube-controller-manager removes its
        /// protection finalizer within seconds.
        NotBound: "Nothing.",
        /// The provisioner, an external one or kube-controller-manager, has not deleted the
        /// storage of the volume yet.
        StorageNotDeleted: "Check the driver's messages, and whether it runs.",
        /// The volume is attached to a node, or its detachment is not confirmed.
        Attached: "Check the VolumeAttachment, and the pods of the node that it names.",
        /// The claim's owner is a StatefulSet or pod that does not exist any more, as after a
        /// restore from a backup: the garbage collector deletes the claim.
        DeadOwner: "Remove the owner reference immediately, if you need the claim.",
    }
    "A claim that is not resized" {
        /// The volume does not have the requested size yet. `why` names what resizes it next: the
        /// driver, or the kubelet of a node where a pod uses the claim.
        ResizePending: "Wait; or start a pod that uses the claim; or check the driver's \
            external-resizer.",
        /// The driver or the kubelet cannot resize the volume; `why` quotes its error.
        ResizeFailed: "Fix what the error reports or, since Kubernetes 1.32, request a smaller \
            size that is larger than the present one.",
    }
    "A volume that no claim owns" {
        /// The claim of the volume is deleted, and the reclaim policy is Retain: the volume stays
        /// Released with its data until an administrator decides.
        Retained: "Remove `spec.claimRef` if the next claim may see its data, or let \
            `pv-releaser` do so for claims that carry its label.",
        /// The claim is deleted, and `pvc-trash` keeps the volume so that the deletion can be
        /// undone; `why` states until when.
        InTrash: "Run `volume-warden undelete` to restore the data.",
        /// After the deletion of the volume's claim, a claim of the same name was created.
        /// Kubernetes never binds the volume to it, because `spec.claimRef` has the uid of the
        /// deleted claim.
        ClaimReplaced: "Let the new claim bind it with the command that `why` prints.",
        /// `pv-releaser` has parked the volume for the next claim of a namespace that was deleted,
        /// so no claim gets it, also if the namespace was created again.
        ParkedForDeletedNamespace: "Give it to a claim with the command that `why` prints, or \
            delete it.",
    }
    "A claim that is Pending" {
        /// The claim has no StorageClass, and the cluster has no default StorageClass.
        NoClass: "Make a class the default, or recreate the claim with a class.",
        /// The claim's StorageClass does not exist.
        ClassMissing: "Create the class, or recreate the claim.",
        /// Two StorageClasses are default. The claim got the newer one, whose provisioner has
        /// created no volume.
        TwoDefaultClasses: "Keep one default.",
        /// No volume fits the claim, and no provisioner creates one; `why` states in what the most
        /// similar volumes differ. For a volume: it is reserved for a claim that it does not
        /// satisfy.
        NoMatchingVolume: "Create a volume that fits, or remove the reservation.",
        /// The volume that the claim names does not exist, or, for a Lost claim, no longer exists.
        VolumeMissing: "Recreate the claim; or, if the storage still exists, create a volume of \
            the same name, source and claimRef, with the policy Retain.",
        /// A volume that fits the claim, or the volume that the claim is bound to, is being
        /// deleted.
        VolumeDeleting: "Run `why` for the volume. The data on a bound volume is lost with the \
            claim unless the policy is Retain: set it, save the manifest of the volume, and \
            create the volume again.",
        /// The volume that fits the claim is reserved for another claim; or another claim is or was
        /// bound to the volume that the claim names; or the volume of a Lost claim no longer
        /// belongs to it.
        VolumeReserved: "Create another volume. Remove a reservation only if no claim is bound to the volume.",
        /// Kubernetes binds the claim when a pod uses it (`WaitForFirstConsumer`), and no pod
        /// does.
        WaitsForPod: "Nothing.",
        /// The scheduler finds no node for the pod, and Kubernetes binds the claim when its pod has
        /// a node, or the pod's volumes exclude nodes that may have room for it; `why` quotes the
        /// scheduler.
        PodUnscheduled: "Provide what no node offers, or what the nodes lack that the volumes \
            permit.",
        /// A ResourceQuota refuses the claim.
        QuotaExhausted: "Check the quota.",
        /// The provisioner of the claim's class, or the controller of its data source, has neither
        /// created a volume nor reported a failure; or kube-controller-manager has not bound a
        /// volume that fits; or `pvc-trash` has not reserved the volume that the claim requests.
        ProvisionerSilent: "Check whether the controller that the cause names runs.",
        /// The provisioner could not create the volume; `why` quotes its error.
        ProvisionerFailed: "Fix what the error reports; the provisioner retries.",
    }
    "A pod or a StatefulSet that waits" {
        /// The pod's claim is being deleted, and no further pod may begin to use it.
        ClaimDeleting: "Wait for the claim to be deleted and recreated.",
        /// The pod's claim does not exist.
        ClaimMissing: "Restore a deleted claim of that name if its data is kept. Otherwise create the claim, or check why its controller does not.",
        /// A claim exists that has the name of the claim of the pod's ephemeral volume, and that
        /// was not created for the pod: the pod does not own it, so it cannot use it.
        ClaimNotOwned: "Check what the claim belongs to; give the pod or its volume another name.",
        /// The pod's claim is not bound; `why` continues with the cause of that.
        ClaimPending: "See the last cause that `why` lists.",
        /// The node affinity or the zone of the pod's volumes permits no node, or only nodes that
        /// are cordoned, are not ready, or have a taint that the pod does not tolerate.
        NoNodeForVolume: "Bring the volume's node back, or restore the data into a volume that \
            another node can use.",
        /// Each node that the volumes permit has as many volumes of the CSI driver attached as its
        /// CSINode allows, or the kubelet rejected the pod because the CSI driver reported that.
        TooManyVolumes: "End a pod with such a volume, or add a node.",
        /// The pod has a node, but a volume is not attached or mounted; `why` quotes the Event
        /// about it, if there still is one, and continues with the node that still has the volume,
        /// or with the ConfigMap or Secret that does not exist.
        NotMounted: "See the last cause that `why` lists, or check the driver on the node.",
        /// Another pod uses the claim, and its access mode permits one pod (`ReadWriteOncePod`) or
        /// one node (`ReadWriteOnce`).
        UsedByOtherPod: "End that pod, if it is not needed.",
        /// A ConfigMap or Secret that the pod mounts does not exist.
        ConfigMissing: "Create it, or correct the name.",
        /// The pod requests a claim by annotation, and the template cannot be used.
        InvalidTemplate: "Fix the annotation.",
        /// The pod waits for something other than a volume.
        NoVolumeProblem: "Check the pod.",
        /// A pod of the StatefulSet waits; `why` continues with the cause.
        PodPending: "See the last cause that `why` lists.",
        /// A claim that is being deleted, of an earlier pod with the same name, blocks the
        /// creation of the StatefulSet's next pod.
        PodBlockedByClaim: "See the last cause that `why` lists.",
    }
    "A claim of a StatefulSet, kept or deleted by policy" {
        /// The claim stays when the StatefulSet is deleted, because `whenDeleted` is Retain and the
        /// StatefulSet does not own it; or its pod was removed by scaling down, and the StatefulSet
        /// does not own the claim.
        KeptByPolicy: "Nothing.",
        /// The claim is deleted with the StatefulSet, because `whenDeleted` is Delete, or because
        /// the StatefulSet owns the claim from the time of another policy; or its pod was removed
        /// by scaling down, and the StatefulSet owns the claim; or the claim is deleted after its
        /// pod, which is scaled down.
        DeletedByPolicy: "Nothing, unless the claim is to be kept: check its owner references before you delete the StatefulSet.",
    }
    "A namespace that stays Terminating" {
        /// The namespace still contains claims; `why` continues with what keeps the first one.
        ClaimsInNamespace: "See the last cause that `why` lists.",
        /// Other objects are left in the namespace, or an API does not answer; `why` quotes the
        /// namespace controller. Or that controller, in kube-controller-manager, reports nothing.
        NamespaceContent: "Check the objects, or the API, that it names; or whether \
            kube-controller-manager runs.",
        /// Kubernetes has deleted the namespace, and the storage backend of `namespace-gc` keeps
        /// its namespace of that name, because it is not empty or cannot be deleted.
        BackendNotEmpty: "Check what `why` quotes from the storage backend.",
    }
    "The installation" {
        /// The object lacks what Volume Warden's webhook adds, and no replica of Volume Warden is
        /// ready.
        WebhookDown: "Start a replica: it repairs the object.",
        /// The object lacks what Volume Warden's webhook adds, and the API server does not trust
        /// the certificate of that webhook, so it does not call it.
        CertificateWrong: "Check which certificate was not renewed.",
        /// A controller of kube-controller-manager does the same work as `pvc-retention`. This is
        /// harmless.
        BothActive: "Nothing has to be done.",
    }
}

impl Code {
    /// Returns whether the object is kept until a user or another controller acts. False if only a
    /// protection finalizer keeps it that Volume Warden removes within seconds.
    pub fn lasts(self) -> bool {
        !matches!(self, Self::NotInUse | Self::NotBound)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
