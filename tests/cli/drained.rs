//! The command `drain`, against an API server without objects to drain.

use super::{Running, TIMEOUT, kubeconfig_for, warden};
use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    process::Stdio,
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Answers one request: every list is empty, and the webhook configurations do not exist.
fn answer(connection: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(connection.try_clone()?);
    let mut request = String::new();
    reader.read_line(&mut request)?;
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let (code, body) = if request.contains("webhookconfigurations") {
        (
            404,
            r#"{"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "NotFound", "message": "no", "code": 404}"#,
        )
    } else {
        (
            200,
            r#"{"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "1"}, "items": []}"#,
        )
    };
    let mut writer = connection;
    write!(
        writer,
        "HTTP/1.1 {code} Answer\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// Starts the API server, and returns a kubeconfig for it.
fn kubeconfig(directory: &TempDir) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
    let server = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let _ = answer(connection);
        }
    });
    let file = kubeconfig_for(directory, server);
    file.to_string_lossy().into_owned()
}

/// The command completes although the reader has closed the pipe, as `| head` does.
#[test]
fn closed_standard_output_does_not_stop_the_command() {
    let directory = TempDir::new().expect("a directory");
    let mut command = warden(&["drain", "--in-tree=off", "--dry-run"]);
    command.env("VOLUME_WARDEN_KUBECONFIG", kubeconfig(&directory));
    command.env("RUST_LOG", "info");
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running(piped.spawn().expect("starts"));
    drop(running.0.stdout.take());
    let stderr = running.0.stderr.take().expect("a pipe");
    let begun = Instant::now();
    let status = loop {
        match running.0.try_wait().expect("waits") {
            Some(status) => break status,
            None => thread::sleep(Duration::from_millis(10)),
        }
        assert!(begun.elapsed() < TIMEOUT, "the command did not exit");
    };
    let messages: Vec<_> = BufReader::new(stderr)
        .lines()
        .map_while(Result::ok)
        .collect();
    assert_eq!(status.code(), Some(0), "{messages:?}");
    let first = messages.first().map_or("", String::as_str);
    assert!(
        first.contains("http://127.0.0.1:"),
        "no address of the API server: {messages:?}"
    );
}
