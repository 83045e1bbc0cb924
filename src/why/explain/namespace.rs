//! Explains the state of a namespace.

mod backend;
mod content;

use super::{claim, controllers, pod, quote};
use crate::{
    causes::{self, Holder},
    why::{
        Answer, Cause, Code, Conclusion, Evidence, LiveReads, Lookup, Object, Selection,
        read::{PersistentVolumeClaim, Pod},
    },
};
use content::Content;
use k8s_openapi::{api::core::v1::Namespace, jiff::Timestamp};
use kube::ResourceExt;

/// Maximum number of claims that one sentence names.
const NAMED: usize = 3;
/// The finalizer in `spec.finalizers` that kube-controller-manager removes after it has deleted the
/// objects in the namespace.
const CONTENT: &str = "kubernetes";

/// Explains why the namespace is in its state.
pub(super) fn explain(reads: &LiveReads, object: &Object) -> Lookup<Answer> {
    match reads.get::<Namespace>("", &object.name.name) {
        Lookup::Found(namespace) => Lookup::Found(answer(reads, object, &namespace)),
        Lookup::Absent => backend::explain(reads, object),
        Lookup::Unread => Lookup::Unread,
    }
}

fn answer(reads: &LiveReads, object: &Object, namespace: &Namespace) -> Answer {
    let Some(deleted) = &namespace.metadata.deletion_timestamp else {
        let created = namespace.creation_timestamp().map(|time| time.0);
        let healthy = Conclusion::healthy("the namespace is not being deleted");
        return Answer::of(object, "Active")
            .since(created)
            .concluding(healthy);
    };
    let answer = Answer::of(object, "Terminating").since(Some(deleted.0));
    let content = Content::of(namespace);
    let mut kept = claims(reads, object, &content);
    if kept == Lookup::Absent {
        kept = pods(reads, object, &content);
    }
    let unread = kept == Lookup::Unread;
    let mut causes: Vec<Vec<Cause>> = kept.found().into_iter().collect();
    let explained = !causes.is_empty();
    causes.extend(
        content
            .causes(object, explained)
            .into_iter()
            .map(|cause| vec![cause]),
    );
    let finalizers = pod::terminating::by_finalizers(object, &namespace.metadata);
    let finalizers = finalizers.into_iter().chain(finalizing(object, namespace));
    causes.extend(finalizers.map(|cause| vec![cause]));
    if causes.is_empty() && unread {
        // The claims or pods could not be read, so it is not known whether they keep the namespace.
        return answer;
    }
    if causes.is_empty() {
        return answer.because([going(reads, object, deleted.0)]);
    }
    let mut causes = causes.into_iter();
    let chain = causes.next().unwrap_or_default();
    let also = causes
        .filter_map(|chain| chain.into_iter().next())
        .collect();
    Answer {
        also,
        ..answer.because(chain)
    }
}

/// The chain of causes if claims keep the namespace: the cause that names the claims, and what
/// holds the first one that is being deleted, or else the first one. Absent if there are no claims,
/// or if none is being deleted and nothing holds the first one: then Kubernetes waits for something
/// else before it deletes them, or fails to.
fn claims(reads: &LiveReads, object: &Object, content: &Content<'_>) -> Lookup<Vec<Cause>> {
    if !content.may_have("persistentvolumeclaims") {
        return Lookup::Absent;
    }
    let all = reads.list::<PersistentVolumeClaim>(&object.name.name, Selection::default());
    all.and_then(|all| {
        let claims = all.iter();
        let first = claims.min_by_key(|claim| claim.metadata.deletion_timestamp.is_none());
        held_by(reads, object, &all, first?)
    })
}

/// The chain of causes if a pod keeps the namespace that is being deleted and has not ended. Absent
/// if there is none, or if a condition reports the objects that remain: Kubernetes deletes the pods
/// of a namespace before any other object, and sets that condition only after them. Source:
/// `deleteAllContent` in `pkg/controller/namespace/deletion`.
fn pods(reads: &LiveReads, object: &Object, content: &Content<'_>) -> Lookup<Vec<Cause>> {
    if content.reports_objects() {
        return Lookup::Absent;
    }
    let all = reads.list::<Pod>(&object.name.name, Selection::default());
    all.and_then(|all| {
        let ending = |pod: &&Pod| pod.metadata.deletion_timestamp.is_some();
        let pod = all.iter().find(ending)?;
        let held = Object::pod(&object.name.name, &pod.name_any());
        let sentence = format!(
            "Kubernetes deletes the pods of a namespace before any other object in it, and the pod {} still exists.",
            pod.name_any()
        );
        let evidence = Evidence::new(held.to_string(), "metadata.deletionTimestamp")
            .since(pod::terminating::since(pod));
        let cause = Cause::new(Code::NamespaceContent, sentence, evidence).run(
            format!("kubectl get pods -n {}", object.name.name),
            "to see the pods of the namespace",
        );
        let (further, _) = pod::terminating::causes(reads, &held, pod);
        Some([cause].into_iter().chain(further).collect())
    })
}

fn held_by(
    reads: &LiveReads,
    object: &Object,
    all: &[PersistentVolumeClaim],
    first: &PersistentVolumeClaim,
) -> Option<Vec<Cause>> {
    let name = first.name_any();
    let held = Object::claim(&object.name.name, &name);
    // A claim that is not being deleted yet may already be held.
    let further = claim::held(reads, &held, first);
    if first.metadata.deletion_timestamp.is_none() && further.is_empty() {
        return None;
    }
    let others = all
        .iter()
        .map(ResourceExt::name_any)
        .filter(|other| *other != name);
    let named: Vec<String> = [name.clone()].into_iter().chain(others).collect();
    let named = quote::first(&named, NAMED);
    let (claims, keep) = if all.len() == 1 {
        ("claim", "keeps")
    } else {
        ("claims", "keep")
    };
    let sentence = format!("The {claims} {named} {keep} the namespace Terminating.");
    let since = first
        .metadata
        .deletion_timestamp
        .as_ref()
        .map(|time| time.0);
    let evidence = Evidence::new(held.to_string(), "metadata.deletionTimestamp").since(since);
    let cause = Cause::new(Code::ClaimsInNamespace, sentence, evidence).run(
        format!("kubectl get pvc -n {}", object.name.name),
        "to see the claims of the namespace",
    );
    Some([cause].into_iter().chain(further).collect())
}

/// One cause for each finalizer in `spec.finalizers` that another controller has to remove.
/// Kubernetes deletes the namespace only when that list and `metadata.finalizers` are empty. The
/// condition about finalizers reports those of the objects in the namespace only.
fn finalizing(object: &Object, namespace: &Namespace) -> impl Iterator<Item = Cause> {
    let finalizers = namespace.spec.iter().flat_map(|spec| &spec.finalizers);
    let foreign = finalizers.flatten().filter(|each| *each != CONTENT);
    foreign.map(|finalizer| Cause {
        evidence: Evidence::new(object.to_string(), "spec.finalizers"),
        ..causes::describe(object, &Holder::Finalizer(finalizer))
    })
}

/// The cause for a namespace that is being deleted and that nothing is known to keep. After
/// [`controllers::LATE`], kube-controller-manager may not run.
fn going(reads: &LiveReads, object: &Object, deleted: Timestamp) -> Cause {
    let evidence =
        Evidence::new(object.to_string(), "metadata.deletionTimestamp").since(Some(deleted));
    let cause = |sentence: String| Cause::new(Code::NamespaceContent, sentence, evidence);
    let age = reads.now.as_second() - deleted.as_second();
    if age < controllers::LATE {
        let sentence = "Kubernetes is deleting the objects in the namespace, and has not reported yet that any object remains.";
        return cause(sentence.to_owned()).wait("the namespace is deleted once it is empty");
    }
    let sentence = "The namespace was deleted more than a minute ago, and kube-controller-manager, which deletes the objects in it, reports neither that \
                    an object remains nor that it failed to delete one.";
    cause(sentence.to_owned()).run(
        controllers::in_tree_lease().describe(),
        "to see whether kube-controller-manager runs: while it does, it renews this Lease every few seconds. It reports the objects that remain only after \
         it has tried to delete all objects, which takes some minutes in a large namespace",
    )
}
