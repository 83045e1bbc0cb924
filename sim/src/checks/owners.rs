//! S4: which owners Volume Warden gives to claims.

use super::{Found, ledger::Ledger, sending::Ages};
use crate::{
    json::{at, claims_of, name, owners, text, uid},
    replica::SERVICE_ACCOUNT,
};
use serde_json::Value;
use volume_warden_apiserver_model::Change;

/// S4: an owner that Volume Warden adds exists, or existed when the write began, and created or
/// used the claim if it is a StatefulSet.
pub fn check(ledger: &Ledger, now: u64, change: &Change, ages: Ages) -> Found {
    if change.plural != "persistentvolumeclaims" || change.user != SERVICE_ACCOUNT {
        return None;
    }
    let after = change.after.as_ref()?;
    let before = change
        .before
        .as_ref()
        .map_or(&[][..], |before| owners(before));
    let added = owners(after).iter().filter(|owner| !before.contains(owner));
    let added: Vec<&str> = added.map(|owner| text(owner, "/uid")).collect();
    let since = now.saturating_sub(ages.provisioner);
    absent_owner(ledger, since, after, &added)
        .or_else(|| unrelated_set(ledger, after, &added))
        .or_else(|| unrelated_pod(ledger, after, &added))
}

/// An added owner that is a pod which does not use the claim, unless the claim has the name that a
/// StatefulSet gives to a claim of this pod.
fn unrelated_pod(ledger: &Ledger, claim: &Value, added: &[&str]) -> Found {
    let pod = ledger.all("pods").find(|pod| {
        let suffix = format!("-{}", name(pod));
        added.contains(&uid(pod))
            && !name(claim).ends_with(&suffix)
            && !claims_of(pod).any(|used| used == name(claim))
    })?;
    let (claim, pod) = (name(claim), name(pod));
    Some((
        "S4",
        format!("the claim {claim} got the pod {pod} as owner, which does not use it"),
    ))
}

/// An added owner that did not exist at any time since the read on which the write relies.
fn absent_owner(ledger: &Ledger, since: u64, claim: &Value, added: &[&str]) -> Found {
    let unknown = added.iter().find(|owner| {
        let lives = ledger
            .all("pods")
            .chain(ledger.all("statefulsets"))
            .any(|each| uid(each) == **owner);
        !lives
            && ledger
                .removed(owner)
                .is_none_or(|(removed, _)| removed < since)
    })?;
    Some((
        "S4",
        format!(
            "the claim {} got the owner {unknown}, which does not exist",
            name(claim)
        ),
    ))
}

/// An added owner that is a StatefulSet for which the claim was not created and whose pods never
/// used it. The controller sets the `matchLabels` of the StatefulSet on each claim that it creates.
fn unrelated_set(ledger: &Ledger, claim: &Value, added: &[&str]) -> Found {
    let labels = at(claim, "/metadata/labels")?;
    let other = ledger.all("statefulsets").find(|set| {
        added.contains(&uid(set))
            && at(set, "/spec/selector/matchLabels") != Some(labels)
            && !ledger.has_mounted(uid(set), name(claim))
    })?;
    Some((
        "S4",
        format!(
            "the claim {} got {} as owner, which did not create it",
            name(claim),
            name(other)
        ),
    ))
}
