//! The kinds that the model supports.

/// A kind of object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Resource {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) namespaced: bool,
    /// Whether `status` can only be written by the subresource.
    pub(crate) status: bool,
}

impl Resource {
    /// The value of `apiVersion`.
    pub(crate) fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// The plural with the group, as in the messages of the API server.
    pub(crate) fn qualified(&self) -> String {
        match self.group {
            "" => self.plural.to_owned(),
            group => format!("{}.{group}", self.plural),
        }
    }

    /// Whether the generation counts the changes of the spec.
    pub(crate) fn has_generation(&self) -> bool {
        matches!(
            self.group,
            "apps" | "batch" | "admissionregistration.k8s.io"
        ) || self.kind == "Pod"
    }
}

macro_rules! resources {
    ($($group:literal $version:literal $plural:literal $kind:literal $scope:ident $status:literal;)*) => {
        /// All kinds.
        pub(crate) static RESOURCES: &[Resource] = &[$(Resource {
            group: $group, version: $version, plural: $plural, kind: $kind,
            namespaced: resources!(@ $scope), status: $status,
        },)*];
    };
    (@ namespaced) => { true };
    (@ cluster) => { false };
}

resources! {
    "" "v1" "pods" "Pod" namespaced true;
    "" "v1" "persistentvolumeclaims" "PersistentVolumeClaim" namespaced true;
    "" "v1" "persistentvolumes" "PersistentVolume" cluster true;
    "" "v1" "namespaces" "Namespace" cluster true;
    "" "v1" "nodes" "Node" cluster true;
    "" "v1" "configmaps" "ConfigMap" namespaced false;
    "" "v1" "secrets" "Secret" namespaced false;
    "" "v1" "services" "Service" namespaced true;
    "" "v1" "replicationcontrollers" "ReplicationController" namespaced true;
    "" "v1" "endpoints" "Endpoints" namespaced false;
    "" "v1" "events" "Event" namespaced false;
    "events.k8s.io" "v1" "events" "Event" namespaced false;
    "apps" "v1" "statefulsets" "StatefulSet" namespaced true;
    "apps" "v1" "deployments" "Deployment" namespaced true;
    "apps" "v1" "replicasets" "ReplicaSet" namespaced true;
    "apps" "v1" "daemonsets" "DaemonSet" namespaced true;
    "apps" "v1" "controllerrevisions" "ControllerRevision" namespaced false;
    "batch" "v1" "jobs" "Job" namespaced true;
    "batch" "v1" "cronjobs" "CronJob" namespaced true;
    "coordination.k8s.io" "v1" "leases" "Lease" namespaced false;
    "storage.k8s.io" "v1" "storageclasses" "StorageClass" cluster false;
    "storage.k8s.io" "v1" "volumeattachments" "VolumeAttachment" cluster true;
    "storage.k8s.io" "v1" "csinodes" "CSINode" cluster false;
    "discovery.k8s.io" "v1" "endpointslices" "EndpointSlice" namespaced false;
    "admissionregistration.k8s.io" "v1" "mutatingwebhookconfigurations" "MutatingWebhookConfiguration" cluster false;
    "admissionregistration.k8s.io" "v1" "validatingwebhookconfigurations" "ValidatingWebhookConfiguration" cluster false;
    "admissionregistration.k8s.io" "v1" "validatingadmissionpolicies" "ValidatingAdmissionPolicy" cluster true;
    "admissionregistration.k8s.io" "v1" "validatingadmissionpolicybindings" "ValidatingAdmissionPolicyBinding" cluster false;
}
