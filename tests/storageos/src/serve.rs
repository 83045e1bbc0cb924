//! Connections and their faults.

use crate::{
    Endpoint, Fault, Request, Shared,
    api::{authorization, raw},
    lock,
};
use anyhow::Result;
use axum::{
    Router,
    body::{Body, Bytes},
    http::{self, Response},
};
use futures::{StreamExt, stream};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use std::{convert::Infallible, future::pending, io, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// The time between two chunks of a slow body.
const SLOW: Duration = Duration::from_millis(20);

#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) router: Router,
    pub(crate) state: Shared,
    pub(crate) acceptor: Option<TlsAcceptor>,
}

/// Serves until `stop`; then every connection is dropped.
pub(crate) async fn accept(listener: TcpListener, site: Site, stop: CancellationToken) {
    let serving = async {
        loop {
            if let Ok((stream, _)) = listener.accept().await {
                let (site, stop) = (site.clone(), stop.clone());
                tokio::spawn(
                    async move { stop.run_until_cancelled(connection(stream, site)).await },
                );
            }
        }
    };
    stop.run_until_cancelled::<_>(serving).await.unwrap_or(())
}

async fn connection(stream: TcpStream, site: Site) {
    match site.acceptor.clone() {
        None => speak(stream, site).await,
        Some(acceptor) => {
            if let Ok(stream) = acceptor.accept(stream).await {
                speak(stream, site).await;
            }
        }
    }
}

async fn speak(stream: impl AsyncRead + AsyncWrite + Unpin, site: Site) {
    let service = service_fn(|request| {
        let site = site.clone();
        async move { site.answer(request).await }
    });
    // The client observes every result.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

impl Site {
    /// An error drops the connection.
    async fn answer(&self, request: http::Request<Incoming>) -> Result<Response<Body>> {
        let (parts, body) = request.into_parts();
        let endpoint = Endpoint::of(parts.method.as_str(), parts.uri.path());
        let fault = {
            let mut state = lock(&self.state);
            state.requests.push(Request {
                endpoint,
                target: parts.uri.to_string(),
                authorization: authorization(&parts.headers).map(str::to_owned),
            });
            state.faults.take(endpoint)
        };
        // The whole request is read before it is processed.
        let body = axum::body::to_bytes(Body::new(body), 1 << 20).await?;
        let request = http::Request::from_parts(parts, Body::from(body));
        self.spoiled(fault, request).await
    }

    async fn spoiled(
        &self,
        fault: Option<Arc<Fault>>,
        request: http::Request<Body>,
    ) -> Result<Response<Body>> {
        let done = || async {
            let Ok::<_, Infallible>(answer) = self.router.clone().oneshot(request).await;
            answer
        };
        let Some(fault) = fault else {
            return Ok(done().await);
        };
        match &*fault {
            Fault::Answer(status, body) => Ok(raw(*status, body.clone().into())),
            Fault::Redirect(status, to) => {
                let mut answer = raw(*status, Body::empty());
                answer
                    .headers_mut()
                    .insert(http::header::LOCATION, to.parse()?);
                Ok(answer)
            }
            Fault::CutBefore => anyhow::bail!("cut"),
            Fault::CutAfter => {
                done().await;
                anyhow::bail!("cut")
            }
            Fault::CutBody => Ok(raw(done().await.status().as_u16(), broken())),
            Fault::Silence => {
                done().await;
                pending().await
            }
            Fault::SlowBody(status) => Ok(raw(*status, endless(SLOW, b" "))),
            Fault::EndlessBody(status) => {
                Ok(raw(*status, endless(Duration::ZERO, &[b' '; 1 << 16])))
            }
            Fault::Body(body) => Ok(raw(done().await.status().as_u16(), body.clone().into())),
        }
    }
}

/// The beginning of a list.
fn broken() -> Body {
    let begins = Ok(Bytes::from_static(b"[{\"id\": \"x\", \"na"));
    let breaks = Err(io::Error::other("cut"));
    // Data that is sent together with the end of a connection may be lost.
    let slowly = stream::iter([begins, breaks]).then(|piece| async {
        tokio::time::sleep(SLOW).await;
        piece
    });
    Body::from_stream(slowly)
}

fn endless(pause: Duration, piece: &'static [u8]) -> Body {
    Body::from_stream(
        stream::repeat(Bytes::from_static(piece)).then(move |piece| async move {
            tokio::time::sleep(pause).await;
            Ok::<_, Infallible>(piece)
        }),
    )
}
