use super::*;
use crate::cluster::{Mutation, Proof};
use crate::components::pvc_retention::{fate::Fate, rule::Step};
use crate::objects::claim::ClaimWire;
use serde_json::Value;

fn owner(kind: &str) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "name": kind, "uid": kind, "controller": true})
}

fn claim(owners: &[&str]) -> Claim {
    let owners: Vec<_> = owners.iter().map(|kind| owner(kind)).collect();
    let annotations = json!({SCALED_WITH: "set"});
    let wire = json!({"metadata": {
        "name": "data-web-0", "uid": "c", "ownerReferences": owners, "annotations": annotations,
    }});
    let wire: ClaimWire = serde_json::from_value(wire).expect("a claim");
    wire.into()
}

/// The kinds of the owners after these operations, and whether the marker is still present.
fn applied(before: &[&str], operations: Vec<PatchOperation>) -> String {
    let owners: Vec<_> = before.iter().map(|kind| owner(kind)).collect();
    let mut claim =
        json!({"metadata": {"ownerReferences": owners, "annotations": {SCALED_WITH: "set"}}});
    json_patch::patch(&mut claim, &json_patch::Patch(operations)).expect("applies");
    let owners = claim["metadata"]["ownerReferences"].as_array().cloned();
    let kinds = owners.unwrap_or_default().into_iter();
    let kinds = kinds.filter_map(|owner| Some(owner["kind"].as_str()?.to_owned()));
    let mark = claim["metadata"]["annotations"].get(SCALED_WITH);
    let mark = mark.map(|_| "mark".to_owned());
    kinds.chain(mark).collect::<Vec<_>>().join(" ")
}

/// The action that turns the owners `before` into `after`: `own` with the resulting claim, or
/// `disown` with the resulting claim if the action is in time, and if it is late.
fn done(before: &[&str], after: &[&str], mark: MarkerChange, fate: Fate) -> String {
    let update = Update {
        owners: claim(after).rare.owners.to_vec(),
        mark,
    };
    let verdict = Verdict {
        fate,
        step: Step::Update(update.clone()),
    };
    let proof = Proof::of_test(std::time::Duration::from_secs(2));
    let (mutation, ..) = action(&claim(before), &verdict, &update, proof).parts();
    match mutation {
        Mutation::Patch(operations) => format!("own: {}", applied(before, operations)),
        Mutation::Disown { fresh, late } => format!(
            "disown: {}, late: {}",
            applied(before, fresh),
            applied(before, late)
        ),
        other => format!("{other:?}"),
    }
}

#[test]
fn updates_that_keep_a_claim_differ_from_updates_that_own_it() {
    let (pod, set) = (&["Pod"][..], &["StatefulSet"][..]);
    for (before, after, mark, fate, expected) in [
        // Rows in which the StatefulSet was scaled up again.
        (
            pod,
            &[][..],
            MarkerChange::Leave,
            Fate::Retained,
            "disown: mark, late: mark",
        ),
        (
            pod,
            set,
            MarkerChange::Leave,
            Fate::DeletedWithSet,
            "disown: StatefulSet mark, late: mark",
        ),
        // Rows in which the policy became Retain.
        (
            set,
            &[][..],
            MarkerChange::Leave,
            Fate::Retained,
            "disown: mark, late: mark",
        ),
        (
            &[][..],
            &[][..],
            MarkerChange::Remove,
            Fate::Retained,
            "disown: , late: ",
        ),
        (
            set,
            set,
            MarkerChange::Remove,
            Fate::DeletedWithSet,
            "disown: StatefulSet, late: StatefulSet",
        ),
        // Rows with a new owner: the pod after a scale-down, or the first owner of a new claim.
        (
            set,
            pod,
            MarkerChange::Leave,
            Fate::DeletedWithPod,
            "own: Pod mark",
        ),
        (
            &[][..],
            pod,
            MarkerChange::Leave,
            Fate::DeletedWithPod,
            "own: Pod mark",
        ),
        (
            &[][..],
            set,
            MarkerChange::Leave,
            Fate::DeletedWithSet,
            "own: StatefulSet mark",
        ),
        // A new StatefulSet of the same name replaces the marker by one with its own uid.
        (
            &[][..],
            &[][..],
            MarkerChange::Put("other".into()),
            Fate::Retained,
            "own: mark",
        ),
    ] {
        let row = format!("{before:?} {after:?} {mark:?}");
        assert_eq!(done(before, after, mark, fate), expected, "{row}");
    }
}
