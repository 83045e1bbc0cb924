//! StatefulSets.

mod not_made;
mod pods;
mod stale;

use super::pod;
use crate::{
    objects::{StatefulSet as Kept, stateful_set::Policy},
    why::{
        Answer, Cause, Code, Conclusion, Evidence, Look, Object, World,
        read::{Pod, StatefulSet},
    },
};
use kube::ResourceExt;
use pods::Pods;

/// Why it is as it is.
pub(super) fn explain(world: &World, object: &Object) -> Look<Answer> {
    let set = match world.get::<StatefulSet>(object.namespace_name(), &object.name.name) {
        Look::Found(set) => set,
        Look::Absent => return Look::Absent,
        Look::Unread => return Look::Unread,
    };
    if let Some(deleted) = &set.metadata.deletion_timestamp {
        let mut causes = pod::terminating::by_finalizers(object, &set.metadata).into_iter();
        let answer = Answer::of(object, "Terminating").since(Some(deleted.0));
        let chain: Vec<Cause> = causes.next().into_iter().collect();
        let also = causes.collect();
        return Look::Found(Answer {
            also,
            ..answer.because(chain)
        });
    }
    Look::Found(living(world, object, &set))
}

fn living(world: &World, object: &Object, set: &StatefulSet) -> Answer {
    let Some(pods) = Pods::of(world, object, set) else {
        return Answer::of(object, "there");
    };
    let one = One {
        world,
        object,
        set,
        kept: &set.rules,
        pods: &pods,
    };
    one.answer()
}

/// A set and its pods.
struct One<'a> {
    world: &'a World,
    object: &'a Object,
    set: &'a StatefulSet,
    kept: &'a Kept,
    pods: &'a Pods,
}

impl One<'_> {
    /// By the first unhealthy pod.
    fn answer(&self) -> Answer {
        let wanted = self.kept.replicas;
        let mut ordinals = self.kept.start..self.kept.start.saturating_add(wanted);
        if let Some(ordinal) = ordinals.find(|ordinal| !self.pods.is_ready(*ordinal)) {
            let state = format!(
                "short of pods: {} of {wanted} are ready",
                self.pods.ready(self.kept)
            );
            let answer = Answer::of(self.object, state);
            return answer.because(self.short_of(ordinal));
        }
        if let Some(surplus) = self.pods.surplus(self.kept) {
            let state = format!("being scaled down to {wanted} pods");
            let answer = Answer::of(self.object, state);
            return answer.because(self.going(surplus));
        }
        let pods = match wanted {
            0 => "it is to have no pods".to_owned(),
            1 => "its one pod is ready".to_owned(),
            more => format!("all {more} pods are ready"),
        };
        let state = format!("complete: {pods}{}", retention(self.kept));
        Answer::of(self.object, state).concluding(self.conclusion())
    }

    /// Of a set that has its pods.
    fn conclusion(&self) -> Conclusion {
        let status = self.set.status.clone().unwrap_or_default();
        if status.observed_generation != self.set.metadata.generation {
            let examined = "its pods; the StatefulSet controller has not seen its latest change";
            return Conclusion::nothing_found(self.object, examined);
        }
        if status.update_revision != status.current_revision {
            let examined = "its pods; not all are of its latest revision";
            return Conclusion::nothing_found(self.object, examined);
        }
        Conclusion::healthy("it has the pods that it is to have, and they are ready")
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
        let ordered = if ordinal + 1 < self.kept.start + self.kept.replicas && self.is_ordered() {
            " The pods after it are made once it is ready."
        } else {
            ""
        };
        let sentence = format!("The pod {name} is {state} and not ready.{ordered}");
        let cause = self.about(Code::PodPending, pod, sentence, "status.phase");
        self.and_further(cause, pod)
    }

    /// A pod that has to be gone first.
    fn going(&self, pod: &Pod) -> Vec<Cause> {
        let name = pod.name_any();
        let sentence = format!("The pod {name} has to be gone before the set goes on.");
        let field = "metadata.deletionTimestamp";
        let cause = self.about(Code::PodTerminating, pod, sentence, field);
        if pod.metadata.deletion_timestamp.is_none() {
            return vec![cause.wait("the StatefulSet controller deletes it")];
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
            "to see why",
        )
    }

    fn and_further(&self, cause: Cause, pod: &Pod) -> Vec<Cause> {
        let object = Object::pod(self.object.namespace_name(), &pod.name_any());
        let further = pod::causes(self.world, &object, pod);
        [cause].into_iter().chain(further).collect()
    }

    fn is_ordered(&self) -> bool {
        let spec = self.set.spec.as_ref();
        spec.and_then(|spec| spec.pod_management_policy.as_deref()) != Some("Parallel")
    }
}

/// What becomes of the claims, as a sentence that follows another.
fn retention(set: &Kept) -> String {
    if set.templates.is_empty() {
        return String::new();
    }
    let word = |policy| match policy {
        Policy::Retain => "stay",
        Policy::Delete => "are deleted",
    };
    let policy = set.retention.unwrap_or_default();
    let (deleted, scaled) = (word(policy.when_deleted), word(policy.when_scaled));
    format!(
        ". Its claims {deleted} when it is deleted, and {scaled} when their pods are scaled away"
    )
}
