//! The later of two clocks: that of this process, and that of the API server.

use crate::clock::Clock;
use k8s_openapi::jiff::{SignedDuration, Timestamp, fmt::rfc2822};
use kube::{Client, client::Body};
use parking_lot::Mutex;
use std::{fmt, sync::Arc, time::Duration};
use tokio::time::Instant;

/// A known time of the API server is replaced only after this time: its dates have whole seconds.
const RESOLUTION: Duration = Duration::from_secs(1);

/// The time for what is recorded as "since then": a clock that is behind would make such a
/// time too early, and shorten a wait that counts from it.
#[derive(Clone)]
pub struct LatestTime {
    clock: Clock,
    /// The date of an answer of the API server, and when the answer arrived.
    answered: Arc<Mutex<Option<(Timestamp, Instant)>>>,
}

impl LatestTime {
    /// Returns the time of this clock alone until a client observes answers of the API server.
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            answered: Arc::default(),
        }
    }

    /// The time after an answer of the API server with this date.
    #[cfg(test)]
    pub(crate) fn after_answer(clock: Clock, date: Timestamp) -> Self {
        let answered = Arc::new(Mutex::new(Some((date, Instant::now()))));
        Self { clock, answered }
    }

    /// Returns a client that reads the header `Date` of each answer.
    pub fn observing(&self, client: &Client) -> Client {
        let (inner, time) = (client.clone(), self.clone());
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (inner, time) = (inner.clone(), time.clone());
            async move {
                let answer = inner.send(request).await?;
                time.read(answer.headers());
                Ok::<_, kube::Error>(answer)
            }
        });
        Client::new(service, client.default_namespace())
    }

    fn read(&self, headers: &http::HeaderMap) {
        let mut answered = self.answered.lock();
        if answered.is_none_or(|(_, at)| at.elapsed() >= RESOLUTION) {
            *answered = date(headers)
                .map(|date| (date, Instant::now()))
                .or(*answered);
        }
    }

    /// Returns the time of this process alone.
    pub fn local(&self) -> Timestamp {
        self.clock.timestamp()
    }

    /// Returns the present time of this process or of the API server, whichever is later. That of
    /// the API server is calculated from its last answer, and up to a second behind.
    pub fn now(&self) -> Timestamp {
        let local = self.local();
        let server = self.answered.lock().and_then(|(date, at)| {
            date.checked_add(SignedDuration::try_from(at.elapsed()).ok()?)
                .ok()
        });
        server.map_or(local, |server| server.max(local))
    }
}

impl fmt::Debug for LatestTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LatestTime({})", self.now())
    }
}

/// Returns the time in the header `Date`, in whole seconds; none if it has none that is readable.
pub(super) fn date(headers: &http::HeaderMap) -> Option<Timestamp> {
    let date = headers.get(http::header::DATE)?.to_str().ok()?;
    let date = rfc2822::parse(date).ok()?;
    Some(date.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::OffsetDateTime;

    /// A time whose clock shows 100 s, after an answer with this header.
    async fn after_answer(server: Option<&'static str>) -> LatestTime {
        let service = tower::service_fn(move |_: http::Request<Body>| {
            let mut response = http::Response::new(Body::empty());
            if let Some(server) = server {
                let date = http::HeaderValue::from_static(server);
                response.headers_mut().insert(http::header::DATE, date);
            }
            std::future::ready(Ok::<_, std::io::Error>(response))
        });
        let local = OffsetDateTime::from_unix_timestamp(100).expect("a time");
        let time = LatestTime::new(Clock::new(move || local));
        let client = time.observing(&Client::new(service, "default"));
        let request = http::Request::get("/version").body(Body::empty());
        let answer = client.send(request.expect("a request")).await;
        answer.expect("an answer");
        time
    }

    #[tokio::test(start_paused = true)]
    async fn the_later_of_two_clocks_counts() {
        for (server, at_once, after_a_minute) in [
            (Some("Thu, 01 Jan 1970 00:03:20 GMT"), 200, 260),
            (Some("Thu, 01 Jan 1970 00:00:50 GMT"), 100, 110),
            (Some("yesterday"), 100, 100),
            (None, 100, 100),
        ] {
            let time = after_answer(server).await;
            assert_eq!(time.now().as_second(), at_once, "{server:?}");
            tokio::time::advance(Duration::from_secs(60)).await;
            assert_eq!(time.now().as_second(), after_a_minute, "{server:?}");
        }
    }
}
