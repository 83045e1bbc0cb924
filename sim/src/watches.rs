//! Watches of a client: events are late, and a watch may end or fall silent.

use crate::{
    checks::Listening,
    faults::WatchFate,
    network::{Reply, Wire},
};
use futures::{FutureExt, stream};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use volume_warden_apiserver_model::Body;

/// Returns the body of the watch at this path as its client receives it. `identity` identifies the
/// request. The API server ends the watch after `timeout`.
pub fn delayed(wire: Wire, path: String, identity: u64, timeout: Duration, body: Body) -> Reply {
    let began = wire.cluster.schedule.now();
    let late = wire.cluster.faults.late_watch_at(&path);
    let end = Instant::now() + timeout;
    let state = (wire, body, 0_u64, None::<Listening>);
    let frames = stream::unfold(state, move |(wire, mut body, number, listening)| {
        // Listening begins when the client first reads, and ends when the client drops the body.
        let listening = listening.or_else(|| Listening::begin(&wire.cluster, &wire.client, &path));
        async move {
            // All events that were sent while the watch was late arrive together.
            let (frame, behind) = match body.frame().now_or_never() {
                Some(frame) => (frame?, true),
                None => (timeout_at(end, body.frame()).await.ok()??, false),
            };
            let Ok(bytes) = frame.ok()?.into_data() else {
                return None;
            };
            let cluster = &wire.cluster;
            let event = (&*wire.client, "watch", identity, began, number);
            let now = cluster.schedule.now();
            let (fate, lag, order) = cluster.faults.watch_event(cluster.seed, now, event, late);
            cluster
                .schedule
                .turn(if behind { 1 } else { lag }, order)
                .await;
            if wire.connection.is_cut()
                || fate == WatchFate::Silent && cluster.faults.silent_for_ever
            {
                std::future::pending::<()>().await;
            }
            if fate == WatchFate::Silent {
                let end = cluster.faults.end.saturating_sub(cluster.schedule.now());
                cluster.schedule.turn(end, order).await;
            }
            (fate == WatchFate::Delivered).then(|| {
                listening.iter().for_each(Listening::received);
                (Ok(Frame::data(bytes)), (wire, body, number + 1, listening))
            })
        }
    });
    StreamBody::new(frames).boxed_unsync()
}
