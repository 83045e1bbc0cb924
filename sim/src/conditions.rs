//! The match conditions of the shipped webhooks. The manifests have them in CEL; this module
//! has them in Rust. A history does not begin if a webhook has a condition that is missing here.

use crate::json::{list, text};
use serde_json::{Map, Value};
use volume_warden::objects::finalizers::{PV_PROTECTION, PVC_PROTECTION};

const VOLUME_WARDEN: &str = "system:serviceaccount:volume-warden:volume-warden";
const STATEFUL_SETS: [&str; 2] = [
    "system:serviceaccount:kube-system:statefulset-controller",
    "system:kube-controller-manager",
];
/// The users of a history who may patch or update persistentvolumes.
const MAY_CHANGE_VOLUMES: [&str; 2] = [
    VOLUME_WARDEN,
    "system:serviceaccount:kube-system:persistent-volume-binder",
];

type Condition = fn(&Value) -> bool;

/// Each condition: its expression, with single spaces, and its value for an AdmissionRequest.
const CONDITIONS: &[(&str, Condition)] = &[
    (
        r#"!("kubernetes.io/pvc-protection" in object.metadata.?finalizers.orValue([]))"#,
        |request| !has(request, "/object/metadata/finalizers", PVC_PROTECTION),
    ),
    (
        r#"!("kubernetes.io/pv-protection" in object.metadata.?finalizers.orValue([]))"#,
        |request| !has(request, "/object/metadata/finalizers", PV_PROTECTION),
    ),
    ("has(object.metadata.deletionTimestamp)", |request| {
        request
            .pointer("/object/metadata/deletionTimestamp")
            .is_some()
    }),
    ("!has(oldObject.metadata.deletionTimestamp)", |request| {
        request
            .pointer("/oldObject/metadata/deletionTimestamp")
            .is_none()
    }),
    (
        r#"object.spec.?claimRef.?uid.orValue("") != "" && object.spec.?claimRef.?uid.orValue("") != oldObject.spec.?claimRef.?uid.orValue("")"#,
        |request| {
            let uid = |of| text(request, &format!("/{of}/spec/claimRef/uid"));
            !uid("object").is_empty() && uid("object") != uid("oldObject")
        },
    ),
    (
        r#"object.?status.?phase.orValue("") == "Bound" && oldObject.?status.?phase.orValue("") != "Bound""#,
        |request| {
            text(request, "/object/status/phase") == "Bound"
                && text(request, "/oldObject/status/phase") != "Bound"
        },
    ),
    (r#"request.name != """#, |request| {
        !text(request, "/name").is_empty()
    }),
    (
        r#"request.userInfo.username != "system:kube-controller-manager" && !("system:serviceaccounts:kube-system" in request.userInfo.?groups.orValue([]))"#,
        |request| {
            text(request, "/userInfo/username") != STATEFUL_SETS[1]
                && !has(
                    request,
                    "/userInfo/groups",
                    "system:serviceaccounts:kube-system",
                )
        },
    ),
    (
        r#"request.userInfo.username != "system:serviceaccount:volume-warden:volume-warden""#,
        |request| text(request, "/userInfo/username") != VOLUME_WARDEN,
    ),
    (
        r#"object.spec.?claimRef.?uid.orValue("") != """#,
        |request| !text(request, "/object/spec/claimRef/uid").is_empty(),
    ),
    (
        r#"object.spec.?persistentVolumeReclaimPolicy.orValue("") == "Retain""#,
        |request| text(request, "/object/spec/persistentVolumeReclaimPolicy") == "Retain",
    ),
    (
        r#"object.spec.?persistentVolumeReclaimPolicy.orValue("") == "Delete""#,
        |request| text(request, "/object/spec/persistentVolumeReclaimPolicy") == "Delete",
    ),
    (
        r#""volume-warden.dev/undelete" in object.metadata.?annotations.orValue({}) || (request.name != "" && object.spec.?storageClassName.orValue("none") != "" && object.spec.?volumeName.orValue("") == "" && !has(object.spec.selector) && !has(object.spec.dataSource) && !has(object.spec.dataSourceRef) && object.metadata.?annotations.orValue({})[?"volume-warden.dev/rebind"].orValue("") != "off")"#,
        may_restore_data,
    ),
    (
        r#"!("volume-warden.dev/undelete" in object.metadata.?annotations.orValue({}) || (request.name != "" && object.spec.?storageClassName.orValue("none") != "" && object.spec.?volumeName.orValue("") == "" && !has(object.spec.selector) && !has(object.spec.dataSource) && !has(object.spec.dataSourceRef) && object.metadata.?annotations.orValue({})[?"volume-warden.dev/rebind"].orValue("") != "off"))"#,
        |request| !may_restore_data(request),
    ),
    (
        r#"oldObject == null ? object.metadata.?annotations.orValue({}).exists(key, key.startsWith("pv.kubernetes.io/")) : "pv.kubernetes.io/bind-completed" in object.metadata.?annotations.orValue({}) && !("pv.kubernetes.io/bind-completed" in oldObject.metadata.?annotations.orValue({}))"#,
        states_that_it_is_bound,
    ),
    (
        r#"(oldObject == null && request.userInfo.username == "system:kube-controller-manager") || (!authorizer.group("").resource("persistentvolumes").check("patch").allowed() && !authorizer.group("").resource("persistentvolumes").check("update").allowed())"#,
        |request| !MAY_CHANGE_VOLUMES.contains(&text(request, "/userInfo/username")),
    ),
    (r#"object.spec.?nodeName.orValue("") != """#, |request| {
        !text(request, "/object/spec/nodeName").is_empty()
    }),
    (
        r#"!("kubernetes.io/config.mirror" in object.metadata.?annotations.orValue({}))"#,
        |request| {
            request
                .pointer("/object/metadata/annotations/kubernetes.io~1config.mirror")
                .is_none()
        },
    ),
    (
        "object.spec.?volumes.orValue([]).exists(volume, has(volume.persistentVolumeClaim))",
        |request| {
            let volumes = request
                .pointer("/object/spec/volumes")
                .and_then(Value::as_array);
            volumes.is_some_and(|all| {
                all.iter()
                    .any(|each| each.get("persistentVolumeClaim").is_some())
            })
        },
    ),
    (
        r#"object.metadata.?annotations.orValue({}).exists(key, key.startsWith("dynamic-pvc-provisioner.kubernetes.io/"))"#,
        |request| {
            let annotations = request
                .pointer("/object/metadata/annotations")
                .and_then(Value::as_object);
            let prefix = "dynamic-pvc-provisioner.kubernetes.io/";
            annotations.is_some_and(|all| all.keys().any(|key| key.starts_with(prefix)))
        },
    ),
    (
        r#""volume-warden.dev/awaiting-pod" in object.metadata.?annotations.orValue({}) && (oldObject == null || object.metadata.annotations["volume-warden.dev/awaiting-pod"] != oldObject.metadata.?annotations[?"volume-warden.dev/awaiting-pod"].orValue("") || !("dynamic-pvc-provisioner.kubernetes.io/managed-by" in oldObject.metadata.?labels.orValue({})))"#,
        gets_provisioner_mark,
    ),
    (
        r#""volume-warden.dev/scaled-with" in object.metadata.?annotations.orValue({}) && (oldObject == null || object.metadata.annotations["volume-warden.dev/scaled-with"] != oldObject.metadata.?annotations[?"volume-warden.dev/scaled-with"].orValue(""))"#,
        |request| gets_annotation(request, "volume-warden.dev~1scaled-with"),
    ),
    (
        r#"!(object.spec.?claimRef.?uid.orValue("") != "" && object.spec.?persistentVolumeReclaimPolicy.orValue("") == "Retain")"#,
        |request| !is_bound_with(request, "Retain"),
    ),
    (
        r#"!(object.spec.?claimRef.?uid.orValue("") != "" && object.spec.?persistentVolumeReclaimPolicy.orValue("") == "Delete")"#,
        |request| !is_bound_with(request, "Delete"),
    ),
    (
        r#"!(request.userInfo.username in [ "system:serviceaccount:kube-system:statefulset-controller", "system:kube-controller-manager"])"#,
        |request| !is_stateful_sets(request),
    ),
    (
        r#"!(request.userInfo.username in [ "system:serviceaccount:kube-system:statefulset-controller", "system:kube-controller-manager"] && object.metadata.?name.orValue("").matches("-[0-9]+$"))"#,
        |request| !(is_stateful_sets(request) && ends_with_ordinal(request)),
    ),
    (
        r#"request.userInfo.username in [ "system:serviceaccount:kube-system:statefulset-controller", "system:kube-controller-manager"]"#,
        is_stateful_sets,
    ),
    (
        r#"object.metadata.?name.orValue("").matches("-[0-9]+$")"#,
        ends_with_ordinal,
    ),
];

/// Evaluates the expression for the AdmissionRequest; `None` if this module does not have it.
pub fn holds(expression: &str, request: &Value) -> Option<bool> {
    let mut known = CONDITIONS.iter();
    let (_, condition) = known.find(|(known, _)| *known == expression)?;
    Some(condition(request))
}

fn is_stateful_sets(request: &Value) -> bool {
    STATEFUL_SETS.contains(&text(request, "/userInfo/username"))
}

fn ends_with_ordinal(request: &Value) -> bool {
    let name = text(request, "/object/metadata/name");
    name.rsplit_once('-').is_some_and(|(_, ordinal)| {
        !ordinal.is_empty() && ordinal.bytes().all(|byte| byte.is_ascii_digit())
    })
}

fn is_bound_with(request: &Value, policy: &str) -> bool {
    !text(request, "/object/spec/claimRef/uid").is_empty()
        && text(request, "/object/spec/persistentVolumeReclaimPolicy") == policy
}

/// Whether the request adds or changes the annotation.
fn gets_annotation(request: &Value, key: &str) -> bool {
    let stated = |of: &str| request.pointer(&format!("/{of}/metadata/annotations/{key}"));
    stated("object").is_some() && stated("object") != stated("oldObject")
}

/// Whether the request adds or changes the marker of pvc-provisioner, or adds the label without
/// which the marker does not count.
fn gets_provisioner_mark(request: &Value) -> bool {
    let key = "volume-warden.dev~1awaiting-pod";
    let has = |path: &str| request.pointer(path).is_some();
    let mark = format!("/object/metadata/annotations/{key}");
    let label = "/oldObject/metadata/labels/dynamic-pvc-provisioner.kubernetes.io~1managed-by";
    gets_annotation(request, key) || (has(&mark) && !has(label))
}

fn states_that_it_is_bound(request: &Value) -> bool {
    let annotations = |of: &str| {
        let annotations = request.pointer(&format!("/{of}/metadata/annotations"));
        annotations.and_then(Value::as_object)
    };
    let new = annotations("object");
    if request.get("oldObject").is_none_or(Value::is_null) {
        return new.is_some_and(|all| all.keys().any(|key| key.starts_with("pv.kubernetes.io/")));
    }
    let completed = |all: &Map<_, _>| all.contains_key("pv.kubernetes.io/bind-completed");
    new.is_some_and(completed) && !annotations("oldObject").is_some_and(completed)
}

fn may_restore_data(request: &Value) -> bool {
    let value = |path: &str| request.pointer(&format!("/object{path}"));
    let annotation = |key| value(&format!("/metadata/annotations/volume-warden.dev~1{key}"));
    let unset = |field| value(&format!("/spec/{field}")).is_none();
    let class = value("/spec/storageClassName").and_then(Value::as_str);
    let open = !text(request, "/name").is_empty()
        && class != Some("")
        && text(request, "/object/spec/volumeName").is_empty()
        && ["selector", "dataSource", "dataSourceRef"]
            .into_iter()
            .all(unset)
        && annotation("rebind").and_then(Value::as_str) != Some("off");
    annotation("undelete").is_some() || open
}

fn has(value: &Value, path: &str, entry: &str) -> bool {
    list(value, path).iter().any(|each| each == entry)
}
