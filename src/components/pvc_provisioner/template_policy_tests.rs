//! Tests of what templates may contain.

use super::*;

fn template(rest: &str) -> Template {
    let text = format!("apiVersion: v1\nkind: PersistentVolumeClaim\n{rest}");
    Template::parse(&text).unwrap_or_else(|error| panic!("{error}: {rest}"))
}

fn refusal(policy: &TemplatePolicy, rest: &str) -> Option<String> {
    let refused = policy.check(&template(rest)).err();
    refused.map(|refusal| refusal.to_string())
}

#[test]
fn fields_that_reach_beyond_a_new_claim_need_a_flag() {
    for (rest, path, field) in [
        (
            "metadata: {finalizers: [example.com/never]}",
            "metadata.finalizers",
            TemplateField::Finalizers,
        ),
        (
            "metadata: {annotations: {pv.kubernetes.io/bind-completed: 'yes'}}",
            "annotation \"pv.kubernetes.io/bind-completed\"",
            TemplateField::Annotations,
        ),
        (
            "metadata: {annotations: {volume.kubernetes.io/selected-node: n}}",
            "annotation \"volume.kubernetes.io/selected-node\"",
            TemplateField::Annotations,
        ),
        (
            "metadata: {annotations: {volume.beta.kubernetes.io/storage-provisioner: p}}",
            "annotation \"volume.beta.kubernetes.io/storage-provisioner\"",
            TemplateField::Annotations,
        ),
        (
            "spec: {volumeName: other}",
            "spec.volumeName",
            TemplateField::VolumeName,
        ),
        (
            "spec: {selector: {}}",
            "spec.selector",
            TemplateField::Selector,
        ),
        (
            "spec: {dataSource: {kind: PersistentVolumeClaim, name: other}}",
            "spec.dataSource",
            TemplateField::DataSource,
        ),
        (
            "spec: {dataSourceRef: {kind: VolumeSnapshot, name: other}}",
            "spec.dataSourceRef",
            TemplateField::DataSourceRef,
        ),
    ] {
        let value = field.to_possible_value().expect("a value");
        let sentence = format!(
            "{path} is accepted only with --template-fields={}",
            value.get_name()
        );
        let mut policy = TemplatePolicy::default();
        assert_eq!(refusal(&policy, rest), Some(sentence), "{rest}");
        policy.template_fields = vec![field];
        assert_eq!(refusal(&policy, rest), None, "{rest}");
    }
}

#[test]
fn harmless_values_need_no_flag() {
    for rest in [
        "",
        "metadata: {finalizers: [kubernetes.io/pvc-protection]}",
        "metadata: {finalizers: null, annotations: null}",
        "metadata: {annotations: {example.com/a: b, volume.beta.kubernetes.io/storage-class: fast}}",
        "spec: null",
        "spec: []",
        "spec: {volumeName: '', selector: null, dataSource: null, storageClassName: fast}",
    ] {
        assert_eq!(refusal(&TemplatePolicy::default(), rest), None, "{rest}");
    }
}

#[test]
fn a_template_names_an_allowed_class() {
    let policy = TemplatePolicy {
        allowed_storage_classes: vec!["fast".to_owned(), "slow".to_owned()],
        ..TemplatePolicy::default()
    };
    let class = |name: &str| {
        let allowed = "is not one of those allowed: fast, slow";
        Some(format!("StorageClass \"{name}\" {allowed}"))
    };
    let none =
        Some("the template must name one of the allowed StorageClasses: fast, slow".to_owned());
    let legacy = |name: &str| {
        format!("metadata: {{annotations: {{volume.beta.kubernetes.io/storage-class: {name}}}}}\n")
    };
    for (rest, expected) in [
        ("spec: {storageClassName: slow}".to_owned(), None),
        ("spec: {storageClassName: gold}".to_owned(), class("gold")),
        ("spec: {storageClassName: ''}".to_owned(), class("")),
        ("spec: {}".to_owned(), none.clone()),
        ("spec: {storageClassName: null}".to_owned(), none),
        (legacy("fast"), None),
        (legacy("gold"), class("gold")),
        (
            legacy("gold") + "spec: {storageClassName: fast}",
            class("gold"),
        ),
        (
            legacy("fast") + "spec: {storageClassName: gold}",
            class("gold"),
        ),
    ] {
        assert_eq!(refusal(&policy, &rest), expected, "{rest}");
    }
}

/// A refusal names the annotation key, which may have any length and characters.
#[test]
fn a_refusal_is_short_and_on_one_line() {
    let key = format!("pv.kubernetes.io/{}", "x\\n".repeat(300));
    let rest = format!("metadata: {{annotations: {{\"{key}\": a}}}}");
    let sentence = refusal(&TemplatePolicy::default(), &rest).expect("refused");
    assert!(sentence.chars().count() < 250, "{sentence}");
    assert!(!sentence.contains(char::is_control), "{sentence}");
}
