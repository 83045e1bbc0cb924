//! Describes what keeps an object, a [`Holder`], as a [`Cause`]: a sentence, evidence and the next
//! step.

use super::{Cause, Code, Evidence, Holder, NamedPod, Next, Object, owner};
use crate::objects::ObjectName;
use std::fmt::Write as _;

/// Maximum number of pods that one sentence names.
const NAMED: usize = 3;
/// Maximum length in bytes of the names of pods in one sentence, without the first one.
const NAMES: usize = 160;

/// Purpose of the command that deletes the pod. It warns that the claim and its data may be
/// deleted, too.
const PURPOSE_IN_USE: &str = "\
    once neither the pod nor the data of the claim is needed (the claim is deleted automatically \
    when no pod uses it, and its storage too if the volume's policy is Delete)";
const PURPOSE_FINISHED: &str = "\
    once neither the pod's logs nor the data of the claim is needed (the claim is deleted \
    automatically when no pod uses it, and its storage too if the volume's policy is Delete)";

/// Explains to a user why `holder` prevents the deletion of `object`: a sentence, evidence and the
/// next step.
pub fn describe(object: &Object, holder: &Holder<'_>) -> Cause {
    match holder {
        Holder::Pods(users) | Holder::FinishedPods(users) => used_by(holder.code(), users),
        Holder::NoPod => unused(object),
        Holder::Claim(claim) => bound(object, *claim),
        Holder::NoClaim => not_bound(object),
        Holder::Finalizer(finalizer) => foreign(object, finalizer),
    }
}

/// Returns the cause and its next step as one text for the note of an Event, or the cause alone if
/// both have more than `limit` bytes: a command that is cut may name another object.
pub fn note(cause: &Cause, limit: usize) -> String {
    let sentence = &cause.sentence;
    let whole = match &cause.next {
        Next::Run { command, purpose } => format!("{sentence} What to do, {purpose}: {command}"),
        Next::Nothing { meanwhile } if meanwhile.is_empty() => sentence.clone(),
        Next::Nothing { meanwhile } => format!("{sentence} No action is needed: {meanwhile}."),
    };
    if whole.len() <= limit {
        whole
    } else {
        sentence.clone()
    }
}

/// Returns the warning for a user who deletes the object: what keeps it until a user or another
/// controller acts; none if nothing does.
pub fn warning(object: &Object, holders: &[Holder<'_>]) -> Option<String> {
    let holder = holders.iter().find(|holder| holder.code().lasts())?;
    let (kind, name) = (object.kind.name().to_lowercase(), &object.name.name);
    let cause = describe(object, holder).sentence;
    Some(format!(
        "{kind} \"{name}\" stays Terminating for now. {cause}"
    ))
}

/// Describes the pods that use a claim; `users` must not be empty.
fn used_by(code: Code, users: &[NamedPod<'_>]) -> Cause {
    let running = users.iter().find(|(_, pod)| !pod.finished);
    let (first, _) = running.unwrap_or(&users[0]);
    let others = users.iter().filter(|(name, _)| name != first);
    let (mut who, mut left) = (format!("pod {first}"), NAMES);
    for (count, (other, _)) in others.enumerate() {
        if count + 1 == NAMED || other.name.len() > left {
            let _ = write!(who, " and {} more", users.len() - (count + 1));
            break;
        }
        left -= other.name.len();
        let _ = write!(who, ", {}", other.name);
    }
    let verb = if users.len() == 1 { "uses" } else { "use" };
    let first_pod = Object::pod(&first.namespace, &first.name);
    let delete = format!("kubectl delete {}", first_pod.arguments());
    let evidence = |field| Evidence::new(first_pod.to_string(), field);
    if code == Code::InUse {
        let sentence = format!("The claim is kept because {who} {verb} it.");
        return Cause::new(code, sentence, evidence("spec.volumes")).run(delete, PURPOSE_IN_USE);
    }
    let sentence = format!(
        "The claim is kept because {who} {verb} it. The workload has finished, but with --finished-pods=hold, as with the built-in \
         controller of Kubernetes, a finished pod uses its claims as long as it exists; with --finished-pods=release it does not."
    );
    Cause::new(code, sentence, evidence("status.phase")).run(delete, PURPOSE_FINISHED)
}

fn unused(object: &Object) -> Cause {
    let sentence = "No pod uses the claim, so its protection finalizer is about to be removed.";
    let evidence = Evidence::new(object.to_string(), "metadata.finalizers");
    Cause::new(Code::NotInUse, sentence, evidence).wait("the claim is deleted within seconds")
}

fn bound(object: &Object, claim: Option<&ObjectName>) -> Cause {
    let named = claim.map_or_else(String::new, |claim| format!(" {claim}"));
    let sentence = format!(
        "The volume is kept because the claim{named} is bound to it; it can be deleted once the claim is deleted."
    );
    let evidence = Evidence::new(object.to_string(), "status.phase");
    Cause::new(Code::Bound, sentence, evidence)
}

fn not_bound(object: &Object) -> Cause {
    let sentence =
        "The volume is bound to no claim, so its protection finalizer is about to be removed.";
    let evidence = Evidence::new(object.to_string(), "metadata.finalizers");
    Cause::new(Code::NotBound, sentence, evidence).wait("the volume is deleted within seconds")
}

fn foreign(object: &Object, finalizer: &str) -> Cause {
    let sentence = match owner(finalizer) {
        Some(owner) => format!(
            "The finalizer {finalizer} keeps the object; {who} removes the finalizer {when}.",
            who = owner.who,
            when = owner.when
        ),
        None => format!(
            "The finalizer {finalizer} keeps the object. It belongs neither to Kubernetes nor to Volume Warden: the controller that added it must remove it."
        ),
    };
    let evidence = Evidence::new(object.to_string(), "metadata.finalizers");
    Cause::new(Code::ForeignFinalizer, sentence, evidence).run(
        format!(
            "kubectl get {} -o yaml --show-managed-fields",
            object.arguments()
        ),
        "to see which field manager added the finalizer; then check that controller",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::{Pod, pod::PodWire};

    /// The note about a claim that four finished pods of the namespace use, whose names have this
    /// many characters.
    fn noted(namespace: &str, length: usize) -> String {
        let names: Vec<_> = (0..4)
            .map(|index| ObjectName::new(namespace, format!("{index}{}", "x".repeat(length - 1))))
            .collect();
        let pod = serde_json::json!({"metadata": {}, "status": {"phase": "Succeeded"}});
        let pod: PodWire = serde_json::from_value(pod).expect("a pod");
        let pod = Pod::from(pod);
        let users: Vec<_> = names.iter().map(|name| (name, &pod)).collect();
        note(&used_by(Code::FinishedPod, &users), 1000)
    }

    #[test]
    fn a_note_ends_with_a_whole_command_or_without_one() {
        let command =
            |length: usize| format!("kubectl delete pod 0{} -n shop", "x".repeat(length - 1));
        let short = noted("shop", 50);
        assert!(short.ends_with(&command(50)), "{short}");
        assert!(short.contains(" and 1 more use it."), "{short}");
        let long = noted("shop", 120);
        assert!(long.ends_with(&command(120)), "{long}");
        assert!(long.contains(" and 2 more use it."), "{long}");
        let longest = noted(&"n".repeat(63), 253);
        assert!(longest.contains(" and 3 more use it."), "{longest}");
        assert!(!longest.contains("kubectl"), "{longest}");
        assert!(longest.len() <= 1000);
    }
}
