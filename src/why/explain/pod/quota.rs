//! Explains ResourceQuotas that do not allow another claim.

use crate::{
    objects::{fit::named_class, quantity},
    why::{Cause, Code, Evidence, LiveReads, Object, Selection},
};
use k8s_openapi::api::core::v1::{PersistentVolumeClaimSpec, ResourceQuota, ResourceQuotaSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

/// The resources of a ResourceQuota that are compared with the claim: the number of claims, and
/// the storage that they request together. The prefix `<class>.storageclass.storage.k8s.io/`
/// limits the claims of one StorageClass.
const CLAIMS: &str = "persistentvolumeclaims";
const COUNT: &str = "count/persistentvolumeclaims";
const STORAGE: &str = "requests.storage";
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";

/// The only scope of quotas for claims: the VolumeAttributesClass that a claim names.
const SCOPE: &str = "VolumeAttributesClass";

/// The classes and the storage that a new claim will request, as far as they are known.
#[derive(Default)]
pub(in crate::why::explain) struct Want {
    class: Option<String>,
    attributes_class: Option<String>,
    /// The requested storage in bytes.
    storage: Option<f64>,
}

impl Want {
    /// Reads the metadata, if known, and the spec of the new claim.
    pub(in crate::why::explain) fn of(
        metadata: Option<&ObjectMeta>,
        spec: &PersistentVolumeClaimSpec,
    ) -> Self {
        let annotations = metadata.and_then(|metadata| metadata.annotations.clone());
        let annotations = annotations.unwrap_or_default();
        let requests = spec
            .resources
            .as_ref()
            .and_then(|each| each.requests.as_ref());
        let storage = requests.and_then(|requests| requests.get("storage"));
        Self {
            class: named_class(&annotations, spec.storage_class_name.as_ref()).cloned(),
            attributes_class: spec.volume_attributes_class_name.clone(),
            storage: storage.map(|storage| quantity::of(&storage.0)),
        }
    }

    /// Whether the quota counts the new claim. Source: `pvcEvaluator.Matches` in
    /// `pkg/quota/v1/evaluator/core/persistent_volume_claims.go` of Kubernetes.
    fn is_counted_by(&self, quota: &ResourceQuotaSpec) -> bool {
        let mut scopes = quota.scopes.iter().flatten();
        let selector = quota.scope_selector.as_ref();
        let mut selected = selector
            .and_then(|selector| selector.match_expressions.as_ref())
            .into_iter()
            .flatten();
        let class = self
            .attributes_class
            .as_ref()
            .filter(|name| !name.is_empty());
        scopes.all(|scope| scope == SCOPE && class.is_some())
            && selected.all(|each| {
                let names = each.values.as_deref().unwrap_or_default();
                let among = class.is_some_and(|class| names.contains(class));
                let holds = match each.operator.as_str() {
                    "In" => among,
                    "NotIn" => !among,
                    "Exists" => class.is_some(),
                    "DoesNotExist" => class.is_none(),
                    _ => false,
                };
                each.scope_name == SCOPE && holds
            })
    }

    /// How much of this quota resource the new claim needs; none if the resource does not limit the
    /// claim.
    pub(super) fn needs(&self, key: &str) -> Option<f64> {
        let (class, resource) = match key.split_once(OF_CLASS) {
            Some((class, resource)) => (Some(class), resource),
            None => (None, key),
        };
        if class.is_some() && class != self.class.as_deref() {
            return None;
        }
        match resource {
            CLAIMS | COUNT => Some(1.0),
            // If the requested size is not known, one byte is assumed: every claim requests some
            // storage.
            STORAGE => Some(self.storage.unwrap_or(1.0)),
            _ => None,
        }
    }
}

/// The cause that a quota of the namespace does not allow a claim with these requests; none if all
/// quotas allow it, or if they could not be read.
pub(in crate::why::explain) fn exhausted(
    reads: &LiveReads,
    namespace: &str,
    want: &Want,
) -> Option<Cause> {
    let quotas = reads
        .list::<ResourceQuota>(namespace, Selection::default())
        .found()?;
    quotas.iter().find_map(|quota| {
        let (key, used, hard) = used_up(quota, want)?;
        let name = quota.name_any();
        let sentence =
            format!("The quota {name} does not allow the claim: {used} of {hard} {key} are used.");
        Some(refused(namespace, &name, sentence))
    })
}

/// The cause that this quota refuses the claim.
fn refused(namespace: &str, quota: &str, sentence: String) -> Cause {
    let object = Object::new("ResourceQuota", "resourcequota", namespace, quota);
    let evidence = Evidence::new(object.to_string(), "status.used");
    Cause::new(Code::QuotaExhausted, sentence, evidence).run(
        object.describe(),
        "to see what the quota counts; then raise the quota, or delete claims that are not needed any more",
    )
}

/// The name, the used amount and the hard limit of the quota resource that the new claim would
/// exceed; none if the quota allows the claim.
fn used_up(quota: &ResourceQuota, want: &Want) -> Option<(String, String, String)> {
    let spec = quota.spec.as_ref();
    let status = quota.status.as_ref()?;
    if !spec.is_none_or(|spec| want.is_counted_by(spec)) {
        return None;
    }
    let (hard, used) = (status.hard.as_ref()?, status.used.as_ref()?);
    hard.iter().find_map(|(key, hard)| {
        let used = used.get(key)?;
        let needed = quantity::of(&used.0) + want.needs(key)?;
        let exceeds = needed > quantity::of(&hard.0);
        exceeds.then(|| (key.clone(), used.0.clone(), hard.0.clone()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refuses(key: &str, used: &str, hard: &str, want: &Want) -> bool {
        let quota = json!({"metadata": {"name": "q"}, "status": {"hard": {key: hard}, "used": {key: used}}});
        let quota = serde_json::from_value(quota).expect("a quota");
        used_up(&quota, want).is_some()
    }

    #[test]
    fn a_claim_needs_its_size_and_one_of_the_number() {
        let fast = Want {
            class: Some("fast".into()),
            storage: Some(quantity::of("2Gi")),
            ..Want::default()
        };
        for (key, used, hard, refused) in [
            ("persistentvolumeclaims", "1", "2", false),
            ("persistentvolumeclaims", "2", "2", true),
            ("requests.storage", "8Gi", "10Gi", false),
            ("requests.storage", "9Gi", "10Gi", true),
            (
                "fast.storageclass.storage.k8s.io/requests.storage",
                "9Gi",
                "10Gi",
                true,
            ),
            (
                "fast.storageclass.storage.k8s.io/persistentvolumeclaims",
                "1",
                "1",
                true,
            ),
            (
                "slow.storageclass.storage.k8s.io/persistentvolumeclaims",
                "1",
                "1",
                false,
            ),
            ("count/persistentvolumeclaims", "2", "2", true),
            ("pods", "1", "1", false),
        ] {
            assert_eq!(
                refuses(key, used, hard, &fast),
                refused,
                "{key} {used}/{hard}"
            );
        }
        let unknown = Want::default();
        assert!(refuses("requests.storage", "10Gi", "10Gi", &unknown));
        assert!(!refuses("requests.storage", "9Gi", "10Gi", &unknown));
    }

    #[test]
    fn a_quota_with_a_scope_counts_some_claims() {
        let counts = |spec: serde_json::Value, class: &str| {
            let want = Want {
                attributes_class: Some(class.to_owned()),
                ..Want::default()
            };
            let quota = json!({"metadata": {"name": "q"}, "spec": spec, "status": {
                "hard": {"persistentvolumeclaims": "1"}, "used": {"persistentvolumeclaims": "1"}}});
            used_up(&serde_json::from_value(quota).expect("a quota"), &want).is_some()
        };
        let selecting = |operator: &str, values: &[&str]| {
            let one = json!({"scopeName": SCOPE, "operator": operator, "values": values});
            json!({"scopeSelector": {"matchExpressions": [one]}})
        };
        for (spec, gold, none) in [
            (json!({}), true, true),
            (json!({"scopes": [SCOPE]}), true, false),
            (json!({"scopes": ["BestEffort"]}), false, false),
            (selecting("In", &["gold"]), true, false),
            (selecting("In", &["silver"]), false, false),
            (selecting("NotIn", &["gold"]), false, true),
            (selecting("Exists", &[]), true, false),
            (selecting("DoesNotExist", &[]), false, true),
        ] {
            let counted = (counts(spec.clone(), "gold"), counts(spec.clone(), ""));
            assert_eq!(counted, (gold, none), "{spec}");
        }
    }
}
