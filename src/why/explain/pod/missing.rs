//! Explains claims that a pod names and that do not exist.

use super::{
    claims::Mounted,
    deleted_claim,
    quota::{self, Want},
};
use crate::{
    components::pvc_provisioner::{
        ClaimRequest, Notice, TemplatePolicy, parse_claim_requests, template::ClaimFields,
    },
    objects::{is_subdomain, owner_references},
    why::{Cause, Code, Evidence, LiveReads, Object, explain::quote, read::Pod},
};
use k8s_openapi::{
    api::core::v1::PersistentVolumeClaim, apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::ResourceExt;

/// The controller or user that has to create the claim.
enum ClaimCreator {
    /// Volume Warden's pvc-provisioner, because an annotation of the pod requests the claim.
    Annotation(Box<ClaimRequest>),
    /// Volume Warden's pvc-provisioner, if its flag `--template-fields`, which is not known here,
    /// permits a field of the template.
    Restricted(Box<ClaimRequest>, Notice),
    /// Volume Warden's pvc-provisioner, but the annotation is invalid.
    Invalid(Notice),
    /// kube-controller-manager, because the volume of the pod is ephemeral.
    Ephemeral,
    /// The StatefulSet controller, for the StatefulSet with this name.
    Set(String),
    /// A user: no controller creates the claim.
    User,
}

/// The chain of causes for a missing claim: that the claim does not exist and, if known, why it
/// was not created.
pub(super) fn causes(
    reads: &LiveReads,
    object: &Object,
    pod: &Pod,
    mounted: &Mounted<'_>,
) -> Vec<Cause> {
    let maker = maker(pod, mounted);
    let why = match &maker {
        ClaimCreator::Invalid(notice) => Some(invalid(object, notice)),
        ClaimCreator::Restricted(_, notice) => {
            let exhausted =
                quota::exhausted(reads, object.namespace_name(), &want(&maker, mounted));
            exhausted.or_else(|| Some(restricted(object, notice)))
        }
        // A quota is no cause for a claim that no controller creates.
        ClaimCreator::User => None,
        maker => quota::exhausted(reads, object.namespace_name(), &want(maker, mounted)),
    };
    let missing = missing_claim(reads, object, mounted, &maker);
    [Some(missing), why].into_iter().flatten().collect()
}

/// The cause that the claim does not exist.
pub(super) fn cause(reads: &LiveReads, object: &Object, pod: &Pod, mounted: &Mounted<'_>) -> Cause {
    missing_claim(reads, object, mounted, &maker(pod, mounted))
}

fn missing_claim(
    reads: &LiveReads,
    object: &Object,
    mounted: &Mounted<'_>,
    maker: &ClaimCreator,
) -> Cause {
    let (claim, namespace) = (quote::name(&mounted.claim), object.namespace_name());
    let pod = object.describe();
    let (who, command, purpose) = match maker {
        ClaimCreator::Annotation(_) => (
            "the pod's annotations request it from Volume Warden's pvc-provisioner, which has not created it".to_owned(),
            pod,
            "to see in the pod's Events why the claim is not created".to_owned(),
        ),
        ClaimCreator::Restricted(..) | ClaimCreator::Invalid(_) => (
            "the pod's annotations request it".to_owned(),
            pod,
            "to see the pod's annotations".to_owned(),
        ),
        ClaimCreator::Ephemeral => (
            "kube-controller-manager creates it for the pod, and has not done so yet".to_owned(),
            pod,
            "to see in the pod's Events why the claim is not created".to_owned(),
        ),
        ClaimCreator::Set(set) => (
            format!("the StatefulSet {set} creates it for the pod, and has not done so yet"),
            format!("kubectl describe statefulset {set} -n {namespace}"),
            "to see in the StatefulSet's Events why the claim is not created".to_owned(),
        ),
        ClaimCreator::User => deleted_claim::steps(reads, namespace, &mounted.claim),
    };
    let sentence = format!("The pod's claim {claim} does not exist; {who}.");
    let field = format!("spec.volumes[{}]", mounted.volume.name);
    Cause::new(
        Code::ClaimMissing,
        sentence,
        Evidence::new(object.to_string(), field),
    )
    .run(command, purpose)
}

fn restricted(object: &Object, notice: &Notice) -> Cause {
    let condition = "With the default of --template-fields, Volume Warden";
    invalid_template(object, condition, notice)
}

fn invalid(object: &Object, notice: &Notice) -> Cause {
    invalid_template(object, "Volume Warden", notice)
}

fn invalid_template(object: &Object, who: &str, notice: &Notice) -> Cause {
    let sentence = format!("{who} creates no claim for the pod: {}.", notice.sentence);
    let evidence = Evidence::new(object.to_string(), "metadata.annotations");
    Cause::new(Code::InvalidTemplate, sentence, evidence).run(
        object.describe(),
        "to see the pod's annotations; then correct them in the pod's manifest, or with kubectl \
         annotate --overwrite",
    )
}

fn maker(pod: &Pod, mounted: &Mounted<'_>) -> ClaimCreator {
    if mounted.volume.ephemeral.is_some() {
        return ClaimCreator::Ephemeral;
    }
    if let Some(maker) = by_annotation(pod, mounted) {
        return maker;
    }
    let of_a_template = mounted.claim.ends_with(&format!("-{}", pod.name_any()));
    match owner_references::controller(pod.owner_references()) {
        Some(owner) if of_a_template && is_set(owner) => ClaimCreator::Set(owner.name.clone()),
        _ => ClaimCreator::User,
    }
}

/// Whether the owner is a StatefulSet of Kubernetes, and its name can be a part of a command.
fn is_set(owner: &OwnerReference) -> bool {
    let is_set = owner.kind == "StatefulSet" && owner_references::group(owner) == "apps";
    is_set && is_subdomain(&owner.name)
}

fn by_annotation(pod: &Pod, mounted: &Mounted<'_>) -> Option<ClaimCreator> {
    let claim_requests = pod.trimmed.claim_requests.as_deref()?;
    let requested = |claims: Vec<ClaimRequest>| {
        let mut claims = claims.into_iter();
        claims
            .find(|request| *request.claim == *mounted.claim)
            .map(Box::new)
    };
    let (claims, notices) = parse_claim_requests(claim_requests, &TemplatePolicy::default());
    if let Some(request) = requested(claims) {
        return Some(ClaimCreator::Annotation(request));
    }
    let own = |each: &&Notice| each.volume.as_deref() == Some(&*mounted.volume.name);
    let of_no_volume = |each: &&Notice| {
        let mut volumes = pod.spec.iter().flat_map(|spec| &spec.volumes).flatten();
        !volumes.any(|volume| each.volume.as_deref() == Some(&*volume.name))
    };
    let mut all = notices.iter();
    // An annotation for a volume that the pod does not have is probably a misspelt annotation for
    // this volume.
    let notice = all.find(own).or_else(|| notices.iter().find(of_no_volume));
    let notice = notice?.clone();
    let (permitted, _) = parse_claim_requests(claim_requests, &TemplatePolicy::all_fields());
    Some(match requested(permitted) {
        Some(request) => ClaimCreator::Restricted(request, notice),
        None => ClaimCreator::Invalid(notice),
    })
}

fn want(maker: &ClaimCreator, mounted: &Mounted<'_>) -> Want {
    let ephemeral = || {
        mounted
            .volume
            .ephemeral
            .as_ref()?
            .volume_claim_template
            .as_ref()
    };
    match maker {
        ClaimCreator::Annotation(request) | ClaimCreator::Restricted(request, _) => {
            let fields = ClaimFields {
                namespace: "",
                name: &request.claim,
                controller_id: "",
                owner: None,
                awaiting_since: None,
            };
            let claim = request.template.manifest(&fields);
            let claim: Option<PersistentVolumeClaim> = serde_json::from_value(claim).ok();
            let want =
                claim.and_then(|claim| Some(Want::of(Some(&claim.metadata), claim.spec.as_ref()?)));
            want.unwrap_or_default()
        }
        ClaimCreator::Ephemeral => ephemeral().map_or_else(Want::default, |template| {
            Want::of(template.metadata.as_ref(), &template.spec)
        }),
        ClaimCreator::Invalid(_) | ClaimCreator::Set(_) | ClaimCreator::User => Want::default(),
    }
}

#[cfg(test)]
#[path = "missing_tests.rs"]
mod tests;
