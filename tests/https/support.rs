//! A webhook server on a free port, and clients for it.

use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use serde_json::{Value, json};
use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::Notify,
    task::JoinHandle,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_util::sync::CancellationToken;
use volume_warden::{
    admission::{self, Answer, Hook, Limits, PathSecret, Review, Rule, SecretPaths},
    clock::Clock,
    telemetry::Metrics,
    tls::{Mounted, ServingCertificate, Source, install_crypto},
};

/// Far longer than any step takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);
const NEVER: Duration = Duration::from_secs(3600);
/// A limit of the server that a test waits for.
pub const SHORT: Duration = Duration::from_millis(200);
/// A limit of the server that does not expire before the first steps of a test are done.
pub const MODERATE: Duration = Duration::from_secs(5);
pub const HTTP1: &[u8] = b"http/1.1";
/// The address from which clients connect by default.
pub const LOCALHOST: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// Limits that no test reaches, without a lame-duck period.
pub const UNLIMITED: Limits = Limits {
    connections: 16,
    unauthenticated: 16,
    unauthenticated_timeout: NEVER,
    trusted_timeout: NEVER,
    unauthenticated_bytes: usize::MAX,
    idle: NEVER,
    lame_duck: Duration::ZERO,
    drain: NEVER,
};

/// The output of `future`. Fails after 30 seconds.
pub async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, future)
        .await
        .expect("completes within the timeout")
}

/// A server with the hooks `/allow`, which allows, `/panic`, which panics, and `/silent`, which
/// never answers.
pub struct TestServer {
    pub address: SocketAddr,
    pub serving: ServingCertificate,
    pub metrics: Arc<Metrics>,
    /// The prefix of the published paths.
    pub secret: PathSecret,
    pub paths: SecretPaths,
    /// Notified when the review of the hook that never answers begins.
    pub unanswered: Arc<Notify>,
    pub stop: CancellationToken,
    pub ended: JoinHandle<()>,
}

impl TestServer {
    pub async fn without_certificate(limits: Limits) -> Self {
        install_crypto();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listens");
        let address = listener.local_addr().expect("an address");
        let (metrics, stop) = (Arc::new(Metrics::new()), CancellationToken::new());
        let serving = ServingCertificate::new(&metrics, Clock::system());
        let options = admission::Options {
            dry_run: false,
            longest_timeout: Some(NEVER),
            metrics: metrics.clone(),
        };
        let unanswered = Arc::<Notify>::default();
        let silent = Hook {
            review: Review::with_calls(&unanswered, |begun, _| async move {
                begun.notify_one();
                std::future::pending().await
            }),
            ..hook("/silent")
        };
        let hooks = vec![hook("/allow"), hook("/panic"), silent];
        let app = admission::router(hooks, &options);
        let secret = PathSecret::generate().expect("random numbers");
        let paths = SecretPaths::default();
        paths.accept(vec![secret.clone()], false);
        let serve = admission::serve(
            listener,
            serving.certificate.clone(),
            app,
            paths.clone(),
            limits,
            metrics.clone(),
            stop.clone(),
        );
        Self {
            address,
            serving,
            metrics,
            secret,
            paths,
            unanswered,
            stop,
            ended: tokio::spawn(serve),
        }
    }

    /// Starts a server with a certificate, and returns it with a client configuration that trusts
    /// the certificate.
    pub async fn start(limits: Limits) -> (Self, ClientConfig) {
        let server = Self::without_certificate(limits).await;
        let trust = server.renew().await;
        (server, trust)
    }

    /// Installs a new certificate, and returns a configuration that trusts only that certificate.
    pub async fn renew(&self) -> ClientConfig {
        let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a pair");
        let directory = tempfile::tempdir().expect("a directory");
        let files = Mounted {
            certificate: directory.path().join("tls.crt"),
            key: directory.path().join("tls.key"),
        };
        std::fs::write(&files.certificate, issued.cert.pem()).expect("writes");
        std::fs::write(&files.key, issued.signing_key.serialize_pem()).expect("writes");
        let loaded = files.load(&self.serving).await;
        loaded.expect("is served");
        let mut roots = RootCertStore::empty();
        roots.add(issued.cert.der().clone()).expect("a root");
        ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth()
    }

    pub async fn tcp(&self) -> io::Result<TcpStream> {
        self.tcp_from(LOCALHOST).await
    }

    /// Connects from any address of the loopback interface.
    pub async fn tcp_from(&self, address: Ipv4Addr) -> io::Result<TcpStream> {
        connect_from(address, self.address).await
    }

    pub async fn tls(&self, trust: &ClientConfig, protocol: &[u8]) -> io::Result<Tls> {
        self.tls_over(self.tcp().await?, trust, protocol).await
    }

    pub async fn tls_over(
        &self,
        tcp: TcpStream,
        trust: &ClientConfig,
        protocol: &[u8],
    ) -> io::Result<Tls> {
        let mut config = trust.clone();
        config.alpn_protocols = vec![protocol.to_vec()];
        let name = ServerName::try_from("localhost").expect("a name");
        let connector = TlsConnector::from(Arc::new(config));
        let tls = in_time(connector.connect(name, tcp)).await?;
        assert_eq!(tls.get_ref().1.alpn_protocol(), Some(protocol));
        Ok(tls)
    }

    /// Waits until a connection without a secret path is counted, and returns how many ended with
    /// `outcome`.
    pub async fn ended_as(&self, outcome: &str) -> u64 {
        let line = format!(
            "volume_warden_admission_unauthenticated_connections_total{{outcome=\"{outcome}\"}} "
        );
        in_time(async {
            loop {
                let text = self.metrics.text();
                let mut counts = text.lines().filter_map(|each| each.strip_prefix(&line));
                if let Some(count) = counts.next() {
                    return count.parse().expect("a number");
                }
                tokio::task::yield_now().await;
            }
        })
        .await
    }

    /// Whether the server answers a review of a new connection. The review is needed because in TLS
    /// 1.3 a client learns only after the handshake that the server refuses its certificate.
    pub async fn answers(&self, trust: &ClientConfig) -> bool {
        let Ok(mut tls) = self.tls(trust, HTTP1).await else {
            return false;
        };
        let (body, mut answer) = (review(), Vec::new());
        let head = format!(
            "POST {} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            self.secret.path("/allow"),
            body.len()
        );
        let written = tls.write_all(&[head.as_bytes(), &body].concat()).await;
        let read = in_time(tls.read_to_end(&mut answer)).await;
        written.is_ok() && read.is_ok() && answer.starts_with(b"HTTP/1.1 200")
    }

    pub async fn client(&self, trust: &ClientConfig) -> Client {
        let tls = self
            .tls(trust, HTTP1)
            .await
            .expect("completes the TLS handshake");
        let (sender, connection) = http1::handshake(TokioIo::new(tls))
            .await
            .expect("completes the HTTP handshake");
        let closed = tokio::spawn(async move { drop(connection.await) });
        Client {
            sender,
            closed,
            secret: self.secret.clone(),
        }
    }
}

/// Connects to `server` from any address of the loopback interface.
pub async fn connect_from(address: Ipv4Addr, server: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((address, 0).into())?;
    in_time(socket.connect(server)).await
}

pub type Tls = TlsStream<TcpStream>;

fn hook(path: &'static str) -> Hook {
    let rules = &[Rule("CREATE", "pods")];
    Hook {
        path,
        rules,
        timeout: SHORT,
        review: Review::from_memory(move |_| match path {
            "/panic" => unreachable!("on purpose"),
            _ => Ok(Answer::Allow),
        }),
    }
}

/// One HTTP/1.1 connection.
pub struct Client {
    sender: http1::SendRequest<Full<Bytes>>,
    closed: JoinHandle<()>,
    secret: PathSecret,
}

impl Client {
    pub async fn post(&mut self, hook: &str, body: Bytes) -> Response<Bytes> {
        in_time(self.sender.ready()).await.expect("is open");
        let request = post(&self.secret.path(hook), body);
        let answer = in_time(self.sender.send_request(request)).await;
        with_whole_body(answer.expect("is answered")).await
    }

    pub async fn review(&mut self) -> Response<Bytes> {
        let answer = self.post("/allow", review()).await;
        assert_eq!(response_of(&answer)["allowed"], true);
        answer
    }

    /// Waits until the server has closed the connection.
    pub async fn closed(self) {
        in_time(self.closed).await.expect("no panic");
    }
}

pub fn post(uri: &str, body: Bytes) -> Request<Full<Bytes>> {
    let request = Request::post(uri).header("host", "localhost");
    request.body(Full::new(body)).expect("a request")
}

pub fn review() -> Bytes {
    let request =
        json!({"uid": "u", "operation": "CREATE", "resource": {"group": "", "resource": "pods"}});
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
        .to_string()
        .into()
}

pub async fn with_whole_body(answer: Response<hyper::body::Incoming>) -> Response<Bytes> {
    let (head, body) = answer.into_parts();
    let body = in_time(body.collect()).await.expect("a body").to_bytes();
    Response::from_parts(head, body)
}

pub fn response_of(answer: &Response<Bytes>) -> Value {
    let mut review: Value = serde_json::from_slice(answer.body()).expect("a review");
    assert_eq!(review["response"]["uid"], "u");
    review["response"].take()
}

/// Waits until the server has closed the connection, with or without a TLS close_notify.
pub async fn wait_for_close(mut connection: impl AsyncReadExt + Unpin) {
    let mut ignored = Vec::new();
    let _ = in_time(connection.read_to_end(&mut ignored)).await;
}

/// Sends the head of a review, and waits until the server requests the body.
pub async fn half_sent_review(server: &TestServer, trust: &ClientConfig) -> Tls {
    let mut tls = server
        .tls(trust, HTTP1)
        .await
        .expect("completes the TLS handshake");
    let head = format!(
        "POST {}?timeout=30s HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        server.secret.path("/allow"),
        review().len()
    );
    tls.write_all(head.as_bytes()).await.expect("writes");
    let mut response = [0; 25];
    in_time(tls.read_exact(&mut response)).await.expect("reads");
    assert_eq!(&response, b"HTTP/1.1 100 Continue\r\n\r\n");
    tls
}

/// The head of a review whose body has `length` bytes.
pub fn head(path: &str, length: usize) -> Vec<u8> {
    format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n").into()
}

/// Reads until the server closes the connection.
pub async fn read_until_closed(mut connection: impl AsyncReadExt + Unpin) -> String {
    let mut received = Vec::new();
    let _ = in_time(connection.read_to_end(&mut received)).await;
    String::from_utf8(received).expect("text")
}
