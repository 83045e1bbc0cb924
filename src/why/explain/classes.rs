//! Which StorageClasses of the cluster are the default.

use crate::why::{Cause, Code, Evidence, Object};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::ResourceExt;

/// The annotations that make a StorageClass the default: the current one, and its older form.
const DEFAULT: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

/// All StorageClasses, among which the default ones are found.
pub(super) struct Classes<'a>(pub &'a [StorageClass]);

impl Classes<'_> {
    /// The names of the default StorageClasses. The first one is that which Kubernetes gives to
    /// claims without a class: the newest, and of several with the same age the first by name.
    pub fn defaults(&self) -> Vec<String> {
        let mut defaults: Vec<_> = self.0.iter().filter(|class| is_default(class)).collect();
        defaults.sort_by_key(|class| {
            let created = class.creation_timestamp().map(|time| time.0);
            (std::cmp::Reverse(created), class.name_any())
        });
        defaults.into_iter().map(ResourceExt::name_any).collect()
    }

    /// The cause that a claim may have this class only because it is the newest of several default
    /// StorageClasses; none if the class is not the newest default or is the only one.
    pub fn doubled(&self, class: &str) -> Option<Cause> {
        let defaults = self.defaults();
        let other = defaults.iter().find(|other| *other != class)?;
        if defaults.first().is_none_or(|first| first != class) {
            return None;
        }
        let sentence = format!(
            "The StorageClasses {class} and {other} are both default. Claims without a class get the newer one, {class}, which may not be intended."
        );
        let newest = self.0.iter().find(|each| each.name_any() == class)?;
        let keys: Vec<_> = default_keys(newest).collect();
        let field = format!("metadata.annotations[{}]", keys.first()?);
        let object = Object::new("StorageClass", "storageclass", "", class);
        let evidence = Evidence::new(object.to_string(), field);
        let changes: Vec<_> = keys.iter().map(|key| format!("{key}=false")).collect();
        Some(Cause::new(Code::TwoDefaultClasses, sentence, evidence).run(
            format!("kubectl annotate storageclass {class} {} --overwrite", changes.join(" ")),
            format!("if {other} is to be the default; a claim that has the class {class} keeps it until the claim is recreated"),
        ))
    }
}

fn is_default(class: &StorageClass) -> bool {
    default_keys(class).next().is_some()
}

/// The annotations that make the StorageClass a default: each of them alone does.
fn default_keys(class: &StorageClass) -> impl Iterator<Item = &'static str> {
    let annotations = class.annotations();
    let is_true = move |key: &&str| annotations.get(*key).is_some_and(|value| value == "true");
    DEFAULT.into_iter().filter(is_true)
}
