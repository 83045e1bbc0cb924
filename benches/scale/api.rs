//! Serves the model of the API server on a TCP port.

use anyhow::Result;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{rt::TokioIo, server::conn::auto::Builder};
use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use time::OffsetDateTime;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};
use volume_warden_apiserver_model::{ApiServer, Body, Settings, User, Version};

/// An API server without TLS.
pub struct Api {
    pub server: ApiServer,
    pub address: SocketAddr,
    counts: Arc<Counts>,
    /// Whether the server accepts connections.
    here: Arc<watch::Sender<bool>>,
}

/// The numbers of requests so far. Pages after the first do not count as LISTs.
#[derive(Default)]
struct Counts {
    pods: AtomicUsize,
    lists: AtomicUsize,
    watches: AtomicUsize,
}

impl Api {
    pub async fn start() -> Result<Self> {
        let server = ApiServer::new(Settings {
            version: Version::V1_34,
            seed: 1,
            clock: Arc::new(OffsetDateTime::now_utc),
            longest_page: 0,
            in_tree_protection: false,
        });
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let api = Self {
            server,
            address: listener.local_addr()?,
            counts: Arc::default(),
            here: Arc::new(watch::Sender::new(true)),
        };
        tokio::spawn(accept(
            listener,
            api.server.clone(),
            api.counts.clone(),
            api.here.clone(),
        ));
        Ok(api)
    }

    /// The number of LISTs of pods.
    pub fn lists(&self) -> usize {
        self.counts.pods.load(Ordering::Relaxed)
    }

    /// The number of LISTs of any kind.
    pub fn all_lists(&self) -> usize {
        self.counts.lists.load(Ordering::Relaxed)
    }

    /// The number of watches that were started.
    pub fn watches(&self) -> usize {
        self.counts.watches.load(Ordering::Relaxed)
    }

    /// Closes all existing and new connections for this time.
    pub async fn away(&self, time: Duration) {
        self.here.send_replace(false);
        tokio::time::sleep(time).await;
        self.here.send_replace(true);
    }
}

async fn accept(
    listener: TcpListener,
    server: ApiServer,
    counts: Arc<Counts>,
    here: Arc<watch::Sender<bool>>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        if *here.borrow() {
            tokio::spawn(serve(
                stream,
                server.clone(),
                counts.clone(),
                here.subscribe(),
            ));
        }
    }
}

async fn serve(
    stream: TcpStream,
    server: ApiServer,
    counts: Arc<Counts>,
    mut here: watch::Receiver<bool>,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let (server, counts) = (server.clone(), counts.clone());
        async move {
            counts.count(&request);
            Ok::<_, Infallible>(answer(&server, request).await)
        }
    });
    let builder = Builder::new(hyper_util::rt::TokioExecutor::new());
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        // A client that closes its connection is not an error.
        _ = connection => {}
        _ = here.wait_for(|here| !here) => {}
    }
}

async fn answer(server: &ApiServer, request: Request<Incoming>) -> Response<Body> {
    let account = "system:serviceaccount:volume-warden:volume-warden";
    let user = User {
        name: account.to_owned(),
        groups: vec!["system:serviceaccounts".to_owned()],
    };
    let (parts, body) = request.into_parts();
    let body = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => Bytes::new(),
    };
    server.handle(&user, Request::from_parts(parts, body)).await
}

impl Counts {
    fn count(&self, request: &Request<Incoming>) {
        let query = request.uri().query().unwrap_or_default();
        let add = |count: &AtomicUsize| count.fetch_add(1, Ordering::Relaxed);
        if query.contains("watch=true") {
            add(&self.watches);
        } else if request.method() == Method::GET
            && query.contains("limit=")
            && !query.contains("continue=")
        {
            add(&self.lists);
            if request.uri().path().ends_with("/pods") {
                add(&self.pods);
            }
        }
    }
}
