//! The commands that are not executed.

use super::super::pages::commands;

const NO_IMAGE: &str = "pods do not run here: tests/operations/chart/cluster.rs runs its command";
const NO_KUBELET: &str = "no kubelet serves logs on the test control plane";
const NO_OBJECT: &str = "a sentence names the command without its object";

/// Commands in code blocks and in sentences, and why they are not executed. The commands of other
/// programs are in the table of `tests/reference/snippets.rs`.
pub const NOT_EXECUTED: [(&str, &str); 13] = [
    ("volume-warden why pvc", NO_OBJECT),
    (
        "helm test volume-warden --namespace volume-warden",
        NO_IMAGE,
    ),
    (
        "kubectl -n volume-warden logs -f job/volume-warden-drain",
        NO_KUBELET,
    ),
    (
        "kubectl -n volume-warden logs -l app.kubernetes.io/name=volume-warden --prefix --tail=-1 \
         | grep -E 'would (act|answer|publish)'",
        NO_KUBELET,
    ),
    ("kubectl -n volume-warden logs POD --previous", NO_KUBELET),
    (
        "kubectl apply -f manifests/components/pvc-trash-admission-policy/policy.yaml",
        "Kubernetes 1.34 does not serve the policy as v1: a scenario of pvc-trash applies it",
    ),
    (
        "kubectl top pods -n volume-warden",
        "the command needs metrics-server",
    ),
    (
        "volume-warden run --kubeconfig FILE",
        "the server runs until it is stopped: each scenario runs it",
    ),
    ("kubectl apply -k", NO_OBJECT),
    ("kubectl delete --cascade=orphan", NO_OBJECT),
    (
        "kubectl delete --ignore-not-found mutatingadmissionpolicybinding,mutatingadmissionpolicy \
         volume-warden-trash-volumes",
        "Kubernetes 1.34 does not serve these kinds by default",
    ),
    ("kubectl delete -k", NO_OBJECT),
    ("kubectl delete pvc", NO_OBJECT),
];

#[test]
fn every_row_is_a_command_of_the_documentation() {
    let shown: Vec<String> = ["kubectl ", "helm ", "volume-warden "]
        .iter()
        .flat_map(|program| commands(program))
        .map(|each| each.command)
        .collect();
    for (command, reason) in NOT_EXECUTED {
        assert!(
            shown.iter().any(|each| each == command),
            "no page has {command:?}"
        );
        assert!(!reason.is_empty());
    }
}
