//! Measures when the API server last sent something on a watch or for its list. kube's watcher
//! hides bookmarks and silent reconnections, so this module observes the bytes of the responses.

use crate::{objects::Kind, telemetry::Metrics};
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Bytes};
use kube::{Client, client::Body};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// The time of the last watch activity.
#[derive(Clone)]
pub(crate) struct WatchActivity {
    began: Instant,
    /// When a response last began or contained data, in milliseconds since `began`.
    last: Arc<AtomicU64>,
    /// When a response last contained data, in milliseconds since `began`. The beginning of a watch
    /// does not count: a proxy may accept every watch and deliver nothing.
    data: Arc<AtomicU64>,
    /// For how many milliseconds there was no activity before the last response began.
    before: Arc<AtomicU64>,
}

impl WatchActivity {
    /// Starts the measurement, and reports the age of the last data at every scrape of the metrics.
    pub(crate) fn observed(kind: Kind, metrics: &Metrics) -> Self {
        let activity = Self {
            began: Instant::now(),
            last: Arc::default(),
            data: Arc::default(),
            before: Arc::default(),
        };
        let observed = activity.clone();
        metrics.watches.begun(kind);
        metrics.before_scrape(move |metrics| {
            metrics.watches.age(kind, observed.since(&observed.data))
        });
        activity
    }

    fn since(&self, moment: &AtomicU64) -> Duration {
        let moment = Duration::from_millis(moment.load(Ordering::Relaxed));
        self.began.elapsed().saturating_sub(moment)
    }

    /// Returns for how long nothing was received before the last response, or since, if that is
    /// longer. The last response may be a watch that contains only an error.
    pub(super) fn silence(&self) -> Duration {
        let before = Duration::from_millis(self.before.load(Ordering::Relaxed));
        self.since(&self.last).max(before)
    }

    fn begin(&self) {
        let silent = milliseconds(self.since(&self.last));
        self.before.store(silent, Ordering::Relaxed);
        self.last.store(self.now(), Ordering::Relaxed);
    }

    fn receive(&self) {
        let now = self.now();
        self.last.store(now, Ordering::Relaxed);
        self.data.store(now, Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        milliseconds(self.began.elapsed())
    }

    /// Returns a client whose responses are observed, those of lists, too. An error response does
    /// not count as watch activity.
    pub(crate) fn client(&self, client: &Client) -> Client {
        let (inner, activity) = (client.clone(), self.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (inner, activity) = (inner.clone(), activity.clone());
            async move {
                let answer = inner.send(request).await?;
                Ok::<_, kube::Error>(activity.listen(answer))
            }
        });
        Client::new(service, client.default_namespace())
    }

    fn listen(
        self,
        answer: Response<Body>,
    ) -> Response<impl HttpBody<Data = Bytes, Error = kube::Error>> {
        let good = answer.status().is_success();
        if good {
            self.begin();
        }
        answer.map(|body| {
            body.map_frame(move |frame| {
                if good {
                    self.receive();
                }
                frame
            })
        })
    }
}

fn milliseconds(time: Duration) -> u64 {
    time.as_millis().try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::{StreamExt, TryStreamExt};
    use http::StatusCode;
    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use k8s_openapi::api::core::v1::Pod;
    use kube::{
        Api,
        api::{WatchEvent, WatchParams},
    };
    use serde_json::json;

    /// An API server whose watch begins after a second, and sends only a bookmark after another
    /// minute.
    fn quiet_server(status: StatusCode) -> Client {
        let service = tower::service_fn(move |_: Request<Body>| async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let bookmark = json!({"type": "BOOKMARK", "object": {"kind": "Pod", "apiVersion": "v1",
                "metadata": {"resourceVersion": "7"}}});
            let line = format!("{bookmark}\n");
            let frames = futures::stream::once(async {
                tokio::time::sleep(Duration::from_secs(60)).await;
                Ok::<_, std::io::Error>(Frame::data(Bytes::from(line)))
            });
            let body = StreamBody::new(Box::pin(frames.chain(futures::stream::pending())));
            let answer = Response::builder().status(status).body(body);
            Ok::<_, std::io::Error>(answer.expect("an answer"))
        });
        Client::new(service, "default")
    }

    fn age(metrics: &Metrics) -> u64 {
        let text = metrics.text();
        let mut lines = text.lines();
        let prefix = "volume_warden_watch_idle_seconds{resource=\"pods\"} ";
        let age = lines.find_map(|line| line.strip_prefix(prefix));
        age.expect("an age").parse().expect("a number")
    }

    #[tokio::test(start_paused = true)]
    async fn a_bookmark_ends_the_idle_time_and_the_beginning_of_a_watch_does_not() {
        let metrics = Metrics::new();
        let client =
            WatchActivity::observed(Kind::Pod, &metrics).client(&quiet_server(StatusCode::OK));
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert_eq!(age(&metrics), 100, "nothing was received yet");
        let api: Api<Pod> = Api::all(client);
        let events = api.watch(&WatchParams::default(), "0").await;
        let mut events = events.expect("a watch").boxed();
        assert_eq!(age(&metrics), 101, "the watch has begun");
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(age(&metrics), 131);
        let event = events.try_next().await.expect("an event");
        assert!(matches!(event, Some(WatchEvent::Bookmark(_))));
        assert_eq!(age(&metrics), 0, "a bookmark was received");
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_not_a_sign_of_life() {
        let metrics = Metrics::new();
        let refusing = quiet_server(StatusCode::GONE);
        let client = WatchActivity::observed(Kind::Pod, &metrics).client(&refusing);
        tokio::time::sleep(Duration::from_secs(10)).await;
        let request = Request::get("/api/v1/pods?watch=1").body(Body::empty());
        let answer = client.send(request.expect("a request")).await;
        let mut body = answer.expect("an answer").into_body();
        let frame = body.frame().await;
        assert!(frame.is_some_and(|frame| frame.is_ok()));
        assert_eq!(age(&metrics), 71);
    }
}
