//! Bytes on a new connection to the webhook server, before and after the TLS handshake, reach no
//! webhook without the secret path, and are answered briefly and at once.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rustls::{ClientConfig, RootCertStore};
use std::{
    cell::RefCell,
    fs,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    runtime::{Builder, Runtime},
};
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;
use volume_warden::{
    admission::{Limits, PathSecret, SecretPaths, serve},
    clock::Clock,
    telemetry::Metrics,
    tls::{Mounted, ServingCertificate, Source as _, install_crypto},
};

/// Maximum length of an answer to a client that has not sent the path: the certificate, and an
/// empty body.
const LONGEST: usize = 4096;

thread_local! {
    static SITE: RefCell<(Runtime, Site)> = RefCell::new(site());
}

fuzz_target!(|bytes: &[u8]| {
    SITE.with_borrow(|(runtime, site)| runtime.block_on(site.check(bytes)));
});

struct Site {
    address: SocketAddr,
    secret: PathSecret,
    connector: TlsConnector,
    reached: Arc<AtomicUsize>,
}

impl Site {
    async fn check(&self, bytes: &[u8]) {
        let before = self.reached.load(Ordering::Relaxed);
        let answer = exchange(self.connect().await, bytes).await;
        // Alerts, or the server's part of a handshake.
        assert!(matches!(*answer, [] | [21 | 22, 3, ..]), "{answer:?}");

        let tls = self.connector.connect(
            "localhost".try_into().expect("a name"),
            self.connect().await,
        );
        let answer = exchange(tls.await.expect("a handshake"), bytes).await;
        let secret = self.secret.expose().as_bytes();
        if bytes.windows(secret.len()).any(|window| window == secret) {
            return;
        }
        let text = String::from_utf8_lossy(&answer).to_lowercase();
        let is_error = text.starts_with("http/1.1 4") || text.starts_with("http/1.0 4");
        let is_refused = is_error && text.contains("connection: close");
        assert!(text.is_empty() || is_refused, "{text}");
        assert_eq!(text.matches("http/1.").count(), usize::from(is_refused));
        assert_eq!(
            self.reached.load(Ordering::Relaxed),
            before,
            "it reached a webhook"
        );
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("connects")
    }
}

/// Sends the bytes and the end of the stream, and returns the answer. The server may close the
/// connection before it has read all bytes.
async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, bytes: &[u8]) -> Vec<u8> {
    let _ = stream.write_all(bytes).await;
    let _ = stream.shutdown().await;
    let mut answer = Vec::new();
    let mut part = [0; 1024];
    while let Ok(length @ 1..) = stream.read(&mut part).await {
        answer.extend(&part[..length]);
        assert!(answer.len() <= LONGEST, "a long answer");
    }
    answer
}

fn site() -> (Runtime, Site) {
    install_crypto();
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let site = runtime.block_on(start());
    (runtime, site)
}

async fn start() -> Site {
    let metrics = Arc::new(Metrics::new());
    let serving = ServingCertificate::new(&metrics, Clock::system());
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a pair");
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tls");
    fs::create_dir_all(&directory).expect("a directory");
    let files = Mounted {
        certificate: directory.join("tls.crt"),
        key: directory.join("tls.key"),
    };
    fs::write(&files.certificate, made.cert.pem()).expect("writes");
    fs::write(&files.key, made.signing_key.serialize_pem()).expect("writes");
    let loaded = files.load(&serving).await;
    loaded.expect("a certificate");

    let reached = Arc::new(AtomicUsize::new(0));
    let counted = reached.clone();
    let app = axum::Router::new().fallback(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        async {}
    });
    let secret = PathSecret::parse(&"0123456789abcdef".repeat(4)).expect("a secret");
    let paths = SecretPaths::default();
    paths.accept(vec![secret.clone()], false);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("listens");
    let address = listener.local_addr().expect("an address");
    let (limits, stop) = (Limits::default(), CancellationToken::new());
    let certificate = serving.certificate.clone();
    tokio::spawn(serve(
        listener,
        certificate,
        app,
        paths,
        limits,
        metrics,
        stop,
    ));
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("a root");
    let config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Site {
        address,
        secret,
        connector: TlsConnector::from(Arc::new(config)),
        reached,
    }
}
