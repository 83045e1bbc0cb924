//! Attacks by a pod that does not know a secret path. All traffic stays on the loopback interface,
//! from addresses other than the API server's.

use rustls::{
    ClientConfig, DigitallySignedStruct, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::ring,
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use std::{
    collections::VecDeque,
    io,
    net::Ipv4Addr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    task::JoinSet,
    time::{Instant, sleep, timeout_at},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

/// Concurrent clients, each with its own address.
const CLIENTS: u8 = 64;
/// Connections that all clients hold together, including those that the server has closed.
const HELD: usize = 10_000;
/// Bodies that are sent at once to each path.
const BODIES: usize = 64;
const BODY: usize = 8 << 20;
/// Hooks that a client can know, because they are documented.
pub const HOOKS: [&str; 14] = [
    "/pvc-protection/claims",
    "/pvc-protection/pods",
    "/pvc-protection/bindings",
    "/pvc-protection/deletions",
    "/pv-protection/volumes",
    "/pv-protection/bind",
    "/pv-protection/deletions",
    "/pvc-retention/claims",
    "/pvc-retention/marks",
    "/pvc-provisioner/pods",
    "/pvc-provisioner/marks",
    "/pv-releaser/volumes",
    "/pvc-trash/volumes",
    "/pvc-trash/claims",
];
/// A path of the same form as the secret one.
pub const GUESS: &str = "/0000000000000000000000000000000000000000000000000000000000000000";

/// A way to exhaust a resource of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// Connects and sends nothing, repeatedly.
    Connections,
    /// Keeps as many idle connections as the server permits, some with a TLS handshake, on every
    /// port.
    Idle,
    /// Completes TLS handshakes, repeatedly.
    Handshakes,
    /// Sends the head of a request byte by byte.
    SlowHeads,
    /// Sends large bodies to every path.
    Bodies,
    /// Sends the head of a review without its body, to every path.
    SlowBodies,
    /// Sends HTTP/2.
    Http2,
}

impl Attack {
    pub const ALL: [Self; 7] = [
        Self::Connections,
        Self::Idle,
        Self::Handshakes,
        Self::SlowHeads,
        Self::Bodies,
        Self::SlowBodies,
        Self::Http2,
    ];
}

/// The ports of a Volume Warden that a pod of the cluster can reach.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    pub webhooks: u16,
    pub metrics: u16,
}

/// Clients that attack until `end`.
#[derive(Clone)]
pub struct Outsiders {
    ports: Ports,
    /// The beginning of every path.
    prefix: Arc<str>,
    end: Instant,
    connections: Arc<AtomicUsize>,
}

impl Outsiders {
    /// Attacks for `time`, and returns how many connections were opened. Paths begin with
    /// `prefix`: [`GUESS`], or a leaked secret.
    pub async fn attack(ports: Ports, prefix: String, attack: Attack, time: Duration) -> usize {
        let outsiders = Self {
            ports,
            prefix: prefix.into(),
            end: Instant::now() + time,
            connections: Arc::default(),
        };
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS {
            let client = Client {
                outsiders: outsiders.clone(),
                address: Ipv4Addr::new(127, 0, 1, number + 1),
            };
            clients.spawn(client.run(attack));
        }
        while clients.join_next().await.is_some() {}
        outsiders.connections.load(Ordering::Relaxed)
    }
}

#[derive(Clone)]
struct Client {
    outsiders: Outsiders,
    address: Ipv4Addr,
}

impl Client {
    async fn run(self, attack: Attack) {
        match attack {
            Attack::Connections => self.connections().await,
            Attack::Bodies | Attack::SlowBodies => self.bodies(attack == Attack::Bodies).await,
            _ => {
                while !self.is_over() {
                    let once = timeout_at(self.outsiders.end, self.once(attack)).await;
                    if !matches!(once, Ok(Ok(()))) {
                        // The server refused, or this machine has no free port or file.
                        sleep(Duration::from_millis(1)).await;
                    }
                }
            }
        }
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.outsiders.end
    }

    async fn connections(self) {
        let most = held() / usize::from(CLIENTS);
        let mut held = VecDeque::new();
        while !self.is_over() {
            for port in [self.outsiders.ports.webhooks, self.outsiders.ports.metrics] {
                if let Ok(Ok(tcp)) = timeout_at(self.outsiders.end, self.tcp(port)).await {
                    held.push_back(tcp);
                }
            }
            while held.len() > most {
                held.pop_front();
            }
        }
    }

    async fn once(&self, attack: Attack) -> io::Result<()> {
        let ports = self.outsiders.ports;
        match attack {
            Attack::Handshakes => self.tls(&[b"http/1.1"]).await.map(drop),
            Attack::SlowHeads => {
                let mut tls = self.tls(&[b"http/1.1"]).await?;
                let head = format!(
                    "POST {GUESS} HTTP/1.1\r\nhost: x\r\nx: {}",
                    "x".repeat(9999)
                );
                for byte in head.as_bytes() {
                    tls.write_all(&[*byte]).await?;
                    sleep(Duration::from_millis(20)).await;
                }
                Ok(())
            }
            Attack::Http2 => {
                // Refused by ALPN.
                let _ = self.tls(&[b"h2"]).await;
                let mut tls = self.tls(&[b"http/1.1"]).await?;
                tls.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await?;
                until_closed(&mut tls).await
            }
            _ => {
                let mut idle = Vec::new();
                for _ in 0..8 {
                    idle.push(self.tcp(ports.webhooks).await?);
                    idle.push(self.tcp(ports.metrics).await?);
                }
                let mut tls = self.tls(&[b"http/1.1"]).await?;
                until_closed(&mut tls).await
            }
        }
    }

    /// Divides the bodies of all paths among the clients.
    async fn bodies(self, whole: bool) {
        let mut senders = JoinSet::new();
        for number in 0..BODIES * HOOKS.len() / usize::from(CLIENTS) {
            let client = self.clone();
            let hook = HOOKS[(number + usize::from(self.address.octets()[3])) % HOOKS.len()];
            senders.spawn(async move {
                while !client.is_over() {
                    let sent = client.body(hook, whole);
                    if !matches!(timeout_at(client.outsiders.end, sent).await, Ok(Ok(()))) {
                        sleep(Duration::from_millis(1)).await;
                    }
                }
            });
        }
        while senders.join_next().await.is_some() {}
    }

    async fn body(&self, hook: &str, whole: bool) -> io::Result<()> {
        let mut tls = self.tls(&[b"http/1.1"]).await?;
        let (prefix, review) = (&self.outsiders.prefix, review(hook));
        let length = review.len();
        let head = format!(
            "POST {prefix}{hook}?timeout=2s HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             content-length: {length}\r\n\r\n"
        );
        tls.write_all(head.as_bytes()).await?;
        tls.write_all(&review[..if whole { length } else { 1 }])
            .await?;
        until_closed(&mut tls).await
    }

    async fn tcp(&self, port: u16) -> io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind((self.address, 0).into())?;
        let tcp = socket.connect((Ipv4Addr::LOCALHOST, port).into()).await?;
        self.outsiders.connections.fetch_add(1, Ordering::Relaxed);
        Ok(tcp)
    }

    async fn tls(&self, protocols: &[&[u8]]) -> io::Result<TlsStream<TcpStream>> {
        let tcp = self.tcp(self.outsiders.ports.webhooks).await?;
        let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
        connector(protocols).connect(name, tcp).await
    }
}

/// A review of the maximum size that a body may have.
fn review(hook: &str) -> &'static [u8] {
    static REVIEWS: [OnceLock<Vec<u8>>; 3] = [const { OnceLock::new() }; 3];
    let (slot, resource) = match hook {
        _ if hook.starts_with("/pv-") => (0, "persistentvolumes"),
        _ if hook.ends_with("/pods") => (1, "pods"),
        _ => (2, "persistentvolumeclaims"),
    };
    REVIEWS[slot].get_or_init(|| {
        let head = format!(
            r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"u","namespace":"n",
            "name":"n","operation":"CREATE","resource":{{"group":"","version":"v1","resource":"{resource}"}},
            "object":{{"metadata":{{"namespace":"n","name":"n","annotations":{{"a":""#
        );
        let tail = r#""}}}}}"#;
        let filling = "x".repeat(BODY - head.len() - tail.len());
        [head, filling, tail.to_owned()].concat().into_bytes()
    })
}

/// Connections that this process may hold: half of its open files at most.
fn held() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let files = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"));
    let soft = files.and_then(|files| files.split_whitespace().next()?.parse().ok());
    HELD.min(soft.unwrap_or(1024usize) / 2)
}

async fn until_closed(stream: &mut TlsStream<TcpStream>) -> io::Result<()> {
    let mut rest = [0; 1024];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}

/// A connector that accepts any certificate.
pub fn connector(protocols: &[&[u8]]) -> TlsConnector {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map(|builder| {
            let dangerous = builder.dangerous();
            let config = dangerous.with_custom_certificate_verifier(Arc::new(Careless));
            config.with_no_client_auth()
        });
    let mut config = config.expect("ring knows the default versions");
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    TlsConnector::from(Arc::new(config))
}

/// Accepts any certificate.
#[derive(Debug)]
struct Careless;

impl ServerCertVerifier for Careless {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}
