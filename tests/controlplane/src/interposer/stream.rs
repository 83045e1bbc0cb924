//! Forwards the body of a response, chunk by chunk, as the rules permit.

use axum::body::{Body, BodyDataStream, Bytes};
use futures::{Stream, StreamExt, stream};
use tokio::sync::watch;

use super::rule::Action;
use super::server::Exchange;

type Chunk = Result<Bytes, axum::Error>;

/// The body of a response. Dropping it, as hyper does when the client disconnects, drops the
/// upstream request.
pub(super) struct Gate {
    exchange: Exchange,
    upstream: BodyDataStream,
    /// A received chunk that the rules hold.
    waiting: Option<Chunk>,
}

impl Gate {
    pub(super) fn new(exchange: Exchange, body: kube::client::Body) -> Self {
        Self {
            exchange,
            upstream: Body::new(body).into_data_stream(),
            waiting: None,
        }
    }

    pub(super) fn into_body(self) -> Body {
        Body::from_stream(self.into_stream())
    }

    fn into_stream(self) -> impl Stream<Item = Chunk> {
        stream::unfold(self, |mut gate| async {
            gate.next().await.map(|chunk| (chunk, gate))
        })
    }

    async fn next(&mut self) -> Option<Chunk> {
        let mut changes = self.exchange.faults.changes();
        loop {
            changes.mark_unchanged();
            // Evaluated before each chunk, because a rule may have been added while the stream was
            // open.
            if pass_or_cut(&self.exchange, &mut changes).await {
                if let Some(chunk) = self.waiting.take() {
                    return Some(chunk);
                }
                tokio::select! {
                    chunk = self.upstream.next() => self.waiting = Some(chunk?),
                    _ = changes.changed() => {}
                }
            }
        }
    }
}

/// Whether no rule blocks the chunk. Returns false after a wait: the rules must be evaluated again.
async fn pass_or_cut(exchange: &Exchange, changes: &mut watch::Receiver<u64>) -> bool {
    let rules = exchange.rules(|action| matches!(action, Action::FreezeStream | Action::Cut));
    if rules
        .iter()
        .any(|active| matches!(active.rule.action, Action::Cut))
    {
        match exchange.cut().await {}
    }
    let Some(freeze) = rules.iter().find(|active| !active.is_released()) else {
        return true;
    };
    tokio::select! {
        () = freeze.hold() => {}
        // A rule may drop a frozen stream.
        _ = changes.changed() => {}
    }
    false
}
