//! The labels, annotations and finalizers by which Volume Warden works.
//!
//! `docs/reference/labels.md` is generated from these lists. They do not contain keys of other
//! programs that are only compared, listed or named in a message.

/// A label, an annotation or a finalizer, as `docs/reference/labels.md` lists it.
#[cfg(feature = "simulation")]
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The key, or the prefix of keys.
    pub name: &'static str,
    /// Label, annotation, finalizer, or a prefix of such.
    pub kind: &'static str,
    /// The objects that have the key.
    pub on: &'static str,
    /// What the key means, in sentences.
    pub meaning: &'static str,
    /// The page of the documentation that says more.
    pub page: Option<&'static str>,
}

/// Declares a constant for each key, and the lists that describe them. The doc comment of a
/// constant is the meaning that the documentation prints.
macro_rules! keys {
    (@page) => { None };
    (@page $page:literal) => { Some($page) };
    ($(
        $(#[doc = $about:literal])+
        $list:ident {$(
            $(#[doc = $meaning:literal])+
            $name:ident: $kind:literal on $on:literal $(see $page:literal)? = $key:literal;
        )+}
    )+) => {
        $($($(#[doc = $meaning])+ pub const $name: &str = $key;)+)+

        $($(#[doc = $about])+
        #[cfg(feature = "simulation")]
        pub const $list: &[Key] = &[$(Key {
            name: $key,
            kind: $kind,
            on: $on,
            meaning: concat!($($meaning),+),
            page: keys!(@page $($page)?),
        }),+];)+
    };
}

keys! {
    /// The keys that Volume Warden writes.
    WRITTEN {
        /// Kubernetes' own: keeps the claim while a pod uses it. The kubelet does not start a pod
        /// whose claim is being deleted and lacks it, so the name cannot be changed.
        PVC_PROTECTION: "finalizer" on "claim" = "kubernetes.io/pvc-protection";
        /// Kubernetes' own: keeps the volume while it is Bound.
        PV_PROTECTION: "finalizer" on "volume" = "kubernetes.io/pv-protection";
        /// The uid of a StatefulSet with `whenScaled: Delete` that has a replica for the claim. If
        /// the set is scaled down later, and the pod is already deleted and cannot become the
        /// claim's owner, Volume Warden deletes the claim.
        SCALED_WITH: "annotation" on "claim" = "volume-warden.dev/scaled-with";
        /// The time (RFC 3339) at which `pvc-provisioner` created the claim at admission. Volume
        /// Warden removes it when it makes the pod the owner of the claim, or keeps the claim for
        /// another pod.
        AWAITING_POD: "annotation" on "claim" = "volume-warden.dev/awaiting-pod";
        /// The namespace of the claim, its uid and the uid of the claim, as `shop/UID/UID`:
        /// `pv-releaser` gives the volume only to claims of that namespace.
        CLAIM_NAMESPACE: "annotation" on "volume" = "volume-warden.dev/claim-namespace";
        /// The time (RFC 3339) at which `pv-releaser` reserved the volume for a claim. Volume
        /// Warden removes it once the claim is Bound and its namespace is recorded on the volume,
        /// or when the reservation ends before that.
        RESERVED_AT: "annotation" on "volume" = "volume-warden.dev/reserved-at";
        /// The announced time (RFC 3339) at which `pvc-expiry` deletes the claim. It is removed if
        /// the claim does not expire any more, for example because a pod names it.
        EXPIRES_AT: "annotation" on "claim" = "volume-warden.dev/expires-at";
        /// Since when (RFC 3339) the replicas with `pvc-expiry` have watched the cluster without a
        /// break, the identity of the replica that wrote it, and the namespace that it watches, or
        /// `*` for all. It counts only while that replica holds the Lease: another holder, such as
        /// one of an older version, need not have watched.
        OBSERVED_SINCE: "annotation" on "Lease" = "volume-warden.dev/observed-since";
        /// The `metadata.generation` of the webhook configuration that was written a second time,
        /// by this annotation: an API server that missed a change of the webhooks notices the
        /// second write.
        REPEATED_GENERATION: "annotation" on "webhook configuration"
            = "volume-warden.dev/repeated-generation";
        /// The record of `pvc-trash` as JSON, such as the original policy, the undelete window and
        /// the claim that can be restored. The policy `volume-warden-trash` refuses changes by
        /// other users.
        TRASH: "annotation" on "volume" = "volume-warden.dev/trash";
        /// The uid of the deleted claim: `volume-warden purge` requests the deletion of its data.
        /// It does not count for a later claim of the volume, and is removed at a restore.
        PURGE: "annotation" on "volume" = "volume-warden.dev/purge";
        /// The time of the last write by which `pvc-trash`, or `undelete` with `--to-namespace`,
        /// triggers another sync by the volume binder of a claim that is being restored. The
        /// binder retries a conflicting write only when the claim changes, or 15 s later.
        UNDELETE_TOUCHED: "annotation" on "claim" = "volume-warden.dev/undelete-touched";
        /// `true`: the ConfigMap is a copy of the object of a volume.
        SAVED_VOLUME: "label" on "ConfigMap" see "components/pvc-trash.md#copies-of-volumes"
            = "volume-warden.dev/saved-volume";
        /// `true`: the ConfigMap is the list of the deleted claims of its namespace. A ConfigMap of
        /// that name without the label belongs to a user.
        TRASH_LIST: "label" on "ConfigMap `volume-warden-trash`" see "components/trash-list.md"
            = "volume-warden.dev/trash-list";
        /// The uid of the cluster whose namespaces are listed. A copy in another cluster is
        /// ignored.
        SEEN_IN_CLUSTER: "annotation" on "ConfigMap `volume-warden-seen-namespaces`"
            = "volume-warden.dev/cluster";
        /// On a Lease, `volume-warden.dev/COMPONENT` for each component that its holder runs; none
        /// with `--dry-run`. A claim does not get the annotations with this prefix in a pod's claim
        /// template, except `expire-unused` and `undelete-window`.
        OWN: "prefix of labels" on "Lease" = "volume-warden.dev/";
        /// `volume-warden`. A Lease counts as one of Volume Warden only in a namespace with a
        /// service account that a ClusterRoleBinding with the label names.
        PART_OF: "label" on "Lease, ClusterRoleBinding" = "app.kubernetes.io/part-of";
        /// On the ConfigMaps of Volume Warden: `volume-warden`. A claim that has it is restored by
        /// `pvc-trash` without it: the tool that it names may delete the objects that are not in
        /// its source.
        MANAGER: "label" on "ConfigMap, claim" = "app.kubernetes.io/managed-by";
        /// The value of `--controller-id`: `pvc-provisioner` created the claim. `pv-releaser`
        /// reads it, too.
        PROVISIONER_LABEL: "label" on "claim"
            = "dynamic-pvc-provisioner.kubernetes.io/managed-by";
        /// The value of `--controller-id`: `pv-releaser` releases the volume. On a claim, written
        /// by users, it requests that.
        RELEASER_LABEL: "label" on "volume" = "reclaimable-pv-releaser.kubernetes.io/managed-by";
    }
    /// The keys that users, Kubernetes or other tools write. Volume Warden reads, removes or
    /// refuses them.
    READ {
        /// A claim that has it is restored by `pvc-trash` without it: Argo CD deletes objects that
        /// have it and are not in their source.
        TRACKED_INSTANCE: "label" on "claim" = "app.kubernetes.io/instance";
        /// `true`: the namespace has opted out: Volume Warden only removes what it added there.
        EXCLUDE: "label" on "namespace" see "concepts.md#namespaces-that-opt-out"
            = "volume-warden.dev/exclude";
        /// How long the claims of the class can be restored after their deletion, such as `72h`,
        /// or `off`. On a namespace: a longer duration. On a claim: a shorter one, or `0`.
        UNDELETE_WINDOW: "annotation" on "StorageClass, namespace, claim"
            see "components/pvc-trash.md#enable-and-disable" = "volume-warden.dev/undelete-window";
        /// For how long no pod may use a claim before `pvc-expiry` deletes it, such as `90d`, or
        /// `off`. That of the claim takes precedence.
        EXPIRE_UNUSED: "annotation" on "StorageClass, claim" see "components/pvc-expiry.md"
            = "volume-warden.dev/expire-unused";
        /// Up to what undelete window a namespace can lengthen that of the class; a longer one
        /// that it requests is shortened to this. Without it, no namespace lengthens the window.
        UNDELETE_WINDOW_MAX: "annotation" on "StorageClass"
            = "volume-warden.dev/undelete-window-max";
        /// `pvc/` and the name of a deleted claim of the namespace, or `pv/` and that of its
        /// volume: the new claim gets its data. Volume Warden adds it to a claim that is restored
        /// by name.
        UNDELETE: "annotation" on "claim" see "components/pvc-trash.md#restore-by-name"
            = "volume-warden.dev/undelete";
        /// `same-name`: a claim that is created again gets the volume of the deleted claim of its
        /// name. On a claim, `off`: it gets a new volume.
        REBIND: "annotation" on "StorageClass, claim" = "volume-warden.dev/rebind";
        /// `VOLUME.enabled` and `VOLUME.pvc`: the claim that the pod requests.
        REQUEST_PREFIX: "prefix of annotations" on "pod" see "components/pvc-provisioner.md"
            = "dynamic-pvc-provisioner.kubernetes.io/";
        /// `namespace`: the released volume is only for claims of the namespace of its deleted
        /// claim. `cluster`: it is for claims of any namespace.
        RELEASE_SCOPE: "label, annotation" on "volume, StorageClass"
            = "volume-warden.dev/release-scope";
        /// plumber-cd's reclaimable-pv-releaser wrote and read this label instead of the one that
        /// it documents. Volume Warden reads it with `--legacy-label`, and removes it at a
        /// release.
        LEGACY_LABEL: "label" on "volume" = "reclaimable-pv-releaser/managed-by";
        /// The value of `--controller-id`: volumes of the class are released, with
        /// `--associate-by-storage-class`.
        CONTROLLER_ID: "annotation" on "StorageClass"
            = "reclaimable-pv-releaser.kubernetes.io/controller-id";
        /// The volume binder chose the volume itself; no user reserved it for the claim. The
        /// annotation is removed at a release, together with `claimRef`.
        BOUND_BY_CONTROLLER: "annotation" on "volume" = "pv.kubernetes.io/bound-by-controller";
        /// The volume binder has completed the binding of the claim. `pv-protection` refuses the
        /// binding of a volume that is being deleted, unless its claim has the annotation.
        BIND_COMPLETED: "annotation" on "claim" = "pv.kubernetes.io/bind-completed";
        /// The binder records in these that it bound a claim. In a claim template they are refused
        /// without `--template-fields=annotations`.
        BINDER_PREFIX: "prefix of annotations" on "claim, claim template" = "pv.kubernetes.io/";
        /// Kubernetes' volume controllers. Refused without `--template-fields=annotations`.
        VOLUME_PREFIX: "prefix of annotations" on "claim template" = "volume.kubernetes.io/";
        /// Kubernetes' volume controllers. Refused, except `storage-class`, without
        /// `--template-fields=annotations`.
        VOLUME_BETA_PREFIX: "prefix of annotations" on "claim template"
            = "volume.beta.kubernetes.io/";
        /// A provisioner creates a volume for the claim, so the reconciler of `pv-releaser`
        /// reserves no released volume for it.
        STORAGE_PROVISIONER: "annotation" on "claim" = "volume.kubernetes.io/storage-provisioner";
        /// The same, as written before Kubernetes 1.23.
        STORAGE_PROVISIONER_BETA: "annotation" on "claim"
            = "volume.beta.kubernetes.io/storage-provisioner";
        /// The scheduler has chosen a node for the claim's volume, so the reconciler of
        /// `pv-releaser` reserves no released volume for the claim.
        SELECTED_NODE: "annotation" on "claim" = "volume.kubernetes.io/selected-node";
        /// A large annotation that repeats the manifest. It is not part of the copy of a volume.
        LAST_APPLIED: "annotation" on "volume"
            = "kubectl.kubernetes.io/last-applied-configuration";
        /// A mirror pod, which the kubelet created for a static pod. `pvc-protection` allows it
        /// even if it uses a claim that is being deleted.
        MIRROR: "annotation" on "pod" = "kubernetes.io/config.mirror";
        /// The class, as written before Kubernetes 1.6. It takes precedence over the field.
        STORAGE_CLASS: "annotation" on "claim, volume" = "volume.beta.kubernetes.io/storage-class";
    }
}
