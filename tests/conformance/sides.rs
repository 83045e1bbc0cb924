//! The two API servers: the model and a real one.

use super::operation::{Memory, Operation};
use anyhow::{Context as _, Result};
use bytes::Bytes;
use futures::{AsyncBufReadExt, StreamExt, stream::BoxStream};
use http::Request;
use http_body_util::BodyExt;
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use time::OffsetDateTime;
use volume_warden_apiserver_model::{ApiServer, Body, Settings, User, Version};
use volume_warden_controlplane::Kubernetes;

/// Maximum time to wait for an event of a watch. Only a failed test reaches it.
const PATIENCE: Duration = Duration::from_secs(30);

/// The events of a watch.
pub type Events = BoxStream<'static, Result<Value>>;

/// An API server.
pub enum Side {
    /// The model of the API server.
    Model(ApiServer),
    /// A real API server.
    Real(kube::Client),
}

impl Side {
    /// Creates a model that behaves like the Kubernetes version of the tests.
    pub fn model(seed: u64) -> Result<Self> {
        let version = match Kubernetes::chosen()? {
            Kubernetes::V1_34 => Version::V1_34,
            Kubernetes::V1_37 => Version::V1_37,
        };
        Ok(Self::Model(ApiServer::new(Settings {
            version,
            seed,
            clock: Arc::new(OffsetDateTime::now_utc),
            longest_page: 0,
            in_tree_protection: false,
        })))
    }

    /// Sends a request and returns the status and the answer.
    pub async fn send(&self, operation: &Operation, memory: &Memory) -> Result<(u16, Value)> {
        let request = request(operation, memory)?;
        match self {
            Self::Model(server) => {
                let (parts, body) = server.handle(&admin(), request).await.into_parts();
                let body = body.collect().await?.to_bytes();
                Ok((parts.status.as_u16(), parse(&body)))
            }
            Self::Real(client) => {
                let answer = client.send(request.map(kube::client::Body::from)).await?;
                let (parts, body) = answer.into_parts();
                Ok((parts.status.as_u16(), parse(&body.collect_bytes().await?)))
            }
        }
    }

    /// Opens a watch.
    pub async fn watch(&self, operation: &Operation, memory: &Memory) -> Result<Events> {
        let request = request(operation, memory)?;
        match self {
            Self::Model(server) => {
                let body: Body = server.handle(&admin(), request).await.into_body();
                let frames = body.into_data_stream();
                Ok(frames.map(|frame| Ok(parse(&frame?))).boxed())
            }
            Self::Real(client) => {
                let lines = client
                    .request_stream(request.map(|body| body.to_vec()))
                    .await?
                    .lines();
                Ok(lines.map(|line| Ok(parse(line?.as_bytes()))).boxed())
            }
        }
    }
}

/// Returns the events up to and including that of the last change of a sequence.
pub async fn until_last(events: Events, is_last: impl Fn(&Value) -> bool) -> Result<Vec<Value>> {
    let mut events = events;
    let mut seen = Vec::new();
    let all = async {
        while let Some(event) = events.next().await {
            seen.push(event?);
            if seen.last().is_some_and(&is_last) {
                return Ok(());
            }
        }
        anyhow::bail!("the watch ended")
    };
    let ended = tokio::time::timeout(PATIENCE, all).await;
    ended.context("the last event of a watch did not arrive")??;
    Ok(seen)
}

fn request(operation: &Operation, memory: &Memory) -> Result<Request<Bytes>> {
    let (uri, body) = operation.resolved(memory);
    let mut request = Request::builder().method(operation.method).uri(uri);
    for (name, value) in &operation.headers {
        request = request.header(*name, *value);
    }
    Ok(request.body(body.into())?)
}

fn parse(body: &[u8]) -> Value {
    // A body that is not JSON is compared as text.
    serde_json::from_slice(body).unwrap_or_else(|_| String::from_utf8_lossy(body).into())
}

fn admin() -> User {
    User {
        name: "admin".into(),
        groups: vec!["system:masters".into(), "system:authenticated".into()],
    }
}
