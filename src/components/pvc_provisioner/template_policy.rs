//! What the template of a claim may contain. Every user who may create pods can write one,
//! and the claim is created with the permissions of Volume Warden.

use super::template::{Template, shown};
use crate::objects::keys::{
    BINDER_PREFIX, PVC_PROTECTION, STORAGE_CLASS, VOLUME_BETA_PREFIX, VOLUME_PREFIX,
};
use clap::{Args, ValueEnum};

/// A field of a claim that a template may set only if the administrator allows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "camelCase")]
pub enum TemplateField {
    /// `metadata.finalizers` other than `kubernetes.io/pvc-protection`: a finalizer that no
    /// controller removes blocks the deletion of the claim and of its namespace.
    Finalizers,
    /// Annotations of Kubernetes' volume controllers, except the one that names a StorageClass:
    /// they state that the claim is bound, and where.
    Annotations,
    /// `spec.volumeName`: binds the claim to a volume of the author's choice.
    VolumeName,
    /// `spec.selector`: binds the claim to a volume by labels.
    Selector,
    /// `spec.dataSource`: fills the volume with the data of another claim or a snapshot.
    DataSource,
    /// `spec.dataSourceRef`: fills the volume with the data of an object.
    DataSourceRef,
}

/// What the templates of claims may contain.
#[derive(Clone, Debug, Default, Args)]
#[group(skip)]
pub struct TemplatePolicy {
    /// Restricted fields that templates may set nevertheless. By default, no claim is created from
    /// a template that sets one of them, because they can bind another tenant's volume, read
    /// another claim's data or block a deletion.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "FIELD")]
    pub template_fields: Vec<TemplateField>,

    /// The only StorageClasses that templates may use; each template must then name one of them.
    /// Default: all classes, named or not.
    #[arg(long, value_delimiter = ',', value_name = "CLASS")]
    pub allowed_storage_classes: Vec<String>,
}

/// Why a template may not be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The template sets a field that is not allowed.
    #[error("{path} is accepted only with --template-fields={option}")]
    Field {
        /// The path of the field, or the annotation and its key.
        path: String,
        /// The value of the flag that allows the field.
        option: String,
    },
    /// The template names no StorageClass.
    #[error("the template must name one of the allowed StorageClasses: {0}")]
    NoClass(String),
    /// The template names a StorageClass that is not allowed.
    #[error("StorageClass \"{0}\" is not one of those allowed: {1}")]
    Class(String, String),
}

impl TemplatePolicy {
    /// Returns the policy that permits every field and every StorageClass.
    pub fn all_fields() -> Self {
        Self {
            template_fields: TemplateField::value_variants().to_vec(),
            allowed_storage_classes: Vec::new(),
        }
    }

    /// Checks a template that was parsed.
    ///
    /// # Errors
    /// The first field or StorageClass that is not allowed, or that the template names no
    /// StorageClass although only some are allowed.
    pub fn check(&self, template: &Template) -> Result<(), Refusal> {
        let forbidden = TemplateField::value_variants()
            .iter()
            .filter(|field| !self.template_fields.contains(field));
        for field in forbidden {
            if let Some(path) = field.find(template) {
                let option = field.to_possible_value();
                let option = option.map(|value| value.get_name().to_owned());
                return Err(Refusal::Field {
                    path,
                    option: option.unwrap_or_default(),
                });
            }
        }
        self.check_class(template)
    }

    fn check_class(&self, template: &Template) -> Result<(), Refusal> {
        if self.allowed_storage_classes.is_empty() {
            return Ok(());
        }
        let allowed = || self.allowed_storage_classes.join(", ");
        // Each of the two that is present must name an allowed class. Where both are present,
        // Kubernetes uses the annotation.
        let paths: [&[&str]; 2] = [
            &["metadata", "annotations", STORAGE_CLASS],
            &["spec", "storageClassName"],
        ];
        let named = paths.iter().filter_map(|path| template.get(path)?.as_str());
        let mut classes = named.peekable();
        if classes.peek().is_none() {
            return Err(Refusal::NoClass(allowed()));
        }
        let known = |class: &str| {
            self.allowed_storage_classes
                .iter()
                .any(|each| each == class)
        };
        match classes.find(|class| !known(class)) {
            Some(class) => Err(Refusal::Class(shown(class), allowed())),
            None => Ok(()),
        }
    }
}

impl TemplateField {
    /// Returns the name of this field in the error message, such as `spec.selector` or
    /// `annotation "KEY"`; none if the template does not need this permission.
    fn find(self, template: &Template) -> Option<String> {
        let spec = |field: &str| {
            let value = template.get(&["spec", field])?;
            let is_set = !value.is_null() && value != "";
            is_set.then(|| format!("spec.{field}"))
        };
        match self {
            Self::Finalizers => {
                let finalizers = template.get(&["metadata", "finalizers"])?.as_array()?;
                let own = finalizers.iter().all(|each| each == PVC_PROTECTION);
                (!own).then(|| "metadata.finalizers".to_owned())
            }
            Self::Annotations => {
                let annotations = template.get(&["metadata", "annotations"])?.as_object()?;
                let key = annotations.keys().find(|key| is_of_controllers(key))?;
                Some(format!("annotation \"{}\"", shown(key)))
            }
            Self::VolumeName => spec("volumeName"),
            Self::Selector => spec("selector"),
            Self::DataSource => spec("dataSource"),
            Self::DataSourceRef => spec("dataSourceRef"),
        }
    }
}

/// Prefixes of the annotations of Kubernetes' volume controllers.
const CONTROLLERS: [&str; 3] = [BINDER_PREFIX, VOLUME_PREFIX, VOLUME_BETA_PREFIX];

fn is_of_controllers(key: &str) -> bool {
    key != STORAGE_CLASS && CONTROLLERS.iter().any(|prefix| key.starts_with(prefix))
}

#[cfg(test)]
#[path = "template_policy_tests.rs"]
mod tests;
