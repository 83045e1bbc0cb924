//! An API server with predefined responses.

use super::{Finished, finish, kubeconfig_for, warden};
use parking_lot::Mutex;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
};
use tempfile::TempDir;

pub const EMPTY: &str = r#"{"apiVersion": "v1", "kind": "List", "metadata": {}, "items": []}"#;
pub const CLAIM: &str = r#"{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "shop",
    "uid": "9"}, "spec": {"volumeName": "pv-1"}, "status": {"phase": "PHASE"}}"#;

/// A part of the first line of a request, and the code and the body of its response. The first
/// match counts.
pub type Answers = Vec<(&'static str, u16, String)>;

pub fn status(code: u16, reason: &str, message: &str) -> String {
    format!(
        r#"{{"kind": "Status", "apiVersion": "v1", "metadata": {{}}, "status": "Failure", "reason": "{reason}", "message": "{message}", "code": {code}}}"#
    )
}

/// Answers one request. Its first line and its body are in `requests` before the client gets the
/// response, after which it may exit.
fn answer(
    connection: TcpStream,
    answers: &Answers,
    requests: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
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
    let whole = format!("{request}{}", String::from_utf8_lossy(&body));
    requests.lock().push(whole);
    let mut writer = connection;
    write!(
        writer,
        "HTTP/1.1 {code} Answer\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{answer}",
        answer.len()
    )
}

/// Runs a command against an API server with these responses, and returns its result and its
/// requests.
pub fn run_against(arguments: &[&str], answers: Answers) -> (Finished, Vec<String>) {
    let directory = TempDir::new().expect("a directory");
    let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
    let server = listener.local_addr().expect("an address");
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = requests.clone();
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            // The client reports a broken connection.
            let _ = answer(connection, &answers, &seen);
        }
    });
    let mut command = warden(arguments);
    let kubeconfig = kubeconfig_for(&directory, server);
    command.env("KUBECONFIG", &kubeconfig);
    command.env("VOLUME_WARDEN_KUBECONFIG", &kubeconfig);
    let finished = finish(command);
    let requests = requests.lock().clone();
    (finished, requests)
}

/// Checks that the text contains all of `words`.
#[track_caller]
pub fn assert_contains(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word}: {text}");
    }
}
