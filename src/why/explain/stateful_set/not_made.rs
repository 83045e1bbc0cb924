//! Explains pods of a StatefulSet that do not exist.

use super::{SetContext, stale};
use crate::why::{
    Cause, Code, Evidence, Lookup, Object,
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
/// The reason of its Event about a pod or a claim that it has created.
const CREATED: &str = "SuccessfulCreate";
/// Time in seconds after which the controller has tried again to create a pod, and has reported a
/// failure again. The longest delay between two attempts is 1,000 s.
const RETRIED: i64 = 20 * 60;

pub(super) fn causes(one: &SetContext<'_>, ordinal: u32) -> Vec<Cause> {
    let stale = stale::causes(one, ordinal);
    if !stale.is_empty() {
        return stale;
    }
    let claims = stale::claims(one, ordinal);
    if let Some(quota) = quota(one, &claims) {
        return vec![quota];
    }
    // A claim could not be read, and that claim may be the cause.
    if claims
        .iter()
        .any(|(_, lookup)| matches!(lookup, Lookup::Unread))
    {
        return Vec::new();
    }
    match failure(one) {
        Some(Some(event)) => vec![refused(one, ordinal, &claims, &event)],
        Some(None) => vec![not_yet(one, ordinal)],
        None => Vec::new(),
    }
}

/// The latest failure that the controller reports, or `Some(None)` if there is none, or if it is
/// over: the controller has created a pod or a claim since, and has not reported a failure for
/// [`RETRIED`]. None if the Events could not be read.
fn failure(one: &SetContext<'_>) -> Option<Option<Event>> {
    let uid = one.set.metadata.uid.as_deref();
    let latest = |reason| events::latest(one.reads, one.object, uid, reason);
    let (failed, created) = (latest(FAILED)?, latest(CREATED)?);
    let last_created = created.as_ref().and_then(events::last);
    let goes_on = |failed: &Event| {
        let last = events::last(failed);
        let age = last.map(|last| one.reads.now.as_second() - last.as_second());
        last >= last_created || age.is_some_and(|age| age < RETRIED)
    };
    Some(failed.filter(goes_on))
}

/// The cause that a quota does not allow one of the missing claims of the pod; none if no quota
/// refuses them.
fn quota(
    one: &SetContext<'_>,
    claims: &[(String, Lookup<PersistentVolumeClaim>)],
) -> Option<Cause> {
    let lookups = claims.iter().map(|(_, lookup)| lookup);
    let templates = one.trimmed.templates.iter();
    let mut missing = templates
        .zip(lookups)
        .filter(|(_, lookup)| matches!(lookup, Lookup::Absent));
    missing.find_map(|(template, _)| {
        let template = template_of(one, template)?;
        let want = Want::of(Some(&template.metadata), template.spec.as_ref()?);
        quota::exhausted(one.reads, one.object.namespace_name(), &want)
    })
}

fn template_of<'a>(one: &SetContext<'a>, name: &str) -> Option<&'a core::PersistentVolumeClaim> {
    let spec = one.set.spec.as_ref()?;
    let mut templates = spec.volume_claim_templates.iter().flatten();
    templates.find(|template| template.name_any() == name)
}

/// The cause for the missing pod after the controller has reported this failure. The controller
/// creates the pod only once all its claims exist, so a missing claim is the cause.
fn refused(
    one: &SetContext<'_>,
    ordinal: u32,
    claims: &[(String, Lookup<PersistentVolumeClaim>)],
    event: &Event,
) -> Cause {
    let mut absent = claims
        .iter()
        .filter(|(_, lookup)| matches!(lookup, Lookup::Absent));
    if let Some((claim, _)) = absent.next() {
        return missing(one, ordinal, claim, event);
    }
    let sentence = format!(
        "The API server refused the pod or its claim: {}",
        events::sentence(event)
    );
    Cause::new(Code::NoVolumeProblem, sentence, seen(one, event)).run(
        one.object.describe(),
        "to see all Events of the StatefulSet; then correct the StatefulSet, or the quota or webhook that refuses its pods",
    )
}

/// The cause that this claim does not exist, with the latest failure that the controller reports.
/// The Event has no field for the object that was refused, and the message of a webhook does not
/// name it.
fn missing(one: &SetContext<'_>, ordinal: u32, claim: &str, event: &Event) -> Cause {
    let sentence = format!(
        "The claim {claim} does not exist, so the StatefulSet controller does not create the pod {}-{ordinal}. It last \
         reported: {}",
        one.object.name.name,
        events::sentence(event)
    );
    Cause::new(Code::ClaimMissing, sentence, seen(one, event)).run(
        one.object.describe(),
        "to see all Events of the StatefulSet; then correct the LimitRange, quota or webhook that refuses the claim, or \
         the claim template",
    )
}

fn seen(one: &SetContext<'_>, event: &Event) -> Evidence {
    let field = format!("Event {FAILED}");
    Evidence::new(one.object.to_string(), field).since(events::since(event))
}

fn not_yet(one: &SetContext<'_>, ordinal: u32) -> Cause {
    let name = format!("{}-{ordinal}", one.object.name.name);
    let pod = Object::pod(one.object.namespace_name(), &name);
    let sentence = format!(
        "The pod {name} does not exist. The StatefulSet controller creates it, and reports no failure."
    );
    let evidence = Evidence::new(pod.to_string(), "metadata.name");
    Cause::new(Code::PodPending, sentence, evidence).run(
        one.object.describe(),
        "to see whether the StatefulSet makes progress; if it makes none, check that kube-controller-manager runs",
    )
}
