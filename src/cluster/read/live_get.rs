//! Live reads of one object.

use super::evidence::Evidence;
use crate::cluster::api::{ApiOf, FairSemaphore, Scope, existing, within};
use crate::{
    objects::{ObjectName, Tracked, can_exist},
    telemetry::Metrics,
};
use kube::{Client, Resource};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// Maximum number of concurrent reads of one [`LiveGet`]; further reads wait, in turn with those of
/// other namespaces. Callers with separate `LiveGet` values, as most webhooks and reconcilers have,
/// do not wait for each other. A pod of a tenant can have several megabytes.
const MAX_READS: usize = 16;

/// Reads single objects from the API server instead of a watch cache.
pub struct LiveGet<T: Tracked> {
    api: ApiOf<T>,
    client: Client,
    permits: Arc<FairSemaphore>,
    metrics: Arc<Metrics>,
}

impl<T: Tracked> LiveGet<T> {
    /// Creates a reader that uses this client.
    pub fn new(metrics: Arc<Metrics>, client: &Client) -> Arc<Self>
    where
        <T::Wire as Resource>::Scope: Scope<T::Wire>,
    {
        Arc::new(Self {
            api: <T::Wire as Resource>::Scope::api,
            client: client.clone(),
            permits: FairSemaphore::new(MAX_READS),
            metrics,
        })
    }

    /// Reads an object, entirely after this call; none if it does not exist, or if
    /// [`Tracked::track`] drops it because no rule needs it. `limit` includes the wait for other
    /// reads.
    ///
    /// # Errors
    /// When the object could not be read within `limit`. The caller must not conclude that it does
    /// not exist.
    pub async fn get(&self, name: &ObjectName, limit: Duration) -> kube::Result<Option<T>> {
        Ok(self.read(name, limit).await?.value)
    }

    /// Reads an object as [`Self::get`] does, and returns evidence for an action that relies on it.
    ///
    /// # Errors
    /// When the object could not be read within `limit`, or no object can have the name, which is
    /// not sent: see [`can_exist`]. The caller must not conclude that the object does not exist.
    pub async fn read(
        &self,
        name: &ObjectName,
        limit: Duration,
    ) -> kube::Result<Evidence<Option<T>>> {
        if !can_exist(&name.namespace, &name.name) {
            let text = "no object can have this name, so it is not read";
            return Err(kube::Error::Service(text.into()));
        }
        let api = (self.api)(self.client.clone(), &name.namespace);
        let mut sent = false;
        let read = async {
            // Namespaces take turns among themselves: otherwise the reads of one namespace for the
            // reviews of a tenant would delay those of another.
            let turn = if name.namespace.is_empty() {
                &name.name
            } else {
                &name.namespace
            };
            let _permit = self.permits.acquire(turn).await;
            sent = true;
            self.metrics.watches.live_read(T::KIND);
            let began = Instant::now();
            let object = existing(api.get(&name.name).await)?;
            Ok(Evidence::new(object.and_then(T::track), began))
        };
        let answer = within(limit, read).await;
        match answer {
            Err(_) if !sent => Err(kube::Error::Service(
                format!(
                    "no request was sent within {limit:?}, because {MAX_READS} others were under \
                     way"
                )
                .into(),
            )),
            answer => answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cluster::test_server::{answering, answering_after},
        objects::{Claim, Namespace},
    };
    use kube::client::Body;
    use tokio::time::sleep;

    async fn answered(body: &'static str) -> kube::Result<Option<Namespace>> {
        let client = answering(move |_, _| (404, body));
        let get = LiveGet::new(Arc::new(Metrics::new()), &client);
        let name = ObjectName::cluster_scoped("shop");
        get.get(&name, Duration::from_secs(1)).await
    }

    /// The time limit counts from the call, and the age of the evidence from the beginning of the
    /// read.
    #[tokio::test(start_paused = true)]
    async fn reads_beyond_the_limit_wait_within_their_time() {
        let second = Duration::from_secs(1);
        let client = answering_after(second, |_, _| {
            (200, r#"{"metadata": {"name": "shop", "uid": "1"}}"#)
        });
        let get = LiveGet::<Namespace>::new(Arc::new(Metrics::new()), &client);
        let name = ObjectName::cluster_scoped("shop");
        let reads = |limit| {
            let reads = (0..=MAX_READS).map(|_| get.read(&name, limit));
            futures::future::join_all(reads)
        };
        let in_time = reads(2 * second).await.into_iter().filter(Result::is_ok);
        assert_eq!(in_time.count(), MAX_READS + 1);
        let late = reads(second * 3 / 2).await;
        let late = late.into_iter().filter_map(Result::err);
        let late: Vec<_> = late.map(|error| error.to_string()).collect();
        assert_eq!(late.len(), 1);
        assert!(
            late[0].contains("no answer from the API server within 1.5s"),
            "{late:?}"
        );
        let (_, waited) = tokio::join!(reads(2 * second), get.read(&name, second / 2));
        let waited = waited
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        assert!(
            waited.contains("no request was sent within 500ms"),
            "{waited}"
        );
    }

    /// One tenant may cause thousands of reads.
    #[tokio::test(start_paused = true)]
    async fn reads_of_one_namespace_delay_another_by_one_read() {
        let client = answering_after(Duration::from_secs(1), |_, _| {
            (200, r#"{"metadata": {"name": "data", "uid": "1"}}"#)
        });
        let get = LiveGet::<Claim>::new(Arc::new(Metrics::new()), &client);
        let (many, other) = (ObjectName::new("many", "c"), ObjectName::new("other", "c"));
        let limit = Duration::from_secs(60);
        let reads = futures::future::join_all((0..20 * MAX_READS).map(|_| get.read(&many, limit)));
        let late = async {
            sleep(Duration::from_millis(500)).await;
            get.read(&other, Duration::from_millis(1600)).await
        };
        let (reads, late) = tokio::join!(reads, late);
        assert!(late.is_ok(), "{:?}", late.err());
        assert!(reads.iter().all(Result::is_ok));
    }

    /// A review may wait for the read of a namespace, and each tenant can cause reviews.
    #[tokio::test(start_paused = true)]
    async fn namespaces_are_read_in_turn() {
        let client = answering_after(Duration::from_secs(1), |_, _| {
            (200, r#"{"metadata": {"name": "shop", "uid": "1"}}"#)
        });
        let get = LiveGet::<Namespace>::new(Arc::new(Metrics::new()), &client);
        let [many, other] = ["many", "other"].map(ObjectName::cluster_scoped);
        let limit = Duration::from_secs(60);
        let reads = futures::future::join_all((0..20 * MAX_READS).map(|_| get.read(&many, limit)));
        let late = async {
            sleep(Duration::from_millis(500)).await;
            get.read(&other, Duration::from_millis(1600)).await
        };
        let (_, late) = tokio::join!(reads, late);
        assert!(late.is_ok(), "{:?}", late.err());
    }

    #[tokio::test]
    async fn a_name_that_would_be_a_query_is_not_sent() {
        let service = tower::service_fn(|request: http::Request<Body>| {
            let uri = request.uri().to_string();
            std::future::ready(Err::<http::Response<Body>, _>(std::io::Error::other(uri)))
        });
        let client = Client::new(service, "default");
        let get = LiveGet::<Namespace>::new(Arc::new(Metrics::new()), &client);
        let long = "a".repeat(254);
        for name in ["?watch=1", "a/b", "..", "", "A", &long, &long[1..]] {
            let read = get
                .get(&ObjectName::cluster_scoped(name), Duration::from_secs(1))
                .await;
            let error = read.expect_err("a failure").to_string();
            let sent = name.len() == 253;
            assert_eq!(error.contains("/namespaces/"), sent, "{name}: {error}");
        }
        let outside = ObjectName::new("?a=1", "a");
        let read = get.get(&outside, Duration::from_secs(1)).await;
        let error = read.expect_err("a failure").to_string();
        assert!(error.contains("not read"), "{error}");
    }

    #[tokio::test]
    async fn only_the_api_server_can_say_that_an_object_does_not_exist() {
        let status = r#"{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound", "message": "m"}"#;
        assert!(matches!(answered(status).await, Ok(None)));
        assert!(answered("404 page not found").await.is_err());
        assert!(answered("{}").await.is_err());
    }
}
