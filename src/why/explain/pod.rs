//! Explains the state of a pod.

pub(super) mod claims;
pub(super) mod conditions;
mod deleted_claim;
mod missing;
mod mounting;
mod pending;
mod placement;
pub(super) mod quota;
pub(super) mod terminating;
mod waiting;

use crate::why::{Answer, Cause, Conclusion, LiveReads, Lookup, Object, read::Pod};
use kube::ResourceExt;
pub(in crate::why) use waiting::may_lack_volumes;

/// The chain of causes for the state of a pod, and the further causes that are not part of the
/// chain.
type Causes = (Vec<Cause>, Vec<Cause>);

/// Explains why the pod is in its state.
pub(super) fn explain(reads: &LiveReads, object: &Object) -> Lookup<Answer> {
    let pod = reads.get::<Pod>(object.namespace_name(), &object.name.name);
    pod.map(|pod| answer(reads, object, &pod))
}

fn answer(reads: &LiveReads, object: &Object, pod: &Pod) -> Answer {
    let state = state(pod);
    let since = match state {
        "Terminating" => terminating::since(pod),
        _ => pod.creation_timestamp().map(|time| time.0),
    };
    let answer = Answer::of(object, state).since(since);
    match state {
        "Succeeded" => {
            return answer.concluding(Conclusion::healthy("all containers of the pod succeeded"));
        }
        "Running" if is_ready(pod) => {
            return answer.concluding(Conclusion::healthy(
                "the pod and all its containers are ready",
            ));
        }
        _ => {}
    }
    let (chain, also) = all(reads, object, pod);
    Answer {
        also,
        ..answer.because(chain)
    }
}

/// The chain of causes for a pod in any state: why it does not run, is not ready, or stays
/// Terminating.
pub(super) fn causes(reads: &LiveReads, object: &Object, pod: &Pod) -> Vec<Cause> {
    all(reads, object, pod).0
}

fn all(reads: &LiveReads, object: &Object, pod: &Pod) -> Causes {
    match state(pod) {
        "Terminating" => terminating::causes(reads, object, pod),
        "Pending" => pending::causes(reads, object, pod),
        "Failed" | "Unknown" => (vec![waiting::ended(object, pod)], Vec::new()),
        _ => {
            let chain = waiting::not_ready(reads, object, pod);
            (chain.unwrap_or_default(), Vec::new())
        }
    }
}

/// Whether the condition `Ready` of the pod is True and each of its containers is ready.
fn is_ready(pod: &Pod) -> bool {
    let ready = conditions::is_true(pod, "Ready");
    let statuses = pod.status.iter();
    let mut containers = statuses.flat_map(|status| status.container_statuses.iter().flatten());
    ready && containers.all(|container| container.ready)
}

/// The state of the pod in one word: its phase, or `Terminating`.
pub(super) fn state(pod: &Pod) -> &str {
    if pod.metadata.deletion_timestamp.is_some() {
        return "Terminating";
    }
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    phase.unwrap_or("Pending")
}
