//! Explains pods of a StatefulSet that do not exist.

use super::{One, stale};
use crate::why::{
    Cause, Code, Evidence, Look, Object,
    explain::{
        events,
        pod::quota::{self, Want},
    },
    read::PersistentVolumeClaim,
};
use k8s_openapi::api::core::v1::{self as core, Event};
use kube::ResourceExt;

/// The reason of the Event that the StatefulSet controller emits when the API server refuses a pod
/// or a claim.
const FAILED: &str = "FailedCreate";

pub(super) fn causes(one: &One<'_>, ordinal: u32) -> Vec<Cause> {
    let stale = stale::causes(one, ordinal);
    if !stale.is_empty() {
        return stale;
    }
    let claims = stale::claims(one, ordinal);
    if let Some(quota) = quota(one, &claims) {
        return vec![quota];
    }
    // A claim could not be read, and that claim may be the cause.
    if claims.iter().any(|(_, look)| matches!(look, Look::Unread)) {
        return Vec::new();
    }
    let uid = one.set.metadata.uid.as_deref();
    match events::latest(one.world, one.object, uid, FAILED) {
        Some(Some(event)) => vec![refused(one, &event)],
        Some(None) => vec![not_yet(one, ordinal)],
        None => Vec::new(),
    }
}

/// The cause that a quota does not allow one of the missing claims of the pod; none if no quota
/// refuses them.
fn quota(one: &One<'_>, claims: &[(String, Look<PersistentVolumeClaim>)]) -> Option<Cause> {
    let looks = claims.iter().map(|(_, look)| look);
    let templates = one.kept.templates.iter();
    let mut missing = templates
        .zip(looks)
        .filter(|(_, look)| matches!(look, Look::Absent));
    missing.find_map(|(template, _)| {
        let template = template_of(one, template)?;
        let want = Want::of(Some(&template.metadata), template.spec.as_ref()?);
        quota::exhausted(one.world, one.object.namespace_name(), &want)
    })
}

fn template_of<'a>(one: &One<'a>, name: &str) -> Option<&'a core::PersistentVolumeClaim> {
    let spec = one.set.spec.as_ref()?;
    let mut templates = spec.volume_claim_templates.iter().flatten();
    templates.find(|template| template.name_any() == name)
}

fn refused(one: &One<'_>, event: &Event) -> Cause {
    let said = events::sentence(event);
    let sentence = format!("The API server refused the pod or its claim: {said}");
    if let Some(quota) = quota_of_claims(&said) {
        let cause = quota::refused(
            one.object.namespace_name(),
            quota,
            sentence.clone(),
            "status.used",
        );
        return Cause {
            evidence: seen(one, event),
            ..cause
        };
    }
    Cause::new(Code::NoVolumeProblem, sentence, seen(one, event)).run(
        one.object.describe(),
        "to see all Events of the StatefulSet; then correct the StatefulSet, or the quota or webhook that refuses its pods",
    )
}

fn seen(one: &One<'_>, event: &Event) -> Evidence {
    let field = format!("Event {FAILED}");
    Evidence::new(one.object.to_string(), field).since(events::since(event))
}

/// The name of the quota that refused a claim, read from the message of the API server; none if the
/// message is about another object.
fn quota_of_claims(said: &str) -> Option<&str> {
    let (before, after) = said.split_once("exceeded quota: ")?;
    let name = after.split(',').next()?;
    before.contains("persistentvolumeclaims \"").then_some(name)
}

fn not_yet(one: &One<'_>, ordinal: u32) -> Cause {
    let name = format!("{}-{ordinal}", one.object.name.name);
    let pod = Object::pod(one.object.namespace_name(), &name);
    let sentence = format!(
        "The pod {name} does not exist. The StatefulSet controller creates it, and has reported nothing about it."
    );
    let evidence = Evidence::new(pod.to_string(), "metadata.name");
    Cause::new(Code::PodPending, sentence, evidence).run(
        one.object.describe(),
        "to see whether the StatefulSet makes progress; if it makes none, check that kube-controller-manager runs",
    )
}

#[cfg(test)]
mod tests {
    use super::quota_of_claims;

    #[test]
    fn a_quota_of_pods_is_no_quota_of_claims() {
        let said = |kind: &str| {
            format!(
                "create {kind} failed error: {kind} \"data-web-1\" is forbidden: exceeded quota: small, requested: {kind}=1, used: {kind}=1, limited: {kind}=1"
            )
        };
        assert_eq!(
            quota_of_claims(&said("persistentvolumeclaims")),
            Some("small")
        );
        assert_eq!(quota_of_claims(&said("pods")), None);
        assert_eq!(
            quota_of_claims("persistentvolumeclaims \"a\" is forbidden"),
            None
        );
    }
}
