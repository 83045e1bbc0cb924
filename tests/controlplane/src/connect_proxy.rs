//! Replaces kube-proxy: the API server sends an HTTP CONNECT for a Service's cluster IP to a unix
//! socket, and is connected to a process on loopback.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use anyhow::{Context, Result};

use crate::services::Services;
use crate::util::lock;

/// Larger than any CONNECT of the API server.
const HEAD_LIMIT: u64 = 16 * 1024;

/// The backends of each Service, for the API server's webhook calls.
#[derive(Debug, Clone)]
pub struct Webhooks {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    services: Services,
    backends: Mutex<HashMap<String, Vec<u16>>>,
    connections: AtomicUsize,
    skipped: AtomicUsize,
    turn: AtomicUsize,
}

impl Webhooks {
    /// Makes these ports on loopback the backends of `service`, `name.namespace.svc`, in place of
    /// earlier ones. They are used in turn; a backend that refuses the connection is skipped.
    pub fn serve(&self, service: &str, ports: Vec<u16>) {
        lock(&self.shared.backends).insert(service.to_owned(), ports);
    }

    /// The number of connections that the API server has requested so far.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// The number of connections that a backend refused, so that the proxy tried the next one.
    /// kube-proxy would not try the next one.
    pub fn skipped(&self) -> usize {
        self.shared.skipped.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, service: &str, port: u16) {
        lock(&self.shared.backends)
            .entry(service.to_owned())
            .or_default()
            .push(port);
    }

    pub(crate) fn remove(&self, service: &str, port: u16) {
        if let Some(ports) = lock(&self.shared.backends).get_mut(service) {
            ports.retain(|&other| other != port);
        }
    }

    fn new(config: kube::Config) -> Self {
        let shared = Shared {
            services: Services::new(config),
            backends: Mutex::default(),
            connections: AtomicUsize::new(0),
            skipped: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    fn connect(&self, host: &str) -> Result<TcpStream> {
        let service = self.shared.services.name(host)?;
        let mut ports = lock(&self.shared.backends)
            .get(&service)
            .cloned()
            .unwrap_or_default();
        let turn = self.shared.turn.fetch_add(1, Ordering::Relaxed);
        let first = turn % ports.len().max(1);
        ports.rotate_left(first);
        let mut streams = ports.into_iter().filter_map(|port| self.reach(port));
        streams
            .next()
            .with_context(|| format!("no process answers for {service}"))
    }

    fn reach(&self, port: u16) -> Option<TcpStream> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok();
        let skipped = usize::from(stream.is_none());
        self.shared.skipped.fetch_add(skipped, Ordering::Relaxed);
        stream
    }

    fn join(&self, client: &UnixStream) -> io::Result<()> {
        let mut reader = BufReader::new(client);
        let host = read_connect(&mut reader)?;
        self.shared.connections.fetch_add(1, Ordering::Relaxed);
        let upstream = match self.connect(&host) {
            Ok(upstream) => upstream,
            // The API server includes the status line in its own message.
            Err(error) => {
                return write!(
                    &mut &*client,
                    "HTTP/1.1 502 {error:#}\r\nContent-Length: 0\r\n\r\n"
                );
            }
        };
        upstream.set_nodelay(true)?;
        let mut answers = client;
        answers.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
        thread::scope(|scope| {
            scope.spawn(|| {
                copy(&mut &upstream, &mut &*client, || {
                    client.shutdown(Shutdown::Both)
                })
            });
            copy(&mut reader, &mut &upstream, || {
                upstream.shutdown(Shutdown::Write)
            });
        });
        Ok(())
    }
}

/// Copies until one side ends, and then shuts down the other.
fn copy(from: &mut impl Read, to: &mut impl Write, end: impl FnOnce() -> io::Result<()>) {
    // A broken connection counts as ended.
    let _ = io::copy(from, to);
    let _ = end();
}

/// Reads the head of a CONNECT and returns its host, without the port.
fn read_connect(reader: &mut impl BufRead) -> io::Result<String> {
    let mut head = reader.take(HEAD_LIMIT).lines();
    let first = head
        .next()
        .unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()))?;
    for line in head {
        if line?.is_empty() {
            break;
        }
    }
    let target = first
        .strip_prefix("CONNECT ")
        .and_then(|rest| rest.split_whitespace().next());
    let host = target
        .and_then(|target| target.rsplit_once(':'))
        .map(|(host, _port)| host.to_owned());
    host.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("not a CONNECT: {first}"),
        )
    })
}

/// Accepts on the unix socket until it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectProxy {
    webhooks: Webhooks,
    socket: PathBuf,
    closed: Arc<AtomicBool>,
}

impl ConnectProxy {
    /// Starts the proxy. It looks up Services with `config`.
    pub(crate) fn start(socket: &Path, config: kube::Config) -> Result<Self> {
        let listener = UnixListener::bind(socket).with_context(|| {
            format!(
                "listening on {}; the path of a socket must have less than 108 bytes: set TMPDIR",
                socket.display()
            )
        })?;
        let proxy = Self {
            webhooks: Webhooks::new(config),
            socket: socket.to_owned(),
            closed: Arc::default(),
        };
        let (webhooks, closed) = (proxy.webhooks.clone(), Arc::clone(&proxy.closed));
        let name = "connect-proxy".to_owned();
        thread::Builder::new()
            .name(name)
            .spawn(move || accept(&listener, &webhooks, &closed))?;
        Ok(proxy)
    }

    pub(crate) fn webhooks(&self) -> &Webhooks {
        &self.webhooks
    }
}

impl Drop for ConnectProxy {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let _ = UnixStream::connect(&self.socket);
    }
}

fn accept(listener: &UnixListener, webhooks: &Webhooks, closed: &AtomicBool) {
    for client in listener.incoming().flatten() {
        if closed.load(Ordering::Relaxed) {
            return;
        }
        let webhooks = webhooks.clone();
        // The API server reports a failed connection.
        thread::spawn(move || webhooks.join(&client));
    }
}
