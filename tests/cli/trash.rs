//! The commands `trash`, `undelete` and `purge`, against an API server with predefined responses.

use super::{
    Running,
    answers::{CLAIM, EMPTY, assert_contains, run_against, status},
    assert_usage_error, finish, kubeconfig, warden,
};
use std::process::Stdio;
use tempfile::TempDir;

const VOLUME: &str = r#"{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-1", "uid": "v", "annotations":
    {"volume-warden.dev/trash": "{\"policy\":\"Delete\",\"windowSeconds\":3600,\"claim\":{\"namespace\":\"shop\",\"name\":\"data\",\"uid\":\"1\"},\"deletedAt\":\"2026-01-01T00:00:00Z\"}"}},
    "spec": {"claimRef": {"namespace": "shop", "name": "data", "uid": "1"}, "capacity": {"storage": "10Gi"},
    "persistentVolumeReclaimPolicy": "Retain"}, "status": {"phase": "Released"}}"#;

#[test]
fn wrong_command_lines_are_reported() {
    let wrong: [(&[&str], &[&str]); 11] = [
        (
            &["trash", "-n", "a", "-A"],
            &["--all-namespaces", "--namespace"],
        ),
        (&["trash", "-o", "yaml"], &["table, wide, json"]),
        (&["trash", "repair"], &["--yes", "--dry-run"]),
        (&["trash", "-A", "repair", "--yes"], &["repair"]),
        (&["undelete", "pvc"], &["undelete pvc NAME"]),
        (&["undelete", "pv/pv-1"], &["pv is none of: pvc"]),
        (&["undelete", "pvc/data", "data"], &["undelete pvc/NAME"]),
        (&["undelete", "pvc/data", "--timeout=1"], &["--timeout"]),
        (&["purge", "pod/a", "--yes"], &["pod is none of: pvc, pv"]),
        (&["purge", "pvc", "--yes"], &["purge pvc NAME"]),
        (&["purge", "pvc/data"], &["--yes"]),
    ];
    for (arguments, words) in wrong {
        assert_usage_error(warden(arguments), words);
    }
}

#[test]
fn an_unreachable_cluster_is_reported() {
    let directory = TempDir::new().expect("a directory");
    for (arguments, code) in [
        (&["trash"][..], 3),
        (&["trash", "repair", "--yes"], 3),
        (&["purge", "pv/a", "--yes"], 3),
        (&["undelete", "pvc/a"], 3),
    ] {
        let mut command = warden(arguments);
        command.env("KUBECONFIG", kubeconfig(&directory));
        let finished = finish(command);
        assert_eq!(
            finished.code,
            Some(code),
            "{arguments:?}: {}",
            finished.stderr
        );
        assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
    }
}

/// In a pod, the command would otherwise change the cluster of the pod instead of the requested
/// one.
#[test]
fn an_error_in_the_kubeconfig_is_not_replaced_by_the_service_account() {
    let directory = TempDir::new().expect("a directory");
    let purge = &["purge", "pv/a", "--yes", "--context=absent"];
    for (file, words) in [
        (kubeconfig(&directory), "absent"),
        (directory.path().join("none"), "$KUBECONFIG"),
    ] {
        let mut command = warden(purge);
        command.env("KUBECONFIG", file);
        let finished = finish(command);
        assert_eq!(finished.code, Some(3), "{}", finished.stderr);
        assert_contains(&finished.stderr, &[words]);
        assert!(!finished.stderr.contains("in a pod"), "{}", finished.stderr);
    }
}

/// Standard error is closed, for example because the process that reads it has exited.
#[test]
fn closed_standard_error_does_not_change_the_exit_code() {
    let directory = TempDir::new().expect("a directory");
    let mut command = warden(&["undelete", "pvc/a"]);
    command.env("KUBECONFIG", kubeconfig(&directory));
    let mut running = Running(command.stderr(Stdio::piped()).spawn().expect("starts"));
    drop(running.0.stderr.take());
    let status = running.0.wait().expect("waits");
    assert_eq!(status.code(), Some(3));
}

#[test]
fn trash_lists_the_deleted_claims_of_a_namespace() {
    let list = || EMPTY.replace("[]", &format!("[{VOLUME}]"));
    // Not every user may read the copies of volumes.
    let volumes = || vec![("persistentvolumes", 200, list())];
    let (finished, requests) = run_against(&["trash", "-n", "shop"], volumes());
    assert_eq!((finished.code, &*finished.stderr), (Some(0), ""));
    assert_contains(
        &finished.stdout,
        &["shop", "data", "10Gi", "2026-01-01T01:00:00Z", "pv-1"],
    );
    assert_eq!(requests.len(), 2, "{requests:?}");
    let (finished, _) = run_against(&["trash", "-n", "other"], volumes());
    assert_eq!((finished.code, &*finished.stdout), (Some(0), ""));
    assert_contains(
        &finished.stderr,
        &["no deleted claim of the namespace other is in the trash"],
    );
    let forbidden = status(403, "Forbidden", "you may not");
    let (finished, _) = run_against(&["trash", "-A"], vec![("GET", 403, forbidden)]);
    assert_eq!(finished.code, Some(3), "{}", finished.stderr);
    assert_contains(&finished.stderr, &["tenants", "undelete pvc NAME"]);
}

#[test]
fn undelete_creates_a_claim_and_waits_for_it() {
    let undelete = &["undelete", "pvc/data", "-n", "shop", "--timeout=0"];
    let pending = CLAIM.replace("PHASE", "Pending");
    let bound = CLAIM.replace("PHASE", "Bound");
    let answers = vec![("POST", 201, pending.clone()), ("GET", 200, bound)];
    let (finished, requests) = run_against(undelete, answers);
    assert_eq!((finished.code, &*finished.stderr), (Some(0), ""));
    assert_contains(
        &finished.stdout,
        &["Created the claim shop/data", "is Bound to volume pv-1"],
    );
    assert_contains(
        &requests[0],
        &[
            "/namespaces/shop/persistentvolumeclaims",
            r#""volume-warden.dev/undelete":"pvc/data""#,
        ],
    );
    let answers = vec![("POST", 201, pending.clone()), ("GET", 200, pending)];
    let (finished, _) = run_against(undelete, answers);
    assert_eq!(finished.code, Some(3), "{}", finished.stderr);
    assert_contains(&finished.stderr, &["not Bound", "why pvc data -n shop"]);
}

#[test]
fn undelete_reports_a_refusal() {
    let undelete = &["undelete", "pvc/data", "-n", "shop"];
    let unfilled = CLAIM.replace("pv-1", "");
    for (code, answer, words) in [
        (
            409,
            status(409, "AlreadyExists", "exists"),
            "--new-name NEW",
        ),
        (
            422,
            status(422, "Invalid", "no deleted claim"),
            "no deleted claim",
        ),
        (201, unfilled, "did not process the claim"),
    ] {
        let (finished, requests) = run_against(undelete, vec![("POST", code, answer)]);
        assert_eq!(
            (finished.code, &*finished.stdout),
            (Some(1), ""),
            "{}",
            finished.stderr
        );
        assert_contains(&finished.stderr, &[words]);
        assert_eq!(requests.len(), 1, "the command does not wait: {requests:?}");
    }
}

/// After an error 500 or 504, the API server may have stored the claim.
#[test]
fn undelete_does_not_report_an_unknown_outcome_as_a_refusal() {
    let undelete = &["undelete", "pvc/data", "-n", "shop"];
    for (code, reason) in [(500, "InternalError"), (504, "Timeout")] {
        let answers = vec![("POST", code, status(code, reason, "too slow"))];
        let (finished, _) = run_against(undelete, answers);
        assert_eq!(
            (finished.code, &*finished.stdout),
            (Some(3), ""),
            "{}",
            finished.stderr
        );
        assert_contains(
            &finished.stderr,
            &["it is unknown whether the claim shop/data was created: too slow"],
        );
    }
}

#[test]
fn undelete_by_volume_names_the_volume_and_not_the_deleted_claim() {
    let undelete = &["undelete", "pvc/data", "-n", "shop", "--volume=pv-1"];
    let bound = CLAIM.replace("PHASE", "Bound");
    let answers = vec![("POST", 201, bound.clone()), ("GET", 200, bound)];
    let (finished, requests) = run_against(undelete, answers);
    assert_eq!((finished.code, &*finished.stderr), (Some(0), ""));
    assert_contains(
        &finished.stdout,
        &["which gets the data of the deleted claim of volume pv-1"],
    );
    assert_contains(&requests[0], &[r#""volume-warden.dev/undelete":"pv/pv-1""#]);
}

#[test]
fn purge_annotates_the_volume_in_the_trash() {
    let purge = &["purge", "pv/pv-1", "--yes"];
    let answers = || {
        vec![
            ("GET", 200, VOLUME.to_owned()),
            ("PATCH", 200, VOLUME.to_owned()),
        ]
    };
    let (finished, requests) = run_against(purge, answers());
    assert_eq!((finished.code, &*finished.stderr), (Some(0), ""));
    assert_contains(
        &finished.stdout,
        &["claim shop/data", "10Gi", "purges per hour"],
    );
    assert_contains(
        &requests[1],
        &[
            "/persistentvolumes/pv-1",
            "volume-warden.dev~1purge",
            r#""value":"1""#,
            "/spec/claimRef/uid",
        ],
    );
    let (finished, requests) = run_against(purge, vec![]);
    assert_eq!(
        (finished.code, requests.len()),
        (Some(1), 1),
        "{}",
        finished.stderr
    );
    assert_contains(&finished.stderr, &["no volume pv-1 is in the trash"]);
    let refused = status(403, "Forbidden", "you may not");
    let answers = vec![("GET", 200, VOLUME.to_owned()), ("PATCH", 403, refused)];
    let (finished, _) = run_against(purge, answers);
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    assert_contains(&finished.stderr, &["you may not"]);
    let late = status(500, "InternalError", "etcdserver: request timed out");
    let answers = vec![("GET", 200, VOLUME.to_owned()), ("PATCH", 500, late)];
    let (finished, _) = run_against(purge, answers);
    assert_eq!(finished.code, Some(3), "{}", finished.stderr);
    assert_contains(
        &finished.stderr,
        &[
            "it is unknown whether the purge of volume pv-1 is requested",
            "request timed out. Run it again",
        ],
    );
}

/// The list of the copies of volumes, with one of `pv-1`.
fn copies() -> String {
    let volume = VOLUME.replace(
        "\"spec\": {",
        "\"spec\": {\"csi\": {\"driver\": \"d\", \"volumeHandle\": \"h\"}, ",
    );
    serde_json::json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {}, "items": [{
        "metadata": {"namespace": "volume-warden", "name": "volume-warden-trash-v", "uid": "c"},
        "data": {"volume": volume},
    }]})
    .to_string()
}

#[test]
fn trash_says_how_many_volumes_were_removed() {
    let answers = |volumes: String| {
        vec![
            ("/configmaps", 200, copies()),
            ("/persistentvolumes", 200, volumes),
            ("/namespaces", 200, EMPTY.to_owned()),
        ]
    };
    let removed = "1 volume was removed without a purge";
    let (finished, _) = run_against(&["trash", "-n", "shop"], answers(EMPTY.to_owned()));
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert_contains(
        &finished.stderr,
        &[removed, "volume-warden trash repair --dry-run"],
    );
    let present = EMPTY.replace("[]", &format!("[{VOLUME}]"));
    for (namespace, volumes) in [("shop", present), ("other", EMPTY.to_owned())] {
        let (finished, _) = run_against(&["trash", "-n", namespace], answers(volumes));
        assert!(!finished.stderr.contains(removed), "{}", finished.stderr);
    }
}

#[test]
fn repair_creates_the_volume_of_the_copy() {
    let answers = |code: u16, created: String| {
        vec![
            ("/configmaps", 200, copies()),
            ("POST", code, created),
            ("/persistentvolumes", 200, EMPTY.to_owned()),
            ("/namespaces", 200, EMPTY.to_owned()),
        ]
    };
    let posted = |requests: &[String]| {
        let mut posts = requests.iter().filter(|each| each.starts_with("POST"));
        posts.next().cloned().unwrap_or_default()
    };
    let created = || answers(201, VOLUME.to_owned());
    let (finished, requests) = run_against(&["trash", "repair", "--yes"], created());
    assert_eq!((finished.code, &*finished.stderr), (Some(0), ""));
    assert_contains(
        &finished.stdout,
        &["shop/data", "d h", "Recreated volume pv-1."],
    );
    assert_contains(
        &posted(&requests),
        &["POST /api/v1/persistentvolumes", "\"volumeHandle\":\"h\""],
    );
    for omitted in ["deletedAt", "\"status\"", "\"uid\":\"v\""] {
        assert!(!posted(&requests).contains(omitted), "{requests:?}");
    }
    let (finished, requests) = run_against(&["trash", "repair", "--dry-run"], created());
    assert_eq!((finished.code, &*posted(&requests)), (Some(0), ""));
    let (finished, requests) = run_against(&["trash", "repair", "--yes", "pv-2"], created());
    assert_eq!((finished.code, &*posted(&requests)), (Some(1), ""));
    assert_contains(&finished.stderr, &["no volume pv-2 was removed"]);
    let refused = status(403, "Forbidden", "you may not");
    let (finished, _) = run_against(&["trash", "repair", "--yes"], answers(403, refused));
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    assert_contains(&finished.stderr, &["pv-1 is not created", "you may not"]);
    let late = status(504, "Timeout", "too slow");
    let (finished, _) = run_against(&["trash", "repair", "--yes"], answers(504, late));
    assert_eq!(finished.code, Some(3), "{}", finished.stderr);
    assert_contains(
        &finished.stderr,
        &["it is unknown whether volume pv-1 is created: too slow"],
    );
}
