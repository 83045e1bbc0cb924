//! `trash`, `undelete`, `purge` and `unused`, against an API server that gives prepared answers.

use super::{Ended, ended, kubeconfig, kubeconfig_for, misused, warden};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};
use tempfile::TempDir;

const EMPTY: &str = r#"{"apiVersion": "v1", "kind": "List", "metadata": {}, "items": []}"#;
const CLAIM: &str = r#"{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "shop",
    "uid": "9"}, "spec": {"volumeName": "pv-1"}, "status": {"phase": "PHASE"}}"#;
const VOLUME: &str = r#"{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-1", "uid": "v", "annotations":
    {"volume-warden.dev/trash": "{\"policy\":\"Delete\",\"windowSeconds\":3600,\"claim\":{\"namespace\":\"shop\",\"name\":\"data\",\"uid\":\"1\"},\"deletedAt\":\"2026-01-01T00:00:00Z\"}"}},
    "spec": {"claimRef": {"namespace": "shop", "name": "data", "uid": "1"}, "capacity": {"storage": "10Gi"},
    "persistentVolumeReclaimPolicy": "Retain"}, "status": {"phase": "Released"}}"#;

/// The code and body for requests whose first line contains the words.
type Answers = Vec<(&'static str, u16, String)>;

fn status(code: u16, reason: &str, message: &str) -> String {
    format!(
        r#"{{"kind": "Status", "apiVersion": "v1", "metadata": {{}}, "status": "Failure", "reason": "{reason}", "message": "{message}", "code": {code}}}"#
    )
}

/// Answers one request, and returns its first line and its body.
fn answered(connection: TcpStream, answers: &Answers) -> std::io::Result<String> {
    let mut reader = BufReader::new(connection.try_clone()?);
    let (mut request, mut line, mut length) = (String::new(), String::new(), 0);
    reader.read_line(&mut request)?;
    while reader.read_line(&mut line)? > 2 {
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or_default();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let found = answers.iter().find(|(words, _, _)| request.contains(words));
    let none = ("", 404, status(404, "NotFound", "not found"));
    let (_, code, answer) = found.unwrap_or(&none);
    let mut writer = connection;
    write!(
        writer,
        "HTTP/1.1 {code} Answer\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{answer}",
        answer.len()
    )?;
    Ok(format!("{request}{}", String::from_utf8_lossy(&body)))
}

/// Runs a command, and returns how it ended and the requests that it sent.
fn asked(arguments: &[&str], answers: Answers) -> (Ended, Vec<String>) {
    let directory = TempDir::new().expect("a directory");
    let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
    let server = listener.local_addr().expect("an address");
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = requests.clone();
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            if let Ok(request) = answered(connection, &answers) {
                seen.lock().expect("not poisoned").push(request);
            }
        }
    });
    let mut command = warden(arguments);
    command.env("KUBECONFIG", kubeconfig_for(&directory, server));
    let ended = ended(command);
    let requests = requests.lock().expect("not poisoned").clone();
    (ended, requests)
}

#[track_caller]
fn has(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[test]
fn wrong_command_lines_are_reported() {
    let wrong: [(&[&str], &[&str]); 9] = [
        (
            &["trash", "-n", "a", "-A"],
            &["--all-namespaces", "--namespace"],
        ),
        (&["trash", "-o", "yaml"], &["table, wide, json"]),
        (&["undelete", "pvc"], &["undelete pvc NAME"]),
        (&["undelete", "pv/pv-1"], &["pv is none of: pvc"]),
        (&["undelete", "pvc/data", "data"], &["undelete pvc/NAME"]),
        (&["undelete", "pvc/data", "--timeout=1"], &["--timeout"]),
        (&["purge", "pod/a", "--yes"], &["pod is none of: pvc, pv"]),
        (&["purge", "pvc", "--yes"], &["purge pvc NAME"]),
        (&["purge", "pvc/data"], &["--yes"]),
    ];
    for (arguments, words) in wrong {
        misused(warden(arguments), words);
    }
}

#[test]
fn an_unreachable_cluster_is_reported() {
    let directory = TempDir::new().expect("a directory");
    for (arguments, code) in [
        (&["trash"][..], 3),
        (&["purge", "pv/a", "--yes"], 3),
        (&["undelete", "pvc/a"], 1),
    ] {
        let mut command = warden(arguments);
        command.env("KUBECONFIG", kubeconfig(&directory));
        let ended = ended(command);
        assert_eq!(ended.code, Some(code), "{arguments:?}: {}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    }
}

#[test]
fn trash_lists_the_deleted_claims_of_a_namespace() {
    let list = || EMPTY.replace("[]", &format!("[{VOLUME}]"));
    let (ended, requests) = asked(&["trash", "-n", "shop"], vec![("GET", 200, list())]);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""));
    has(
        &ended.stdout,
        &["shop", "data", "10Gi", "2026-01-01T01:00:00Z", "pv-1"],
    );
    assert_eq!(requests.len(), 1, "{requests:?}");
    let (ended, _) = asked(&["trash", "-n", "other"], vec![("GET", 200, list())]);
    assert_eq!((ended.code, &*ended.stdout), (Some(0), ""));
    has(
        &ended.stderr,
        &["no deleted claim of the namespace other is in the trash"],
    );
    let forbidden = status(403, "Forbidden", "you may not");
    let (ended, _) = asked(&["trash", "-A"], vec![("GET", 403, forbidden)]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    has(&ended.stderr, &["tenants", "undelete pvc NAME"]);
}

#[test]
fn undelete_creates_a_claim_and_waits_for_it() {
    let undelete = &["undelete", "pvc/data", "-n", "shop", "--timeout=0"];
    let pending = CLAIM.replace("PHASE", "Pending");
    let bound = CLAIM.replace("PHASE", "Bound");
    let answers = vec![("POST", 201, pending.clone()), ("GET", 200, bound)];
    let (ended, requests) = asked(undelete, answers);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""));
    has(
        &ended.stdout,
        &["Created the claim shop/data", "is Bound to volume pv-1"],
    );
    has(
        &requests[0],
        &[
            "/namespaces/shop/persistentvolumeclaims",
            r#""volume-warden.dev/undelete":"data""#,
        ],
    );
    let answers = vec![("POST", 201, pending.clone()), ("GET", 200, pending)];
    let (ended, _) = asked(undelete, answers);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    has(&ended.stderr, &["not Bound", "why pvc data -n shop"]);
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
        let (ended, requests) = asked(undelete, vec![("POST", code, answer)]);
        assert_eq!(
            (ended.code, &*ended.stdout),
            (Some(1), ""),
            "{}",
            ended.stderr
        );
        has(&ended.stderr, &[words]);
        assert_eq!(requests.len(), 1, "nothing is awaited: {requests:?}");
    }
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
    let (ended, requests) = asked(purge, answers());
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""));
    has(
        &ended.stdout,
        &["claim shop/data", "10Gi", "purges per hour"],
    );
    has(
        &requests[1],
        &[
            "/persistentvolumes/pv-1",
            "volume-warden.dev~1purge",
            r#""value":"1""#,
            "/spec/claimRef/uid",
        ],
    );
    let (ended, requests) = asked(purge, vec![]);
    assert_eq!(
        (ended.code, requests.len()),
        (Some(1), 1),
        "{}",
        ended.stderr
    );
    has(&ended.stderr, &["no volume pv-1 is in the trash"]);
    let refused = status(403, "Forbidden", "you may not");
    let answers = vec![("GET", 200, VOLUME.to_owned()), ("PATCH", 403, refused)];
    let (ended, _) = asked(purge, answers);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    has(&ended.stderr, &["you may not"]);
}

#[test]
fn unused_lists_what_the_user_may_read() {
    let unused = &["unused", "-n", "shop"];
    let (ended, requests) = asked(unused, vec![("GET", 200, EMPTY.to_owned())]);
    assert_eq!((ended.code, &*ended.stdout), (Some(0), ""));
    has(&ended.stderr, &["nothing is unused"]);
    assert_eq!(requests.len(), 8, "{requests:?}");
    let claims = EMPTY.replace("[]", &format!("[{}]", CLAIM.replace("PHASE", "Bound")));
    let forbidden = || status(403, "Forbidden", "you may not");
    let answers = |refused| {
        vec![
            (refused, 403, forbidden()),
            ("persistentvolumeclaims", 200, claims.clone()),
            ("GET", 200, EMPTY.to_owned()),
        ]
    };
    let (ended, _) = asked(unused, answers("statefulsets"));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    has(
        &ended.stderr,
        &["StatefulSets could not be listed", "you may not"],
    );
    has(&ended.stdout, &["shop", "data", "unknown"]);
    let older = &["unused", "-n", "shop", "--older-than=1d"];
    let (ended, _) = asked(older, answers("statefulsets"));
    assert_eq!((ended.code, &*ended.stdout), (Some(0), ""));
    has(
        &ended.stderr,
        &["since when they are unused: 1", "for that long"],
    );
    for required in ["/pods", "persistentvolumeclaims"] {
        let (ended, _) = asked(unused, answers(required));
        assert_eq!((ended.code, &*ended.stdout), (Some(3), ""));
        has(
            &ended.stderr,
            &["the claims or the pods could not be listed"],
        );
    }
    misused(warden(&["unused", "--price=fast"]), &["CLASS=PRICE"]);
    misused(warden(&["unused", "--older-than=soon"]), &["30d"]);
}
