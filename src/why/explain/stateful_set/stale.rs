//! Claims of an earlier pod, which are in the way of the next one (kubernetes/kubernetes#74374).

use super::One;
use crate::why::{
    Cause, Code, Evidence, Look, Object,
    explain::{claim, pod::claims},
};
use k8s_openapi::{
    api::core::v1::PersistentVolumeClaim, apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::ResourceExt;

/// What is known of the claims of that ordinal, by their names.
pub(super) fn claims(one: &One<'_>, ordinal: u32) -> Vec<(String, Look<PersistentVolumeClaim>)> {
    let templates = one.kept.templates.iter();
    let set = &one.object.name.name;
    let names: Vec<String> = templates
        .map(|template| format!("{template}-{set}-{ordinal}"))
        .collect();
    let looks = claims::look(
        one.world,
        one.object.namespace_name(),
        names.iter().map(String::as_str),
    );
    names.into_iter().zip(looks).collect()
}

/// That a claim of the ordinal goes, or is about to, and what keeps it meanwhile. Empty if none does.
pub(super) fn causes(one: &One<'_>, ordinal: u32) -> Vec<Cause> {
    let claims = claims(one, ordinal);
    let mut found = claims.iter().filter_map(|(name, look)| match look {
        Look::Found(claim) => Some((Object::claim(one.object.namespace_name(), name), claim)),
        Look::Absent | Look::Unread => None,
    });
    let going = found
        .clone()
        .find(|(_, claim)| claim.metadata.deletion_timestamp.is_some());
    if let Some((object, claim)) = going {
        let stale = stale(&object, claim, ordinal, one);
        let held = claim::causes(one.world, &object, claim);
        return [stale].into_iter().chain(held).collect();
    }
    let dead = found.find_map(|(object, claim)| {
        let mut owners = claim.owner_references().iter();
        let owner = owners.find(|owner| is_dead(owner, &living(one, ordinal)))?;
        Some(owned(&object, owner))
    });
    dead.into_iter().collect()
}

fn stale(object: &Object, claim: &PersistentVolumeClaim, ordinal: u32, one: &One<'_>) -> Cause {
    let since = claim.metadata.deletion_timestamp.as_ref();
    let (name, set) = (&object.name.name, &one.object.name.name);
    let sentence = format!(
        "The claim {name} of an earlier pod is still being deleted, and the pod {set}-{ordinal} cannot have it. Once it is gone, \
         the set makes it anew, and that begins empty."
    );
    let evidence = Evidence::new(object.to_string(), "metadata.deletionTimestamp");
    let evidence = evidence.since(since.map(|time| time.0));
    Cause::new(Code::ClaimStale, sentence, evidence).run(
        format!("volume-warden why {}", object.arguments()),
        "to see what keeps it",
    )
}

/// The set and the pod that may own a claim: kind, name, and the uid if there is such an object.
fn living<'a>(one: &One<'a>, ordinal: u32) -> [(&'static str, String, Option<&'a str>); 2] {
    let set = &one.object.name.name;
    let pod = one.pods.get(ordinal);
    [
        (
            "StatefulSet",
            set.to_string(),
            one.set.metadata.uid.as_deref(),
        ),
        (
            "Pod",
            format!("{set}-{ordinal}"),
            pod.and_then(|pod| pod.metadata.uid.as_deref()),
        ),
    ]
}

/// It is one of these of an earlier life.
fn is_dead(owner: &OwnerReference, living: &[(&str, String, Option<&str>)]) -> bool {
    let mut same = living
        .iter()
        .filter(|(kind, name, _)| owner.kind == *kind && owner.name == *name);
    same.any(|(.., uid)| *uid != Some(&owner.uid))
}

fn owned(object: &Object, owner: &OwnerReference) -> Cause {
    let sentence = format!(
        "The claim {} is owned by a {} {} that is gone (uid {}), so the garbage collector deletes it, and what is on it is lost with it.",
        object.name.name, owner.kind, owner.name, owner.uid
    );
    let evidence = Evidence::new(object.to_string(), "metadata.ownerReferences");
    Cause::new(Code::DeadOwner, sentence, evidence).run(
        format!("kubectl edit {}", object.arguments()),
        "at once, if what is on it is to be kept: take that owner out of metadata.ownerReferences; otherwise leave it, and it is made anew",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_dead_that_has_the_name_of_another_one() {
        let living = [
            ("StatefulSet", "web".to_owned(), Some("new")),
            ("Pod", "web-1".to_owned(), None),
        ];
        for (kind, name, uid, dead) in [
            ("StatefulSet", "web", "new", false),
            ("StatefulSet", "web", "old", true),
            ("StatefulSet", "db", "old", false),
            ("Pod", "web-1", "old", true),
            ("Pod", "web-2", "old", false),
            ("Backup", "web", "old", false),
        ] {
            let owner = OwnerReference {
                kind: kind.to_owned(),
                name: name.to_owned(),
                uid: uid.to_owned(),
                ..OwnerReference::default()
            };
            assert_eq!(is_dead(&owner, &living), dead, "{kind} {name} {uid}");
        }
    }
}
