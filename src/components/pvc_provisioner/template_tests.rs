//! Tests of the parsing of templates, of the errors, and of the resulting manifests.

use super::*;

#[path = "../../../benches/templates/nasty.rs"]
mod nasty;

const HEAD: &str = "apiVersion: v1\nkind: PersistentVolumeClaim\n";

fn claim(rest: &str) -> Template {
    Template::parse(&format!("{HEAD}{rest}")).unwrap_or_else(|error| panic!("{error}: {rest}"))
}

/// The error for a template text that is refused.
fn refusal(text: &str) -> String {
    let refusal = Template::parse(text).expect_err(text);
    refusal.to_string()
}

fn fields() -> ClaimFields<'static> {
    ClaimFields {
        namespace: "builds",
        name: "cache",
        controller_id: "us",
        owner: None,
        awaiting_since: None,
    }
}

fn pod() -> OwnerReference {
    OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        name: "build".to_owned(),
        uid: "pod-uid".to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(false),
    }
}

fn unknown(template: &Template) -> Vec<String> {
    let fields = template.unknown_fields().iter();
    fields.map(ToString::to_string).collect()
}

#[test]
fn nasty_documents_are_refused() {
    for nasty::Nasty { name, text, answer } in nasty::nasty() {
        assert_eq!(refusal(&text), answer, "{name}");
    }
}

/// Test cases DP-10, DP-11 of the specification.
#[test]
fn errors_state_their_position() {
    let head = |rest: &str| format!("{HEAD}{rest}");
    for (text, answer) in [
        (String::new(), "the template is empty"),
        ("# nothing\n".to_owned(), "the template is empty"),
        ("null".to_owned(), "the template is empty"),
        ("---\n".to_owned(), "the template is empty"),
        (
            "storage: 1Gi:\n".to_owned(),
            "line 1, column 13: mapping values are not allowed in this context",
        ),
        (
            head("spec:\n\tresources: {}\n"),
            "line 4, column 2: tabs disallowed within this context (block indentation)",
        ),
        (
            head("spec: {a: [1, 2}\n"),
            "line 3, column 11: mismatched bracket '[' closed by '}'",
        ),
        (
            "claim".to_owned(),
            "line 1, column 1: a template must be a map",
        ),
        (
            format!("- {}", HEAD.replace('\n', "\n  ")),
            "line 1, column 1: a template must be a map",
        ),
        (
            "kind: PersistentVolumeClaim".to_owned(),
            "apiVersion is missing; it must be \"v1\"",
        ),
        (
            "apiVersion: v1".to_owned(),
            "kind is missing; it must be \"PersistentVolumeClaim\"",
        ),
        (
            "apiVersion: v1\nkind:\n".to_owned(),
            "kind is missing; it must be \"PersistentVolumeClaim\"",
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\n".to_owned(),
            "line 2, column 7: kind must be \"PersistentVolumeClaim\", not \"ConfigMap\"",
        ),
        (
            "apiVersion: v1\nkind: List\nitems: []".to_owned(),
            "line 2, column 7: kind must be \"PersistentVolumeClaim\", not \"List\"",
        ),
        (
            "apiVersion: v1\nkind: persistentvolumeclaim".to_owned(),
            "line 2, column 7: kind must be \"PersistentVolumeClaim\", not \"persistentvolumeclaim\"",
        ),
        (
            "apiVersion: apps/v1\nkind: PersistentVolumeClaim".to_owned(),
            "line 1, column 13: apiVersion must be \"v1\", not \"apps/v1\"",
        ),
        (
            "apiVersion: 1\nkind: PersistentVolumeClaim".to_owned(),
            "line 1, column 13: apiVersion must be \"v1\", not 1",
        ),
        (
            "apiVersion: [v1]\nkind: PersistentVolumeClaim".to_owned(),
            "line 1, column 13: apiVersion must be a string",
        ),
        (
            head("metadata: cache\n"),
            "line 3, column 11: metadata must be a map",
        ),
        (
            head("metadata:\n  labels: [a]\n"),
            "line 4, column 11: metadata.labels must be a map of strings",
        ),
        (
            head("metadata:\n  labels:\n    a: 1\n"),
            "line 5, column 8: metadata.labels must be a map of strings",
        ),
        (
            head("metadata: {labels: {a: null}}\n"),
            "line 3, column 24: metadata.labels must be a map of strings",
        ),
        (
            head("metadata: {annotations: {a: b, c:}}\n"),
            "line 3, column 33: metadata.annotations must be a map of strings",
        ),
        (
            head("metadata: {finalizers: [~]}\n"),
            "line 3, column 25: metadata.finalizers must be a list of strings",
        ),
        (
            head("metadata: {annotations: x}\n"),
            "line 3, column 25: metadata.annotations must be a map of strings",
        ),
        (
            head("metadata: {annotations: {a: {b: c}}}\n"),
            "line 3, column 29: metadata.annotations must be a map of strings",
        ),
        (
            head("metadata: {finalizers: x}\n"),
            "line 3, column 24: metadata.finalizers must be a list of strings",
        ),
        (
            head("metadata: {finalizers: [x, true]}\n"),
            "line 3, column 28: metadata.finalizers must be a list of strings",
        ),
    ] {
        assert_eq!(refusal(&text), answer, "{text}");
    }
}

/// Events and admission warnings are shown on one line, and truncated when they are long.
#[test]
fn errors_are_short_and_on_one_line() {
    let long = "漢\n".repeat(1000);
    let quoted = json!(long).to_string();
    for text in [
        format!("apiVersion: {quoted}"),
        format!("apiVersion: v1\nkind: {quoted}"),
        format!("? {quoted}\n: a\n? {quoted}\n: b"),
        format!("%{}\n", "é".repeat(5000)),
        format!("a: !{} b", "x".repeat(5000)),
        format!("a: {}e999999", "9".repeat(5000)),
    ] {
        let answer = refusal(&text);
        assert!(answer.chars().count() <= 200, "{answer}");
        assert!(!answer.contains('\n'), "{answer}");
    }
    let answers = unknown(&claim(&format!("? {quoted}\n: a\n")));
    assert_eq!(answers.len(), 1);
    assert!(answers[0].chars().count() <= 200, "{answers:?}");
    assert!(!answers[0].contains('\n'), "{answers:?}");
}

/// Test cases DP-15, DP-16 of the specification.
#[test]
fn unknown_fields_are_reported_and_kept() {
    for (rest, fields) in [
        (
            "spec:\n  storageClassName: fast\n  volumeMode: Block\n",
            vec![],
        ),
        (
            "spec:\n  storageclassName: fast\n",
            vec!["line 4, column 3: unknown field \"spec.storageclassName\""],
        ),
        (
            "spec:\n  storageclassName:\n",
            vec!["line 4, column 3: unknown field \"spec.storageclassName\""],
        ),
        (
            "spec: {é: 1, Resources: {}}\n",
            vec![
                "line 3, column 8: unknown field \"spec.é\"",
                "line 3, column 14: unknown field \"spec.Resources\"",
            ],
        ),
        (
            "\"spec\":\n  \"resources\": {\"request\": {\"storage\": \"1Gi\"}}\n",
            vec!["line 4, column 17: unknown field \"spec.resources.request\""],
        ),
        (
            "spec:\n  selector:\n    matchExpressions:\n    - {key: a, operator: In}\n    - {key: b, operater: In, operator: In}\n",
            vec!["line 7, column 16: unknown field \"spec.selector.matchExpressions[1].operater\""],
        ),
        (
            "zone: a\nmetadata: {label: {}}\n",
            vec![
                "line 3, column 1: unknown field \"zone\"",
                "line 4, column 12: unknown field \"metadata.label\"",
            ],
        ),
        // Labels may have any key, and Volume Warden drops the other fields, so none of these is
        // reported as unknown.
        (
            "metadata: {labels: {zone: a}, uid: 5, managedFields: 1}\nstatus: {phase: [], zone: a}\n",
            vec![],
        ),
        // A number as a quantity is not an error, because the API server accepts it.
        ("spec: {resources: {requests: {storage: 1}}}\n", vec![]),
        (
            "spec: {accessmodes: [a], resources: {requests: {storage: 1}}}\n",
            vec!["line 3, column 8: unknown field \"spec.accessmodes\""],
        ),
    ] {
        assert_eq!(unknown(&claim(rest)), fields, "{rest}");
    }
    let kept = claim("spec: {speed: 7}\nzone: [{a: null}]\n").manifest(&fields());
    assert_eq!(kept["spec"], json!({"speed": 7}));
    assert_eq!(kept["zone"], json!([{"a": null}]));
}

/// Test case DP-02 of the specification.
#[test]
fn json_is_read_like_yaml() {
    let yaml = claim(
        "spec:\n  accessModes: [ReadWriteOnce]\n  resources:\n    requests: {storage: 1Gi}\nx: \"😀/\\té\"\n",
    );
    let json = Template::parse(
        "{\n\t\"apiVersion\" : \"v1\",\r\n\t\"kind\"\n: \"PersistentVolumeClaim\",\"spec\":{\"accessModes\":[\"ReadWriteOnce\"],\
         \"resources\":{\"requests\":{\"storage\":\"1Gi\"}}},\n\t\"x\":\"\\ud83d\\ude00\\/\\t\\u00e9\"}",
    );
    assert_eq!(
        json.expect("json").manifest(&fields()),
        yaml.manifest(&fields())
    );
    assert_eq!(
        refusal("{\"apiVersion\": \"v1\", \"x\": \"\\ud83d\"}"),
        "line 1, column 27: while parsing a quoted scalar, found high surrogate without following low surrogate"
    );
}

#[test]
fn values_mean_what_they_look_like() {
    for (text, value) in [
        ("no", json!("no")),
        ("off", json!("off")),
        ("y", json!("y")),
        ("true", json!(true)),
        ("~", json!(null)),
        ("", json!(null)),
        ("\"\"", json!("")),
        ("10", json!(10)),
        ("-10", json!(-10)),
        ("18446744073709551615", json!(u64::MAX)),
        ("1.5", json!(1.5)),
        ("\"10\"", json!("10")),
        ("10Gi", json!("10Gi")),
        ("007", json!("007")),
        ("1_000", json!("1_000")),
        ("2026-01-01", json!("2026-01-01")),
        ("|\n  a\n  b\n", json!("a\nb\n")),
        ("'<<'", json!("<<")),
        ("[a, {b: c}]", json!(["a", {"b": "c"}])),
    ] {
        let manifest = claim(&format!("x: {text}\n")).manifest(&fields());
        assert_eq!(manifest["x"], value, "{text}");
    }
}

/// Test case DP-13 of the specification.
#[test]
fn fields_that_a_template_may_not_set_are_replaced() {
    let template = claim(
        "metadata:\n  name: mine\n  namespace: elsewhere\n  generateName: any-\n  uid: u\n  resourceVersion: '5'\n  generation: 3\n  \
         selfLink: x\n  creationTimestamp: null\n  deletionTimestamp: x\n  deletionGracePeriodSeconds: 0\n  managedFields: []\n  \
         ownerReferences:\n  - {apiVersion: v1, kind: Pod, name: other, uid: other}\nspec: {volumeName: v}\nstatus: {phase: Bound}\n",
    );
    let mut expected = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": {"volumeName": "v"},
        "metadata": {
            "name": "cache", "namespace": "builds", "finalizers": [PVC_PROTECTION],
            "labels": {"dynamic-pvc-provisioner.kubernetes.io/managed-by": "us"},
        },
    });
    assert_eq!(template.manifest(&fields()), expected);

    let owned = template.manifest(&ClaimFields {
        owner: Some(pod()),
        ..fields()
    });
    expected["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "Pod", "name": "build", "uid": "pod-uid", "controller": true, "blockOwnerDeletion": false,
    }]);
    assert_eq!(owned, expected);
}

/// Test case DP-14 of the specification.
#[test]
fn labels_annotations_and_finalizers_are_kept_and_extended() {
    let template = claim(
        "metadata:\n  labels:\n    app: ci\n    dynamic-pvc-provisioner.kubernetes.io/managed-by: them\n  annotations:\n    note: x\n    \
         volume-warden.dev/awaiting-pod: '1970-01-01T00:00:00Z'\n    volume-warden.dev/undelete: data\n    \
         volume-warden.dev/rebind: same-name\n    \
         volume-warden.dev/expire-unused: 90d\n  finalizers: [example.com/hold]\n",
    );
    let expiry = "volume-warden.dev/expire-unused";
    let metadata = template.manifest(&fields())["metadata"].take();
    let label = "dynamic-pvc-provisioner.kubernetes.io/managed-by";
    assert_eq!(metadata["labels"], json!({"app": "ci", label: "us"}));
    assert_eq!(metadata["annotations"], json!({"note": "x", expiry: "90d"}));
    assert_eq!(
        metadata["finalizers"],
        json!(["example.com/hold", PVC_PROTECTION])
    );

    let since = Some("2026-01-01T00:00:00Z");
    let metadata = template.manifest(&ClaimFields {
        awaiting_since: since,
        ..fields()
    })["metadata"]
        .take();
    assert_eq!(
        metadata["annotations"],
        json!({"note": "x", expiry: "90d", "volume-warden.dev/awaiting-pod": since})
    );

    let protected =
        claim("metadata: {finalizers: [kubernetes.io/pvc-protection, a]}\n").manifest(&fields());
    assert_eq!(
        protected["metadata"]["finalizers"],
        json!([PVC_PROTECTION, "a"])
    );
}

/// The API server treats a field that is null as absent, and some tools write it. The value of a
/// label or annotation is not such a field: if it is null, the API server stores an empty string.
#[test]
fn null_means_absent() {
    let nothing = claim("").manifest(&fields());
    let null = "metadata: {labels: null, annotations: ~, finalizers:, ownerReferences: null}\n";
    for rest in ["metadata:\n", null] {
        assert_eq!(claim(rest).manifest(&fields()), nothing, "{rest}");
    }
}

#[test]
fn a_template_may_be_as_long_as_the_limit() {
    let text = format!("{HEAD}{}", "#".repeat(LIMIT - HEAD.len()));
    assert!(Template::parse(&text).is_ok());
    assert!(Template::parse(&(text + "#")).is_err());
}

/// Comments do not count towards the limit of nodes.
#[test]
fn comments_do_not_count() {
    let comments = "  # why\n".repeat(900);
    for rest in [
        format!("spec:\n{comments}  volumeName: v\n"),
        format!("spec: {{\n{comments}  volumeName: v\n{comments}}}\n"),
        format!("{comments}spec: # why\n  volumeName: v\n"),
    ] {
        let spec = claim(&rest).manifest(&fields())["spec"].take();
        assert_eq!(spec, json!({"volumeName": "v"}));
    }
    let list = claim(&format!("x:\n-\n{comments}  - a\n")).manifest(&fields());
    assert_eq!(list["x"], json!([["a"]]));
}

/// Truncated texts never panic, whether cut in a value or between multi-byte characters.
#[test]
fn truncated_texts_do_not_panic() {
    let flow = "{é: [\"漢\\ud83d\\ude00\", '字' ],\n ö: \"😀\"";
    let text = format!("{HEAD}spec: {flow}}}\n# 😀\n");
    let spec = HEAD.len() + "spec: ".len();
    for end in (0..=text.len()).filter(|&end| text.is_char_boundary(end)) {
        let whole = end > spec + flow.len();
        let nothing_yet = [HEAD.len() - 1, HEAD.len(), spec - 1, spec].contains(&end);
        let cut = &text[..end];
        let read = Template::parse(cut);
        assert_eq!(read.is_ok(), whole || nothing_yet, "{cut}: {read:?}");
    }
}
