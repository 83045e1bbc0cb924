//! Any answer of StorageOS has the documented meaning, or is a failure with a short message. No
//! message repeats the token, and only a token that StorageOS granted is sent.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde::de::IgnoredAny;
use serde_json::Value;
use std::{
    cell::RefCell,
    fs,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    runtime::{Builder, Runtime},
};
use volume_warden::backend::{
    Backend as _, Deletion, Failure, Listed, Sentence, StorageOs,
    storageos::{Endpoint, Options},
};

const STATUS: [u16; 8] = [200, 401, 403, 404, 409, 412, 500, 503];
const TOKEN: &str = "secret-token";
const LOGIN: &str = r#"{"session": {"token": "secret-token"}}"#;

thread_local! {
    static SITE: RefCell<(Runtime, Site)> = RefCell::new(site());
}

// The first byte selects the request, the second one the status; the rest is the answer.
fuzz_target!(|bytes: &[u8]| {
    let [request, status, answer @ ..] = bytes else {
        return;
    };
    let status = STATUS[usize::from(*status) % STATUS.len()];
    SITE.with_borrow_mut(|(runtime, site)| {
        runtime.block_on(async {
            match request % 3 {
                0 => site.list(status, answer).await,
                1 => site.delete(status, answer).await,
                _ => site.log_in(answer).await,
            }
        });
    });
});

struct Site {
    script: Arc<Mutex<Script>>,
    options: Options,
    client: StorageOs,
}

/// The answers of the server, and the last `authorization` header that it received.
struct Script {
    login: Vec<u8>,
    other: (u16, Vec<u8>),
    authorization: String,
}

impl Site {
    fn answer(&self, status: u16, body: &[u8]) {
        self.script.lock().expect("no panic").other = (status, body.to_vec());
    }

    async fn list(&self, status: u16, body: &[u8]) {
        self.answer(status, body);
        let listing = match self.client.list().await {
            Ok(listing) => listing,
            Err(failure) => {
                let is_list = serde_json::from_slice::<Vec<Value>>(body).is_ok();
                assert!(status != 200 || !is_list, "{failure}");
                return assert_harmless(failure.why());
            }
        };
        assert_eq!(status, 200);
        let entries: Vec<IgnoredAny> = serde_json::from_slice(body).expect("a list");
        assert_eq!(listing.namespaces.len() + listing.skipped, entries.len());
        for namespace in &listing.namespaces {
            let is_label = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
            assert!((1..=63).contains(&namespace.name.len()));
            assert!(namespace.name.bytes().all(is_label), "{namespace:?}");
            assert!((1..=256).contains(&namespace.id.len()));
            assert!(![".", ".."].contains(&&*namespace.id), "{namespace:?}");
        }
        assert_same(&listing.namespaces, body);
    }

    async fn delete(&self, status: u16, body: &[u8]) {
        self.answer(status, body);
        let listed = Listed {
            id: "i".to_owned(),
            name: "n".to_owned(),
            version: "v".to_owned(),
            since: None,
        };
        match (status, self.client.delete(&listed).await) {
            (200, Ok(Deletion::Deleted)) => {}
            (404, Ok(Deletion::NotFound)) => {}
            (412, Ok(Deletion::Stale)) => {}
            (409, Ok(Deletion::NotEmpty(why))) => assert_harmless(&why),
            (401 | 403 | 500 | 503, Err(failure)) => assert_harmless(failure.why()),
            (_, other) => panic!("{status}: {other:?}"),
        }
    }

    /// The answer to a login: the first line is the header `authorization`, the rest is the body.
    async fn log_in(&self, answer: &[u8]) {
        let end = answer.iter().position(|byte| *byte == b'\n');
        let (header, body) = answer.split_at(end.unwrap_or(answer.len()));
        let printable = header.iter().filter(|byte| (b' '..=b'~').contains(*byte));
        let header = String::from_utf8(printable.copied().collect()).expect("ASCII");
        let headers = format!("authorization: {header}\r\n");
        self.answer(200, b"[]");
        {
            let mut script = self.script.lock().expect("no panic");
            script.login = response(200, &headers, body);
            script.authorization.clear();
        }
        let client = StorageOs::new(self.options.clone());
        let listed = client.list().await;
        let mut script = self.script.lock().expect("no panic");
        script.login = response(200, "", LOGIN.as_bytes());
        let sent = std::mem::take(&mut script.authorization);
        if let Err(failure) = listed {
            assert_eq!(failure, Failure::server(failure.why().as_str()));
            return assert_eq!(sent, "", "sent although {failure}");
        }
        let secret = sent.strip_prefix("Bearer ").expect("a bearer token");
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let token = body["session"]["token"].as_str().unwrap_or_default();
        assert!(!secret.is_empty());
        assert!(
            header.trim().ends_with(secret) || token.trim().ends_with(secret),
            "{sent}"
        );
    }
}

/// Checks that a second parser finds the listed namespaces in the body.
fn assert_same(listed: &[Listed], body: &[u8]) {
    let entries: Vec<Value> = serde_json::from_slice(body).unwrap_or_default();
    for namespace in listed.iter().filter(|_| !entries.is_empty()) {
        let same = |entry: &Value| {
            entry["id"] == *namespace.id
                && entry["name"] == *namespace.name
                && entry["version"].as_str().unwrap_or_default() == namespace.version
        };
        assert!(entries.iter().any(same), "{namespace:?}");
    }
}

fn assert_harmless(why: &Sentence) {
    let why = why.as_str();
    assert!(why.chars().count() <= 200 && !why.contains(char::is_control));
    assert!(!why.contains(TOKEN), "{why}");
}

fn site() -> (Runtime, Site) {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let script = Arc::new(Mutex::new(Script {
        login: response(200, "", LOGIN.as_bytes()),
        other: (200, Vec::new()),
        authorization: String::new(),
    }));
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"));
    let listener = listener.expect("listens");
    let address = listener.local_addr().expect("an address").to_string();
    runtime.spawn(serve(listener, script.clone()));
    let endpoint = Endpoint::parse(&address, true).expect("an endpoint");
    let options = Options {
        secrets: secrets(),
        login_interval: Duration::ZERO,
        ..Options::new(endpoint)
    };
    let client = StorageOs::new(options.clone());
    let site = Site {
        script,
        options,
        client,
    };
    (runtime, site)
}

fn secrets() -> PathBuf {
    let secrets = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/target/storageos"));
    fs::create_dir_all(&secrets).expect("a directory");
    for file in ["username", "password"] {
        fs::write(secrets.join(file), "storageos").expect("writes");
    }
    secrets
}

async fn serve(listener: TcpListener, script: Arc<Mutex<Script>>) {
    loop {
        let (connection, _) = listener.accept().await.expect("accepts");
        tokio::spawn(converse(connection, script.clone()));
    }
}

/// Answers the requests on one connection.
async fn converse(mut connection: TcpStream, script: Arc<Mutex<Script>>) -> Option<()> {
    let mut read = Vec::new();
    loop {
        let head = loop {
            let text = String::from_utf8_lossy(&read).to_lowercase();
            if let Some((head, _)) = text.split_once("\r\n\r\n") {
                break head.to_owned();
            }
            (connection.read_buf(&mut read).await.ok()? > 0).then_some(())?;
        };
        let header = |name| head.lines().find_map(|line| line.strip_prefix(name));
        let length = header("content-length: ").map_or(Ok(0), str::parse).ok()?;
        while read.len() < head.len() + 4 + length {
            (connection.read_buf(&mut read).await.ok()? > 0).then_some(())?;
        }
        let authorization = String::from_utf8_lossy(&read).into_owned();
        read.drain(..head.len() + 4 + length);
        let answer = {
            let mut script = script.lock().expect("no panic");
            if head.contains("/auth/login") {
                script.login.clone()
            } else {
                let line = authorization.lines().find_map(|line| {
                    line.get(..15)?
                        .eq_ignore_ascii_case("authorization: ")
                        .then(|| line[15..].to_owned())
                });
                script.authorization = line.unwrap_or_default();
                response(script.other.0, "", &script.other.1)
            }
        };
        connection.write_all(&answer).await.ok()?;
    }
}

fn response(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status} -\r\n{headers}content-length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}
