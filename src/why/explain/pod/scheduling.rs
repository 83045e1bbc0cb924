//! Reads the message of the scheduler about a pod that it cannot place.

/// Why kube-scheduler rejects a node, or the pod, because of volumes.
///
/// The condition `PodScheduled` has no field for the plugin that rejected, so its message is
/// compared with what the plugins print. Source: `pkg/scheduler/framework/plugins/` of Kubernetes
/// 1.34, in `volumebinding`, `volumezone`, `volumerestrictions` and `nodevolumelimits`.
const VOLUME_REASONS: [&str; 9] = [
    "node(s) didn't find available persistent volumes to bind",
    "node(s) had volume node affinity conflict",
    "node(s) did not have enough free storage",
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
    "pod has unbound immediate PersistentVolumeClaims",
    "node(s) had no available volume zone",
    "node(s) had no available disk",
    "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode",
    "node(s) exceed max volume count",
];

/// Whether at least one node, or the pod itself, was rejected because of volumes.
pub(super) fn is_about_volumes(message: &str) -> bool {
    VOLUME_REASONS.iter().any(|reason| message.contains(reason))
}

#[cfg(test)]
mod tests {
    use super::is_about_volumes;

    #[test]
    fn only_reasons_of_the_volume_plugins_are_about_volumes() {
        for (message, expected) in [
            (
                "0/3 nodes are available: 3 node(s) had volume node affinity conflict.",
                true,
            ),
            (
                "0/1 nodes are available: 1 node has pod using PersistentVolumeClaim with the same \
                 name and ReadWriteOncePod access mode. preemption: 0/1 nodes are available.",
                true,
            ),
            (
                "0/3 nodes are available: 1 node(s) exceed max volume count, 2 Insufficient cpu.",
                true,
            ),
            ("0/2 nodes are available: 2 Insufficient memory.", false),
            (
                "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules of \
                 namespace volume-tests.",
                false,
            ),
        ] {
            assert_eq!(is_about_volumes(message), expected, "{message}");
        }
    }
}
