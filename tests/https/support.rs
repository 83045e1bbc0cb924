//! A server on a free port, and clients for it.

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

const PATIENCE: Duration = Duration::from_secs(30);
const NEVER: Duration = Duration::from_secs(3600);
/// A time limit that a test waits for.
pub const SHORT: Duration = Duration::from_millis(200);
/// A time limit within which a test first performs a step.
pub const MODERATE: Duration = Duration::from_secs(5);
pub const HTTP1: &[u8] = b"http/1.1";
/// The default client address.
pub const LOCALHOST: Ipv4Addr = Ipv4Addr::LOCALHOST;

pub const UNLIMITED: Limits = Limits {
    connections: 16,
    strangers: 16,
    stranger_time: NEVER,
    stranger_bytes: usize::MAX,
    idle: NEVER,
    lame_duck: Duration::ZERO,
    drain: NEVER,
};

pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("in time")
}

/// A server with one hook that allows, one that panics, and one that never answers.
pub struct Site {
    pub address: SocketAddr,
    pub serving: ServingCertificate,
    pub metrics: Arc<Metrics>,
    /// The prefix of the published paths.
    pub secret: PathSecret,
    pub paths: SecretPaths,
    /// Notified when a review begins that is never answered.
    pub unanswered: Arc<Notify>,
    pub stop: CancellationToken,
    pub ended: JoinHandle<()>,
}

impl Site {
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
            review: Review::asking(&unanswered, |begun, _| async move {
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
        let server = admission::serve(
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
            ended: tokio::spawn(server),
        }
    }

    pub async fn open(limits: Limits) -> (Self, ClientConfig) {
        let site = Self::without_certificate(limits).await;
        let trust = site.renew().await;
        (site, trust)
    }

    /// Installs a new certificate, and returns a configuration that trusts only that certificate.
    pub async fn renew(&self) -> ClientConfig {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a pair");
        let directory = tempfile::tempdir().expect("a directory");
        let files = Mounted {
            certificate: directory.path().join("tls.crt"),
            key: directory.path().join("tls.key"),
        };
        std::fs::write(&files.certificate, made.cert.pem()).expect("writes");
        std::fs::write(&files.key, made.signing_key.serialize_pem()).expect("writes");
        let loaded = files.load(&self.serving).await;
        loaded.expect("is served");
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).expect("a root");
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
        let tls = soon(connector.connect(name, tcp)).await?;
        assert_eq!(tls.get_ref().1.alpn_protocol(), Some(protocol));
        Ok(tls)
    }

    /// Waits until a connection without a secret path is counted, and returns how many ended with
    /// `outcome`.
    pub async fn ended_as(&self, outcome: &str) -> u64 {
        let line = format!(
            "volume_warden_admission_unauthenticated_connections_total{{outcome=\"{outcome}\"}} "
        );
        soon(async {
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

    /// Whether a review is answered. In TLS 1.3 a client learns of a refusal only after the
    /// handshake.
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
        let read = soon(tls.read_to_end(&mut answer)).await;
        written.is_ok() && read.is_ok() && answer.starts_with(b"HTTP/1.1 200")
    }

    pub async fn client(&self, trust: &ClientConfig) -> Client {
        let tls = self.tls(trust, HTTP1).await.expect("shakes hands");
        let (sender, connection) = http1::handshake(TokioIo::new(tls)).await.expect("speaks");
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
    soon(socket.connect(server)).await
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
        soon(self.sender.ready()).await.expect("is open");
        let request = post(&self.secret.path(hook), body);
        let answer = soon(self.sender.send_request(request)).await;
        whole(answer.expect("is answered")).await
    }

    pub async fn review(&mut self) -> Response<Bytes> {
        let answer = self.post("/allow", review()).await;
        assert_eq!(response_of(&answer)["allowed"], true);
        answer
    }

    /// Checks that the server has closed the connection.
    pub async fn closed(self) {
        soon(self.closed).await.expect("no panic");
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

pub async fn whole(answer: Response<hyper::body::Incoming>) -> Response<Bytes> {
    let (head, body) = answer.into_parts();
    let body = soon(body.collect()).await.expect("a body").to_bytes();
    Response::from_parts(head, body)
}

pub fn response_of(answer: &Response<Bytes>) -> Value {
    let mut review: Value = serde_json::from_slice(answer.body()).expect("a review");
    assert_eq!(review["response"]["uid"], "u");
    review["response"].take()
}

/// Checks that the server has closed the connection, with or without a TLS close_notify.
pub async fn cut(mut connection: impl AsyncReadExt + Unpin) {
    let mut rest = Vec::new();
    let _ = soon(connection.read_to_end(&mut rest)).await;
}

/// A review of which the server has read the head and asked for the body.
pub async fn half_sent_review(site: &Site, trust: &ClientConfig) -> Tls {
    let mut tls = site.tls(trust, HTTP1).await.expect("shakes hands");
    let head = format!(
        "POST {}?timeout=30s HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        site.secret.path("/allow"),
        review().len()
    );
    tls.write_all(head.as_bytes()).await.expect("writes");
    let mut go_on = [0; 25];
    soon(tls.read_exact(&mut go_on)).await.expect("reads");
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    tls
}

/// The head of a review whose body has `length` bytes.
pub fn head(path: &str, length: usize) -> Vec<u8> {
    format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n").into()
}

/// Reads until the server closes the connection.
pub async fn rest(mut connection: impl AsyncReadExt + Unpin) -> String {
    let mut rest = Vec::new();
    let _ = soon(connection.read_to_end(&mut rest)).await;
    String::from_utf8(rest).expect("text")
}
