//! Pods that a set is to have, and that do not exist.

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

/// What the controller of StatefulSets says when the API server refuses it something.
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
    // A claim that could not be read may be what is in the way.
    if claims.iter().any(|(_, look)| matches!(look, Look::Unread)) {
        return Vec::new();
    }
    let uid = one.set.metadata.uid.as_deref();
    match events::latest_of(one.world, one.object, uid, FAILED) {
        Some(Some(event)) => vec![refused(one, &event)],
        Some(None) => vec![not_yet(one, ordinal)],
        None => Vec::new(),
    }
}

/// A quota that does not allow one of the claims that are missing.
fn quota(one: &One<'_>, claims: &[(String, Look<PersistentVolumeClaim>)]) -> Option<Cause> {
    let looks = claims.iter().map(|(_, look)| look);
    let templates = one.kept.templates.iter();
    let mut missing = templates
        .zip(looks)
        .filter(|(_, look)| matches!(look, Look::Absent));
    missing.find_map(|(template, _)| {
        let template = template_of(one, template)?;
        let want = Want::of(template.spec.as_ref()?);
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
    let sentence = format!("The pod or its claim was refused: {said}");
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
        "to see all its Events; then correct the set, or what refuses its pods",
    )
}

fn seen(one: &One<'_>, event: &Event) -> Evidence {
    let field = format!("Event {FAILED}");
    Evidence::new(one.object.to_string(), field).since(events::since(event))
}

/// The quota that refused a claim, by what the API server says.
fn quota_of_claims(said: &str) -> Option<&str> {
    let (before, after) = said.split_once("exceeded quota: ")?;
    let name = after.split(',').next()?;
    before.contains("persistentvolumeclaims \"").then_some(name)
}

fn not_yet(one: &One<'_>, ordinal: u32) -> Cause {
    let name = format!("{}-{ordinal}", one.object.name.name);
    let pod = Object::pod(one.object.namespace_name(), &name);
    let sentence = format!(
        "The pod {name} does not exist; the StatefulSet controller makes it, and says nothing of it."
    );
    let evidence = Evidence::new(pod.to_string(), "metadata.name");
    Cause::new(Code::PodPending, sentence, evidence).run(
        one.object.describe(),
        "to see whether it makes progress; if it makes none, kube-controller-manager does not run",
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
