//! The task of the client that refreshes its token.

use crate::support::{BackendFixture, NEVER, Secrets, eventually, options};
use std::{sync::Arc, time::Duration};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use volume_warden::backend::{Backend, StorageOs};
use volume_warden_storageos::{
    self as fake, Closed, Endpoint, FOR_EVER, Fault, LIFETIME, Serving, TokenIn,
};

/// An interval that is short for a test.
const SHORT_INTERVAL: Duration = Duration::from_millis(20);

/// A client with a running task that refreshes its token.
struct RefreshingClient {
    fake: fake::StorageOs,
    client: Arc<StorageOs>,
    _secrets: Secrets,
    stop: CancellationToken,
    ended: JoinHandle<()>,
}

fn spawn_refresh(client: &Arc<StorageOs>) -> (CancellationToken, JoinHandle<()>) {
    let (client, stop) = (client.clone(), CancellationToken::new());
    let token = stop.clone();
    (
        stop,
        tokio::spawn(async move { client.run_background(token).await }),
    )
}

impl RefreshingClient {
    fn new(prepare: impl Fn(&fake::StorageOs)) -> Self {
        let fixture = BackendFixture::with(|options| options.login_interval = SHORT_INTERVAL);
        prepare(&fixture.fake);
        let client = Arc::new(fixture.client);
        let (stop, ended) = spawn_refresh(&client);
        Self {
            fake: fixture.fake,
            client,
            _secrets: fixture.secrets,
            stop,
            ended,
        }
    }

    async fn wait_for_calls(&self, endpoint: Endpoint, at_least: usize) {
        eventually("the endpoint was called", async || {
            self.fake.calls(endpoint) >= at_least
        })
        .await;
    }

    async fn end(self) {
        self.stop.cancel();
        self.ended.await.expect("ends");
    }
}

/// The token that a list request carries.
async fn token_of_list(fake: &fake::StorageOs, client: &StorageOs) -> String {
    client.list().await.expect("lists");
    let request = fake.requests().pop().expect("a request");
    request.authorization.expect("a token")
}

#[tokio::test]
async fn ns_28_the_token_is_refreshed_and_the_new_one_is_used() {
    let refreshing = RefreshingClient::new(|fake| fake.announce_lifetime(Some(1)));
    refreshing.wait_for_calls(Endpoint::Refresh, 3).await;
    assert_eq!(refreshing.fake.calls(Endpoint::Login), 1);
    let first = format!("Bearer {}", refreshing.fake.granted()[0]);
    let refreshes = refreshing.fake.requests().into_iter();
    let refreshes: Vec<_> = refreshes
        .filter(|request| request.endpoint == Endpoint::Refresh)
        .filter_map(|request| request.authorization)
        .collect();
    assert_eq!(refreshes[0], first);
    assert_ne!(refreshes[1], first, "each refresh sends the newest token");
    assert_ne!(
        token_of_list(&refreshing.fake, &refreshing.client).await,
        first
    );
    refreshing.end().await;
}

#[tokio::test]
async fn an_unknown_lifetime_defaults_to_the_interval() {
    let fixture = BackendFixture::with(|options| options.refresh_interval = SHORT_INTERVAL);
    let client = Arc::new(fixture.client);
    let (stop, ended) = spawn_refresh(&client);
    let fake = &fixture.fake;
    eventually("the token was refreshed", async || {
        fake.calls(Endpoint::Refresh) >= 2
    })
    .await;
    stop.cancel();
    ended.await.expect("ends");
}

#[tokio::test]
async fn ns_29_a_refused_refresh_is_followed_by_a_login() {
    let refreshing = RefreshingClient::new(|fake| {
        fake.announce_lifetime(Some(1));
        fake.fault(Endpoint::Refresh, Fault::error(401, "dead"), FOR_EVER);
    });
    refreshing.wait_for_calls(Endpoint::Login, 3).await;
    let mut order: Vec<_> = refreshing
        .fake
        .requests()
        .into_iter()
        .map(|each| each.endpoint)
        .collect();
    // If the last login was recent, another refresh comes first.
    order.dedup_by(|next, one| next == one && *next == Endpoint::Refresh);
    assert_eq!(
        order[..4],
        [
            Endpoint::Login,
            Endpoint::Refresh,
            Endpoint::Login,
            Endpoint::Refresh
        ]
    );
    refreshing.end().await;
}

/// A refresh may be late, for example because StorageOS could not be reached.
#[tokio::test]
async fn ns_29_an_expired_token_is_replaced_by_a_login() {
    let refreshing = RefreshingClient::new(|fake| fake.announce_lifetime(Some(1)));
    eventually("the client has logged in", async || {
        refreshing.client.is_ready()
    })
    .await;
    refreshing.fake.advance(LIFETIME + Duration::from_secs(1));
    refreshing.wait_for_calls(Endpoint::Login, 2).await;
    assert!(refreshing.fake.calls(Endpoint::Refresh) > 0);
    refreshing.client.list().await.expect("lists");
    refreshing.end().await;
}

#[tokio::test]
async fn ns_29_a_refresh_without_a_token_is_followed_by_a_login() {
    let refreshing = RefreshingClient::new(|fake| fake.announce_lifetime(Some(1)));
    refreshing.wait_for_calls(Endpoint::Login, 1).await;
    refreshing
        .fake
        .fault(Endpoint::Refresh, Fault::Answer(200, "{}".into()), FOR_EVER);
    refreshing.wait_for_calls(Endpoint::Login, 2).await;
    refreshing.end().await;
}

#[tokio::test]
async fn ns_30_the_task_survives_many_failures() {
    let refreshing = RefreshingClient::new(|fake| fake.announce_lifetime(Some(1)));
    eventually("the client has logged in", async || {
        refreshing.client.is_ready()
    })
    .await;
    refreshing
        .fake
        .fault(Endpoint::Refresh, Fault::CutBefore, 10);
    refreshing
        .fake
        .fault(Endpoint::Login, Fault::error(500, "no"), 10);
    refreshing.fake.end_sessions();
    refreshing.wait_for_calls(Endpoint::Login, 12).await;
    eventually("a list succeeds again", async || {
        refreshing.client.list().await.is_ok()
    })
    .await;
    refreshing.wait_for_calls(Endpoint::Refresh, 12).await;
    refreshing.end().await;
}

#[tokio::test]
async fn ns_26_the_task_waits_for_a_cluster_that_is_down() {
    let (closed, secrets) = (Closed::new().expect("a port"), Secrets::valid());
    let endpoint = format!("http://{}", closed.address());
    let mut options = options(&endpoint, &secrets);
    options.login_interval = SHORT_INTERVAL;
    let client = Arc::new(StorageOs::new(options));
    let (stop, ended) = spawn_refresh(&client);
    client.list().await.expect_err("fails");
    assert!(!client.is_ready());
    let fake = closed.open(&Serving::default()).expect("opens");
    eventually("the client has logged in", async || client.is_ready()).await;
    assert_eq!(fake.calls(Endpoint::Login), 1);
    stop.cancel();
    ended.await.expect("ends");
}

#[tokio::test]
async fn a_token_from_another_call_is_not_requested_again() {
    let refreshing =
        RefreshingClient::new(|fake| fake.fault(Endpoint::Login, Fault::error(500, "no"), 2));
    eventually("a list succeeds", async || {
        refreshing.client.list().await.is_ok()
    })
    .await;
    refreshing.fake.end_sessions();
    refreshing.wait_for_calls(Endpoint::Login, 3).await;
    eventually("a list succeeds again", async || {
        refreshing.client.list().await.is_ok()
    })
    .await;
    assert_eq!(refreshing.fake.calls(Endpoint::Refresh), 0);
    assert_eq!(refreshing.fake.granted().len(), 2);
    refreshing.end().await;
}

#[tokio::test]
async fn ns_34_the_task_stops_during_a_request() {
    let refreshing =
        RefreshingClient::new(|fake| fake.fault(Endpoint::Login, Fault::Silence, FOR_EVER));
    refreshing.wait_for_calls(Endpoint::Login, 1).await;
    refreshing.end().await;
}

#[tokio::test]
async fn ns_31_the_token_is_found_in_every_documented_place() {
    for place in [TokenIn::Both, TokenIn::BareHeader, TokenIn::Body] {
        let fixture = BackendFixture::new();
        fixture.fake.set_token_in(place);
        let token = token_of_list(&fixture.fake, &fixture.client).await;
        assert_eq!(
            token,
            format!("Bearer {}", fixture.fake.granted()[0]),
            "{place:?}"
        );
    }
    let fixture = BackendFixture::new();
    fixture.fake.set_token_in(TokenIn::Nowhere);
    let failure = fixture.list_error().await;
    assert_eq!(
        failure.to_string(),
        "StorageOS answered the login without a token"
    );
    assert_eq!(failure.outcome().name(), "Server");
}

#[tokio::test]
async fn messages_contain_neither_the_token_nor_the_password() {
    let fixture = BackendFixture::with(|options| options.login_interval = NEVER);
    fixture.client.list().await.expect("lists");
    let token = fixture.fake.granted().remove(0);
    let echo = Fault::error(500, &format!("cannot read Bearer {token}"));
    fixture.fake.fault(Endpoint::List, echo, 1);
    let message = format!("{} {:?}", fixture.list_error().await, fixture.client);
    assert!(message.contains("cannot read Bearer …"), "{message}");
    for secret in [&*token, fake::PASSWORD] {
        assert!(!message.contains(secret), "{message}");
    }
}
