//! The command `probe`, against a server that answers as `run` does.

use super::{assert_failure, closed_address, finish, warden};
use std::{
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    thread,
};

/// Starts a server for one request. Returns its address and its thread, which returns the first
/// line of the request.
fn serve_once(status: &'static str) -> (String, thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
    let address = listener.local_addr().expect("an address").to_string();
    let server = thread::spawn(move || {
        let (mut connection, _) = listener.accept().expect("a connection");
        let mut reader = BufReader::new(connection.try_clone().expect("a reader"));
        let (mut first, mut line) = (String::new(), String::new());
        reader.read_line(&mut first).expect("a request");
        while reader.read_line(&mut line).expect("a head") > 2 {
            line.clear();
        }
        let answer = format!("HTTP/1.0 {status}\r\n\r\n{status}: a sentence\n");
        connection.write_all(answer.as_bytes()).expect("writes");
        first
    });
    (address, server)
}

#[test]
fn the_exit_code_is_for_the_kubelet_and_the_message_for_its_event() {
    for (probe, path, status, code) in [
        ("live", "/livez", "200 OK", 0),
        ("ready", "/readyz", "200 OK", 0),
        ("ready", "/readyz", "503 Service Unavailable", 1),
    ] {
        let (address, server) = serve_once(status);
        let finished = finish(warden(&["probe", probe, "--probe-bind-address", &address]));
        assert_eq!(finished.code, Some(code), "{}", finished.stderr);
        assert_eq!(finished.stdout, format!("{status}: a sentence\n"));
        let request = server.join().expect("a request");
        assert_eq!(request, format!("GET {path} HTTP/1.0\r\n"));
    }
}

#[test]
fn no_answer_is_a_failure() {
    let address = closed_address().to_string();
    let mut command = warden(&["probe", "live"]);
    command.env("VOLUME_WARDEN_PROBE_BIND_ADDRESS", &address);
    assert_failure(command, &format!("no answer from {address}"));
}
