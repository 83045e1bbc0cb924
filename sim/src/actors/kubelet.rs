//! The kubelet of the one node: starts pods, lets some of them finish, and ends deleted ones.

use super::{Call, Controller};
use crate::{
    cluster::Cluster,
    json::{at, claims_of, is_deleting, is_finished, name, namespace, text, uid},
    random::digest,
    view::View,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The two possible durations, in milliseconds, until the containers of a deleted pod have ended.
const ENDING: [u64; 2] = [800, 4_500];
/// Milliseconds that a pod with the label `finishes` runs.
const RUNNING: u64 = 1_500;

/// Starts the pods of the node, and removes deleted pods once their containers have ended.
#[derive(Default)]
pub struct Kubelet {
    /// The virtual millisecond at which the kubelet first saw each pod (by uid): as deleted if the
    /// flag is true, as running if it is false.
    seen: BTreeMap<(String, bool), u64>,
    /// Whether the kubelet still waits for a pod to reach the end of its time.
    waits: bool,
}

impl Controller for Kubelet {
    const NAME: &'static str = "kubelet";
    const USER: &'static str = "system:node:node";
    const KINDS: &'static [&'static str] = &["pods", "persistentvolumeclaims"];

    fn act(&mut self, view: &View, live: &Cluster, now: u64) -> Vec<Call> {
        self.waits = false;
        let pods = view
            .all("pods")
            .filter(|pod| !text(pod, "/spec/nodeName").is_empty());
        pods.filter_map(|pod| self.tend(view, live, pod, now))
            .collect()
    }

    fn waits(&self) -> bool {
        self.waits
    }
}

impl Kubelet {
    fn tend(&mut self, view: &View, live: &Cluster, pod: &Value, now: u64) -> Option<Call> {
        let path = format!("/api/v1/namespaces/{}/pods/{}", namespace(pod), name(pod));
        if is_deleting(pod) {
            let long = digest((live.seed, uid(pod))).is_multiple_of(2);
            if !self.is_over(pod, true, now, ENDING[usize::from(long)]) {
                return None;
            }
            let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid(pod)}});
            return Some(Call::delete_with(path, options));
        }
        if is_finished(pod) {
            return None;
        }
        if text(pod, "/status/phase") != "Running" {
            let mountable = claims_of(pod).all(|claim| is_mountable(view, pod, claim));
            return mountable.then(|| phase(&path, pod, "Running"));
        }
        at(pod, "/metadata/labels/finishes")?;
        self.is_over(pod, false, now, RUNNING)
            .then(|| phase(&path, pod, "Succeeded"))
    }

    /// Returns whether the pod has been in this state, deleted or running, for at least
    /// `milliseconds`.
    fn is_over(&mut self, pod: &Value, deleted: bool, now: u64, milliseconds: u64) -> bool {
        let since = *self
            .seen
            .entry((uid(pod).to_owned(), deleted))
            .or_insert(now);
        let over = now >= since + milliseconds;
        self.waits |= !over;
        over
    }
}

/// Source: `pkg/kubelet/volumemanager/populator` of Kubernetes, which refuses claims that are being
/// deleted.
fn is_mountable(view: &View, pod: &Value, claim: &str) -> bool {
    let claim = view.get("persistentvolumeclaims", namespace(pod), claim);
    claim.is_some_and(|claim| text(claim, "/status/phase") == "Bound" && !is_deleting(claim))
}

fn phase(path: &str, pod: &Value, phase: &str) -> Call {
    let patch = json!({"metadata": {"uid": uid(pod)}, "status": {"phase": phase}});
    Call::merge(format!("{path}/status"), patch)
}
