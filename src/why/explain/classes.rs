//! StorageClasses, and which of them are defaults.

use crate::why::{Cause, Code, Evidence, Object};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::ResourceExt;

/// Also understood in its older form.
const DEFAULT: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

/// All there are.
pub(super) struct Classes<'a>(pub &'a [StorageClass]);

impl Classes<'_> {
    /// Those that claims without a class get, the one that is taken first: the newest, and of those the first by name.
    pub fn defaults(&self) -> Vec<String> {
        let mut defaults: Vec<_> = self.0.iter().filter(|class| is_default(class)).collect();
        defaults.sort_by_key(|class| {
            let created = class.creation_timestamp().map(|time| time.0);
            (std::cmp::Reverse(created), class.name_any())
        });
        defaults.into_iter().map(ResourceExt::name_any).collect()
    }

    /// That a claim may have this class only because it is the newer one of two defaults.
    pub fn doubled(&self, class: &str) -> Option<Cause> {
        let defaults = self.defaults();
        let other = defaults.iter().find(|other| *other != class)?;
        if defaults.first().is_none_or(|first| first != class) {
            return None;
        }
        let sentence = format!(
            "The StorageClasses {class} and {other} are both default. Claims without a class get the newer one, {class}, which may not be meant."
        );
        let object = Object::new("StorageClass", "storageclass", "", class);
        let evidence = Evidence::new(
            object.to_string(),
            format!("metadata.annotations[{}]", DEFAULT[0]),
        );
        Some(Cause::new(Code::TwoDefaultClasses, sentence, evidence).run(
            format!("kubectl annotate storageclass {class} {}=false --overwrite", DEFAULT[0]),
            format!("if {other} is to be the default; claims that have a class keep it and must be recreated"),
        ))
    }
}

fn is_default(class: &StorageClass) -> bool {
    let annotations = class.annotations();
    let is_true = |key: &str| annotations.get(key).is_some_and(|value| value == "true");
    DEFAULT.into_iter().any(is_true)
}
