//! Explains the state of a StatefulSet.

mod claims;
mod not_made;
mod pods;
mod stale;

use super::pod;
use crate::{
    objects::StatefulSet as TrimmedSet,
    why::{
        Answer, Cause, Code, Conclusion, Evidence, LiveReads, Lookup, Object,
        read::{Pod, StatefulSet},
    },
};
use kube::ResourceExt;
use pods::Pods;

/// Explains why the StatefulSet is in its state.
pub(super) fn explain(reads: &LiveReads, object: &Object) -> Lookup<Answer> {
    let set = reads.get::<StatefulSet>(object.namespace_name(), &object.name.name);
    set.map(|set| answer(reads, object, &set))
}

fn answer(reads: &LiveReads, object: &Object, set: &StatefulSet) -> Answer {
    if let Some(deleted) = &set.metadata.deletion_timestamp {
        let mut causes = pod::terminating::by_finalizers(object, &set.metadata).into_iter();
        let answer = Answer::of(object, "Terminating").since(Some(deleted.0));
        let chain: Vec<Cause> = causes.next().into_iter().collect();
        let also = causes.collect();
        return Answer {
            also,
            ..answer.because(chain)
        };
    }
    living(reads, object, set)
}

fn living(reads: &LiveReads, object: &Object, set: &StatefulSet) -> Answer {
    let Some(pods) = Pods::of(reads, object, set) else {
        return Answer::of(object, "in an unknown state");
    };
    let one = SetContext {
        reads,
        object,
        set,
        trimmed: &set.trimmed,
        pods: &pods,
    };
    one.answer()
}

/// A StatefulSet that is not being deleted, and its pods.
struct SetContext<'a> {
    reads: &'a LiveReads,
    object: &'a Object,
    set: &'a StatefulSet,
    trimmed: &'a TrimmedSet,
    pods: &'a Pods,
}

impl SetContext<'_> {
    /// Explains the StatefulSet by its first pod that is missing or not ready. If all pods are
    /// ready, explains it by a pod that scaling down has to remove.
    fn answer(&self) -> Answer {
        let wanted = self.trimmed.replicas;
        let mut ordinals = self.trimmed.start..self.trimmed.start.saturating_add(wanted);
        if let Some(ordinal) = ordinals.find(|ordinal| !self.pods.is_ready(*ordinal)) {
            let state = format!(
                "not ready: {} of {wanted} pods are ready",
                self.pods.ready(self.trimmed)
            );
            let answer = Answer::of(self.object, state);
            return answer.because(self.short_of(ordinal));
        }
        if let Some(surplus) = self.pods.surplus(self.trimmed) {
            let state = format!("being scaled down to {wanted} pods");
            let answer = Answer::of(self.object, state);
            return answer.because(self.going(surplus));
        }
        let pods = match wanted {
            0 => "it requests no pods".to_owned(),
            1 => "its only pod is ready".to_owned(),
            more => format!("all {more} pods are ready"),
        };
        let state = format!("complete: {pods}{}", claims::fate(self));
        Answer::of(self.object, state).concluding(self.conclusion())
    }

    /// The conclusion for a StatefulSet whose pods all exist and are ready.
    fn conclusion(&self) -> Conclusion {
        let status = self.set.status.clone().unwrap_or_default();
        if status.observed_generation != self.set.metadata.generation {
            let examined =
                "the pods of the StatefulSet; its controller has not observed its latest change";
            return Conclusion::nothing_found(self.object, examined);
        }
        if status.update_revision != status.current_revision {
            let examined = "the pods of the StatefulSet, not all of which have its latest revision";
            return Conclusion::nothing_found(self.object, examined);
        }
        Conclusion::healthy("the StatefulSet has all its pods, and they are ready")
    }

    fn short_of(&self, ordinal: u32) -> Vec<Cause> {
        match self.pods.get(ordinal) {
            None => not_made::causes(self, ordinal),
            Some(pod) if pod.metadata.deletion_timestamp.is_some() => self.going(pod),
            Some(pod) => self.waiting(ordinal, pod),
        }
    }

    fn waiting(&self, ordinal: u32, pod: &Pod) -> Vec<Cause> {
        let state = pod::state(pod);
        if state == "Pending" {
            let stale = stale::causes(self, ordinal);
            if !stale.is_empty() {
                return stale;
            }
        }
        let name = pod.name_any();
        let ordered =
            if ordinal + 1 < self.trimmed.start + self.trimmed.replicas && self.is_ordered() {
                " The StatefulSet creates the next pods once this pod is ready."
            } else {
                ""
            };
        let sentence = format!("The pod {name} is {state} and not ready.{ordered}");
        let cause = self.about(Code::PodPending, pod, sentence, "status.phase");
        self.and_further(cause, pod)
    }

    /// The chain of causes for a pod that has to be deleted before the StatefulSet can continue.
    fn going(&self, pod: &Pod) -> Vec<Cause> {
        let name = pod.name_any();
        let sentence =
            format!("The pod {name} has to be deleted before the StatefulSet can continue.");
        let field = "metadata.deletionTimestamp";
        let cause = self.about(Code::PodTerminating, pod, sentence, field);
        if pod.metadata.deletion_timestamp.is_none() {
            return vec![cause.wait("the StatefulSet controller deletes the pod")];
        }
        self.and_further(cause, pod)
    }

    fn about(&self, code: Code, pod: &Pod, sentence: String, field: &str) -> Cause {
        let object = Object::pod(self.object.namespace_name(), &pod.name_any());
        let since = pod.metadata.deletion_timestamp.as_ref();
        let since = since.or(pod.metadata.creation_timestamp.as_ref());
        let evidence = Evidence::new(object.to_string(), field).since(since.map(|time| time.0));
        Cause::new(code, sentence, evidence).run(
            format!("volume-warden why {}", object.arguments()),
            "to see what the pod waits for",
        )
    }

    fn and_further(&self, cause: Cause, pod: &Pod) -> Vec<Cause> {
        let object = Object::pod(self.object.namespace_name(), &pod.name_any());
        let further = pod::causes(self.reads, &object, pod);
        [cause].into_iter().chain(further).collect()
    }

    fn is_ordered(&self) -> bool {
        let spec = self.set.spec.as_ref();
        spec.and_then(|spec| spec.pod_management_policy.as_deref()) != Some("Parallel")
    }
}
