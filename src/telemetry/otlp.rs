//! Traces by OTLP over HTTP, with a span for each review and each reconcile. They require the cargo
//! feature `otlp`, and are sent only if an OpenTelemetry environment variable names a collector.

use super::logs::{self, Format};
use anyhow::Context;
use async_trait::async_trait;
use http::{Request, Response};
use hyper::body::Bytes;
use opentelemetry::trace::TracerProvider;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig};
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use std::{ffi::OsString, time::Duration};
use tokio::runtime::Handle;
use tracing::Subscriber;
use tracing_subscriber::{
    Layer,
    filter::{LevelFilter, Targets},
    layer::SubscriberExt,
    registry::LookupSpan,
    util::SubscriberInitExt,
};

const VARIABLES: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
];
/// Time limit of each request to the collector, and of sending the remaining spans at the end, so
/// that a collector that is down does not delay the end of the process.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends the remaining spans when dropped.
#[derive(Debug)]
pub struct Traces(Option<SdkTracerProvider>);

impl Drop for Traces {
    fn drop(&mut self) {
        let Some(provider) = &self.0 else { return };
        if let Err(error) = provider.shutdown_with_timeout(EXPORT_TIMEOUT) {
            tracing::warn!(%error, "not all traces were sent");
        }
    }
}

/// Starts logging, and tracing if a collector is configured. Spans are sent by the runtime until
/// the result is dropped.
///
/// # Errors
/// When the exporter cannot be created, for example because an environment variable is invalid.
pub fn init(format: Format, runtime: &Handle) -> anyhow::Result<Traces> {
    if !wanted(|name| std::env::var_os(name)) {
        logs::init(format);
        return Ok(Traces(None));
    }
    let exporter = SpanExporter::builder().with_http();
    let exporter = exporter.with_http_client(Client::new(runtime)?).build();
    let exporter = exporter.with_context(|| {
        format!(
            "no traces can be sent: {} is invalid",
            VARIABLES.join(" or ")
        )
    })?;
    let provider = provider(exporter);
    // If logging was started before, as in tests, the first start remains in effect.
    let _ = tracing_subscriber::registry()
        .with(logs::lines(format))
        .with(layer(&provider))
        .try_init();
    Ok(Traces(Some(provider)))
}

/// Returns whether the environment names a collector. OpenTelemetry treats an empty variable as not
/// set.
fn wanted(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let mut values = VARIABLES.into_iter().filter_map(variable);
    values.any(|value| !value.is_empty())
}

fn provider(exporter: SpanExporter) -> SdkTracerProvider {
    let resource = Resource::builder().with_service_name("volume-warden");
    SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(resource.build())
        .build()
}

/// Returns the layer that exports all spans of Volume Warden, regardless of the log level. Spans of
/// libraries are not exported, because those of the exporter itself would be among them.
fn layer<S>(provider: &SdkTracerProvider) -> impl Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let own_spans = Targets::new().with_target("volume_warden", LevelFilter::DEBUG);
    let tracer = provider.tracer("volume-warden");
    tracing_opentelemetry::layer()
        .with_tracer(tracer)
        .with_filter(own_spans)
}

/// The HTTP client of the exporter. It uses the process's own reqwest and TLS, and runs in the
/// tokio runtime, because the thread of the exporter has none.
#[derive(Debug)]
struct Client {
    client: reqwest::Client,
    runtime: Handle,
}

impl Client {
    fn new(runtime: &Handle) -> anyhow::Result<Self> {
        Ok(Self {
            client: reqwest::Client::builder().timeout(EXPORT_TIMEOUT).build()?,
            runtime: runtime.clone(),
        })
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let request = reqwest::Request::try_from(request)?;
        let client = self.client.clone();
        // The exporter's thread has no tokio runtime, and the timer of the request requires one.
        let exchange = async move {
            let answer = client.execute(request).await?.error_for_status()?;
            let (status, body) = (answer.status(), answer.bytes().await?);
            reqwest::Result::Ok((status, body))
        };
        #[expect(clippy::disallowed_methods, reason = "it is awaited")]
        let exchange = self.runtime.spawn(exchange);
        let (status, body) = exchange.await??;
        Ok(Response::builder().status(status).body(body)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::{Router, extract::State, routing::post};
    use opentelemetry_otlp::WithExportConfig;
    use tokio::{net::TcpListener, sync::mpsc};

    /// Starts a collector, and returns its address and the received bodies, in which text
    /// attributes are readable.
    async fn collector() -> (String, mpsc::UnboundedReceiver<Bytes>) {
        let (sender, received) = mpsc::unbounded_channel();
        let take = |State(sender): State<mpsc::UnboundedSender<Bytes>>, body: axum::body::Body| async move {
            let body = axum::body::to_bytes(body, usize::MAX)
                .await
                .expect("a body");
            sender.send(body).expect("is awaited");
        };
        let app = Router::new()
            .route("/v1/traces", post(take))
            .with_state(sender);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listens");
        let address = listener.local_addr().expect("an address");
        let server =
            hyper_util::server::conn::auto::Builder::new(hyper_util::rt::TokioExecutor::new());
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let service = hyper_util::service::TowerToHyperService::new(app.clone());
                let io = hyper_util::rt::TokioIo::new(tcp);
                let _ = server.serve_connection(io, service).await;
            }
        });
        (format!("http://{address}/v1/traces"), received)
    }

    #[test]
    fn an_empty_variable_is_none() {
        let set = |which: &'static str, value: &'static str| {
            wanted(move |name| (name == which).then(|| value.into()))
        };
        for name in VARIABLES {
            assert!(set(name, "http://collector:4318"), "{name}");
            assert!(!set(name, ""), "{name}");
        }
        assert!(!set("OTHER", "http://collector:4318"));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn spans_reach_the_collector_before_the_end() {
        crate::tls::install_crypto();
        let (endpoint, mut received) = collector().await;
        let client = Client::new(&Handle::current()).expect("a client");
        let exporter = SpanExporter::builder().with_http().with_http_client(client);
        let exporter = exporter
            .with_endpoint(endpoint)
            .build()
            .expect("an exporter");
        let provider = provider(exporter);
        let subscriber = tracing_subscriber::registry().with(layer(&provider));
        tracing::subscriber::with_default(subscriber, || {
            let span = tracing::debug_span!("review", uid = "a-uid", object = "ns/claim");
            span.in_scope(|| tracing::info!("said meanwhile"));
            tracing::info_span!(target: "reqwest", "a span of a library");
        });
        tokio::task::spawn_blocking(move || drop(Traces(Some(provider))))
            .await
            .expect("ends");
        let body = tokio::time::timeout(Duration::from_secs(60), received.recv());
        let body = body.await.expect("in time").expect("something");
        let text = String::from_utf8_lossy(&body);
        for wanted in [
            "volume-warden",
            "review",
            "a-uid",
            "ns/claim",
            "said meanwhile",
        ] {
            assert!(text.contains(wanted), "no {wanted} in {text}");
        }
        assert!(!text.contains("a span of a library"), "{text}");
    }
}
