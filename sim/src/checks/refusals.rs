//! S10: the reason for a refusal is true in the store, or was true after the review began.

use super::{ledger::Ledger, refused_restores};
use crate::json::{at, claims_of, is_deleting, list, name, namespace, text, uid};
use serde_json::Value;
use volume_warden::objects::stateful_set::readings;
use volume_warden_apiserver_model::WebhookCall;

/// A review that was refused.
struct Refusal<'a> {
    ledger: &'a Ledger,
    /// The virtual millisecond in which the review began.
    began: u64,
    review: &'a Value,
    message: &'a str,
}

/// Returns why the refusal is wrong, if the store does not support it. The review began at the
/// virtual millisecond `began`.
pub fn wrong(
    ledger: &Ledger,
    began: u64,
    call: &WebhookCall<'_>,
    answer: &Value,
) -> Option<&'static str> {
    let refusal = Refusal {
        ledger,
        began,
        review: call.review,
        message: text(answer, "/response/status/message"),
    };
    let (supported, otherwise) = match call.webhook.trim_end_matches(".volume-warden.dev") {
        "pods.pvc-protection" | "bindings.pvc-protection" => {
            (refusal.is_claim_deleted(), "no claim is being deleted")
        }
        "bind.pv-protection" | "phase.pv-protection" => {
            (!refusal.was_bound(), "the claim was bound to the volume")
        }
        "claims.pvc-retention" => (!refusal.has_set(), "the StatefulSet exists"),
        "claims.pvc-trash" => {
            return refused_restores::wrong(ledger, began, call.review, refusal.message);
        }
        "reservations.pv-releaser" => (refusal.was_reserved(), "no volume was ever reserved"),
        _ => (false, "it never refuses"),
    };
    (!supported).then_some(otherwise)
}

impl Refusal<'_> {
    fn namespace(&self) -> &str {
        text(self.review, "/request/namespace")
    }

    fn name(&self) -> &str {
        text(self.review, "/request/name")
    }

    /// Whether a claim of the pod that the message names is being deleted, or was since the review
    /// began.
    fn is_claim_deleted(&self) -> bool {
        let uses = |pod: &Value, claim: &Value| claims_of(pod).any(|used| used == name(claim));
        let object = at(self.review, "/request/object");
        // The object of a binding is no pod. The pod that it is about may be deleted already.
        let bound = self.ledger.get("pods", self.namespace(), self.name());
        let is_of_pod = |claim: &Value| match text(self.review, "/request/subResource") {
            "" => object.is_some_and(|pod| uses(pod, claim)),
            _ => bound.is_none_or(|pod| uses(pod, claim)),
        };
        let meant = |claim: &Value| {
            is_of_pod(claim)
                && namespace(claim) == self.namespace()
                && self.message.contains(&format!("\"{}\"", name(claim)))
        };
        let mut claims = self.ledger.all("persistentvolumeclaims");
        claims.any(|claim| meant(claim) && is_deleting(claim))
            || self
                .ledger
                .removed_since(self.began)
                .any(|claim| meant(claim))
    }

    /// Whether the claim of the volume has been bound to it since before the review: then the
    /// refusal could lose its data.
    fn was_bound(&self) -> bool {
        const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
        let wanted = |field: &str| {
            text(
                self.review,
                &format!("/request/object/spec/claimRef/{field}"),
            )
        };
        let claim = self.ledger.get(
            "persistentvolumeclaims",
            wanted("namespace"),
            wanted("name"),
        );
        claim.is_some_and(|claim| {
            let annotations = at(claim, "/metadata/annotations");
            uid(claim) == wanted("uid")
                && text(claim, "/spec/volumeName") == self.name()
                && annotations.is_some_and(|all| all.get(BIND_COMPLETED).is_some())
                && self.is_unchanged_since(claim, self.began)
        })
    }

    /// Whether the claim has all labels that the StatefulSet selects by. The labels decide where
    /// several StatefulSets create claims of this name.
    fn may_be_of(&self, set: &Value) -> bool {
        if readings(self.name()).nth(1).is_none() {
            return true;
        }
        let selected = at(set, "/spec/selector/matchLabels").and_then(Value::as_object);
        let label = |key: &str| {
            let labels = at(self.review, "/request/object/metadata/labels")?;
            labels.get(key)
        };
        let mut selected = selected.into_iter().flatten();
        selected.all(|(key, value)| label(key) == Some(value))
    }

    /// Whether a StatefulSet that creates this claim has existed since before the review. If the
    /// StatefulSet could not be read, one of its name was deleted at some time.
    fn has_set(&self) -> bool {
        let makes = |set: &Value| {
            let mut templates = list(set, "/spec/volumeClaimTemplates").iter();
            templates.any(|template| {
                let ordinal =
                    self.name()
                        .strip_prefix(&format!("{}-{}-", name(template), name(set)));
                namespace(set) == self.namespace()
                    && ordinal.is_some_and(|ordinal| ordinal.parse::<u64>().is_ok())
            })
        };
        if self.message.contains("could not be read") {
            return !self.ledger.removed_since(0).any(|set| makes(set));
        }
        let mut sets = self.ledger.all("statefulsets");
        sets.any(|set| {
            makes(set)
                && self.may_be_of(set)
                && self
                    .ledger
                    .created_at(uid(set))
                    .is_some_and(|created_at| created_at < self.began)
        })
    }

    /// Whether a volume was reserved for a claim of this name at any time. The refusal says that
    /// the reservation could not be read or ended. It may have ended already without the watch
    /// showing that.
    fn was_reserved(&self) -> bool {
        let claim = [self.namespace(), self.name()].map(str::to_owned);
        self.ledger.reserved.contains(&claim)
    }

    fn is_unchanged_since(&self, object: &Value, since: u64) -> bool {
        self.ledger.changes_since(uid(object), since) == 0
    }
}
