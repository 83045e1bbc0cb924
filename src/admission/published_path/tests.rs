use super::*;
use crate::{
    cluster::test_server::{answering, failure},
    telemetry::test_log::Log,
};
use http::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};

const WEBHOOKS: Configuration = Configuration::Mutating("webhooks");
/// A configuration of a component that is no longer installed: Volume Warden may read it only.
const LEFT_BEHIND: Configuration = Configuration::Mutating("left-behind");
const NAME: &str = "claims.pvc-protection.volume-warden.dev";
const HOOK: &str = "/pvc-protection/claims";
const ROTATION: Rotation = Rotation {
    every: Duration::from_secs(1200),
};

/// An API server with one Secret and one webhook configuration.
#[derive(Clone)]
struct Fake {
    state: Arc<Mutex<Stored>>,
}

struct Stored {
    secret: Option<Value>,
    configuration: Value,
    secrets_fail: bool,
    /// Whether the Secret can be read, but not written.
    writes_fail: bool,
    configurations_code: u16,
    /// The configuration [`LEFT_BEHIND`], if it exists.
    left_behind: Option<Value>,
    /// If set, the configuration can be read, but not written, and this is the message.
    publications_fail: Option<String>,
    version: u64,
    /// Number of times that the configuration was written once more.
    repeats: usize,
}

impl Fake {
    /// Creates an API server whose webhook configuration has this path.
    fn new(path: Option<&str>) -> Self {
        let service = json!({"name": "a", "namespace": "b", "path": path});
        let webhook = json!({"name": NAME, "clientConfig": {"service": service}});
        let state = Stored {
            secret: None,
            configuration: json!({"metadata": {"name": "webhooks"}, "webhooks": [webhook]}),
            secrets_fail: false,
            writes_fail: false,
            configurations_code: 200,
            left_behind: None,
            publications_fail: None,
            version: 0,
            repeats: 0,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    fn edit<T>(&self, edit: impl FnOnce(&mut Stored) -> T) -> T {
        edit(&mut self.state.lock())
    }

    /// Creates a replica, and the set of paths that it accepts.
    fn replica(&self) -> (PathPublisher, SecretPaths) {
        let (api, paths) = (self.clone(), SecretPaths::default());
        let client = answering(move |head, body| {
            api.edit(|state| state.answer(&head.method, head.uri.path(), body))
        });
        let settings = Settings {
            client,
            secret: "serving".to_owned(),
            service: ServiceName {
                namespace: "b".to_owned(),
                name: "a".to_owned(),
            },
            configurations: vec![WEBHOOKS, LEFT_BEHIND],
            rotation: ROTATION,
            metrics: Arc::new(Metrics::new()),
            clock: Clock::system(),
        };
        (PathPublisher::new(settings, paths.clone()), paths)
    }

    fn path(&self) -> Option<String> {
        self.edit(|state| state.service()["path"].as_str().map(str::to_owned))
    }

    fn set_path(&self, path: Option<&str>) {
        self.edit(|state| state.service()["path"] = json!(path));
    }

    fn expire(&self) {
        self.edit(|state| {
            let secret = state.secret.as_mut().expect("a Secret");
            secret["data"]["path-since"] = json!("bm93");
        });
    }
}

impl Stored {
    fn service(&mut self) -> &mut Value {
        &mut self.configuration["webhooks"][0]["clientConfig"]["service"]
    }

    /// Applies a JSON patch or a merge patch to the configuration, and counts the changes of its
    /// webhooks.
    fn patch(&mut self, body: Value) -> bool {
        let before = self.configuration["webhooks"].clone();
        let patched = match body {
            merge @ Value::Object(_) => {
                self.repeats += 1;
                json_patch::merge(&mut self.configuration, &merge);
                true
            }
            list => {
                let list: json_patch::Patch = serde_json::from_value(list).expect("a patch");
                json_patch::patch(&mut self.configuration, &list).is_ok()
            }
        };
        if self.configuration["webhooks"] != before {
            self.change();
        }
        patched
    }

    fn change(&mut self) {
        let generation = &mut self.configuration["metadata"]["generation"];
        *generation = json!(generation.as_i64().unwrap_or_default() + 1);
    }

    fn answer(&mut self, method: &Method, path: &str, body: Value) -> (u16, Value) {
        self.version += 1;
        let version = self.version.to_string();
        if path.contains("webhookconfigurations") {
            match self.configurations_code {
                403 => return failure(403, "Forbidden"),
                404 => return failure(404, "NotFound"),
                _ => {}
            }
            if path.ends_with("/left-behind") {
                return match &self.left_behind {
                    Some(_) if method == Method::PATCH => failure(403, "Forbidden"),
                    Some(configuration) => (200, configuration.clone()),
                    None => failure(404, "NotFound"),
                };
            }
            if method == Method::PATCH
                && let Some(message) = &self.publications_fail
            {
                let (code, mut answer) = failure(422, "Invalid");
                answer["message"] = json!(message);
                return (code, answer);
            }
            if method == Method::PATCH && !self.patch(body) {
                return failure(422, "Invalid");
            }
            return (200, self.configuration.clone());
        }
        if self.secrets_fail {
            return failure(500, "InternalError");
        }
        if method != Method::GET && self.writes_fail {
            return failure(403, "Forbidden");
        }
        if method != Method::GET {
            let known = self
                .secret
                .as_ref()
                .map(|secret| &secret["metadata"]["resourceVersion"]);
            if known.is_some_and(|known| body["metadata"]["resourceVersion"] != *known) {
                return failure(409, "Conflict");
            }
            let mut secret = body;
            secret["metadata"]["resourceVersion"] = json!(version);
            self.secret = Some(secret);
        }
        match &self.secret {
            Some(secret) => (200, secret.clone()),
            None => failure(404, "NotFound"),
        }
    }
}

async fn round(replica: &mut PathPublisher) {
    replica.round().await.expect("a round");
}

#[tokio::test]
async fn the_path_is_stored_accepted_and_published_once() {
    crate::tls::install_crypto();
    let api = Fake::new(None);
    let (mut replica, paths) = api.replica();
    let ready = replica.readiness();
    assert!(!ready());
    round(&mut replica).await;
    assert!(ready());
    let path = api.path().expect("is published");
    assert_eq!(paths.authenticate(&path), Some(HOOK));
    assert_eq!(paths.authenticate(HOOK), None);
    let (mut other, others) = api.replica();
    round(&mut other).await;
    assert_eq!(others.authenticate(&path), Some(HOOK), "replicas share it");
    api.set_path(None);
    round(&mut other).await;
    assert_eq!(
        api.path(),
        Some(path.clone()),
        "a reset path is published again"
    );
    // A replica restores a Secret that is emptied from the state in memory.
    api.edit(|state| state.secret.as_mut().expect("a Secret")["data"] = json!(null));
    round(&mut replica).await;
    api.set_path(None);
    round(&mut other).await;
    assert_eq!(api.path(), Some(path));
}

/// An API server can miss a change of the webhooks. It notices a second write.
#[tokio::test]
async fn a_changed_configuration_is_written_once_more_in_a_later_round() {
    crate::tls::install_crypto();
    let api = Fake::new(None);
    let (mut replica, _) = api.replica();
    let repeats = || api.edit(|state| state.repeats);
    round(&mut replica).await;
    assert_eq!(repeats(), 0, "the path has just been published");
    round(&mut replica).await;
    assert_eq!(repeats(), 1);
    round(&mut replica).await;
    let (mut other, _) = api.replica();
    round(&mut other).await;
    assert_eq!(repeats(), 1, "neither again nor by another replica");
    // Another program, such as cert-manager, changes the webhooks.
    api.edit(Stored::change);
    round(&mut other).await;
    assert_eq!(repeats(), 2);
}

#[tokio::test]
async fn fixed_paths_are_accepted_only_before_the_first_publication() {
    crate::tls::install_crypto();
    let api = Fake::new(Some(HOOK));
    let (mut replica, paths) = api.replica();
    round(&mut replica).await;
    assert_eq!(
        paths.authenticate(HOOK),
        Some(HOOK),
        "the API server may still use it"
    );
    assert_ne!(api.path().as_deref(), Some(HOOK));
    round(&mut replica).await;
    assert_eq!(paths.authenticate(HOOK), None);
    // The fixed path stays refused after a restart and after a rollback of the configuration.
    api.set_path(Some(HOOK));
    let (mut restarted, paths) = api.replica();
    round(&mut restarted).await;
    assert_eq!(paths.authenticate(HOOK), None);
}

/// Otherwise every pod could forge reviews for as long as that configuration exists.
#[tokio::test]
async fn a_configuration_that_may_not_be_written_does_not_keep_the_fixed_paths_accepted() {
    crate::tls::install_crypto();
    let api = Fake::new(Some(HOOK));
    api.edit(|state| state.left_behind = Some(state.configuration.clone()));
    let (mut replica, paths) = api.replica();
    for accepted in [Some(HOOK), None] {
        replica.round().await.expect_err("one may not be written");
        assert_eq!(paths.authenticate(HOOK), accepted);
    }
    let metrics = replica.metrics.text();
    assert!(
        metrics.contains("volume_warden_webhooks_path_mismatch 1\n"),
        "{metrics}"
    );
}

#[tokio::test]
async fn a_foreign_path_is_left_unchanged() {
    crate::tls::install_crypto();
    let api = Fake::new(Some("/proxy/pvc-protection/claims"));
    let (mut replica, _) = api.replica();
    round(&mut replica).await;
    assert_eq!(api.path().as_deref(), Some("/proxy/pvc-protection/claims"));
    let metrics = replica.metrics.text();
    assert!(metrics.contains("volume_warden_webhooks_path_mismatch 1\n"));
    api.set_path(None);
    round(&mut replica).await;
    assert!(api.path().is_some());
    let metrics = replica.metrics.text();
    let path_is_left = metrics.contains("volume_warden_webhooks_path_mismatch 0\n");
    assert!(path_is_left, "{metrics}");
}

/// With a missing permission, for example: no review is accepted.
#[tokio::test]
async fn a_path_that_cannot_be_published_is_counted() {
    crate::tls::install_crypto();
    let api = Fake::new(None);
    let (mut replica, _) = api.replica();
    api.edit(|state| state.publications_fail = Some("no".to_owned()));
    replica
        .round()
        .await
        .expect_err("the path is not published");
    let metrics = replica.metrics.text();
    assert!(metrics.contains("volume_warden_webhooks_path_mismatch 1\n"));
    let success = "volume_warden_webhooks_last_success_timestamp_seconds{task=\"Path\"}";
    assert!(!metrics.contains(success), "{metrics}");
    api.edit(|state| state.publications_fail = None);
    round(&mut replica).await;
    let metrics = replica.metrics.text();
    assert!(metrics.contains(success), "{metrics}");
    assert!(metrics.contains("volume_warden_webhooks_path_mismatch 0\n"));
}

/// With `Fail` the message of a failed call, which a user reads, contains the path.
#[tokio::test]
async fn a_webhook_that_fails_closed_is_counted() {
    crate::tls::install_crypto();
    let api = Fake::new(None);
    let (mut replica, _) = api.replica();
    for (policy, count) in [("Ignore", 0), ("Fail", 1), ("Ignore", 0)] {
        api.edit(|state| state.configuration["webhooks"][0]["failurePolicy"] = json!(policy));
        round(&mut replica).await;
        let metrics = replica.metrics.text();
        let line = format!("volume_warden_webhooks_fail_closed {count}\n");
        assert!(metrics.contains(&line), "{policy}: {metrics}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rotation_is_accepted_by_all_before_it_is_published() {
    crate::tls::install_crypto();
    let api = Fake::new(None);
    let ((mut first, firsts), (mut second, seconds)) = (api.replica(), api.replica());
    round(&mut first).await;
    round(&mut second).await;
    let old = api.path().expect("is published");
    api.expire();
    round(&mut first).await;
    tokio::time::advance(ROTATION.round()).await;
    round(&mut second).await;
    let next = first.known.as_ref().and_then(|state| state.next.clone());
    let next = next.expect("a next path").path(HOOK);
    assert_eq!(api.path(), Some(old.clone()), "not published yet");
    for paths in [&firsts, &seconds] {
        assert_eq!(paths.authenticate(&next), Some(HOOK));
    }
    tokio::time::advance(ROTATION.announced()).await;
    round(&mut first).await;
    assert_eq!(api.path(), Some(next));
    round(&mut second).await;
    for paths in [&firsts, &seconds] {
        assert_eq!(
            paths.authenticate(&old),
            Some(HOOK),
            "API servers learn late"
        );
    }
}

/// While the API server is away, no replica learns the next path.
#[tokio::test(start_paused = true)]
async fn a_rotation_waits_again_after_rounds_that_failed() {
    crate::tls::install_crypto();
    for fail in [
        |state: &mut Stored, fails| state.secrets_fail = fails,
        |state: &mut Stored, fails| state.configurations_code = if fails { 403 } else { 200 },
    ] {
        let api = Fake::new(None);
        let (mut replica, _) = api.replica();
        round(&mut replica).await;
        round(&mut replica).await;
        let old = api.path().expect("is published");
        api.expire();
        round(&mut replica).await;
        api.edit(|state| fail(state, true));
        let _ = replica.round().await;
        tokio::time::advance(ROTATION.announced()).await;
        api.edit(|state| fail(state, false));
        round(&mut replica).await;
        assert_eq!(api.path().as_ref(), Some(&old), "not published yet");
        tokio::time::advance(ROTATION.announced()).await;
        round(&mut replica).await;
        assert_ne!(api.path(), Some(old));
    }
}

/// A replica is ready if no webhook calls its Service, and it does not read the Secret if it may
/// not read the webhook configurations.
#[tokio::test]
async fn configurations_that_are_absent_or_unreadable_do_not_count() {
    crate::tls::install_crypto();
    for (code, stored) in [(404, true), (403, false)] {
        let api = Fake::new(None);
        let (mut replica, _) = api.replica();
        let ready = replica.readiness();
        api.edit(|state| state.configurations_code = code);
        round(&mut replica).await;
        assert!(ready(), "{code}");
        assert_eq!(api.edit(|state| state.secret.is_some()), stored, "{code}");
    }
}

/// Just after an installation, the API server may not know the replica's permissions yet.
#[tokio::test(start_paused = true)]
async fn a_right_that_comes_late_is_used_within_seconds() {
    crate::tls::install_crypto();
    let api = Fake::new(None);
    let (replica, _) = api.replica();
    let before = api.edit(|state| std::mem::replace(&mut state.configurations_code, 403));
    let stop = CancellationToken::new();
    let following = tokio::spawn(replica.follow(stop.clone()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(api.edit(|state| state.secret.is_none()));
    api.edit(|state| state.configurations_code = before);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(api.edit(|state| state.secret.is_some()));
    stop.cancel();
    following.await.expect("it ends");
}

/// A replica that cannot read the Secret may know an older path only, so it must not publish it.
#[tokio::test]
async fn nothing_is_published_without_the_secret() {
    crate::tls::install_crypto();
    let api = Fake::new(None);
    let (mut replica, _) = api.replica();
    api.edit(|state| state.secrets_fail = true);
    replica
        .round()
        .await
        .expect_err("the Secret cannot be read");
    assert_eq!(api.path(), None);
    api.edit(|state| state.secrets_fail = false);
    round(&mut replica).await;
    api.set_path(None);
    api.edit(|state| state.secrets_fail = true);
    replica
        .round()
        .await
        .expect_err("the Secret cannot be read");
    assert_eq!(api.path(), None);
}

/// A replica that starts while a rotation is due works with the stored path.
#[tokio::test]
async fn the_stored_path_is_accepted_if_the_secret_cannot_be_written() {
    crate::tls::install_crypto();
    let api = Fake::new(None);
    let (mut replica, _) = api.replica();
    round(&mut replica).await;
    round(&mut replica).await;
    let path = api.path().expect("is published");
    api.expire();
    api.edit(|state| state.writes_fail = true);
    let (mut other, others) = api.replica();
    let ready = other.readiness();
    other.round().await.expect_err("the Secret is not written");
    assert_eq!(others.authenticate(&path), Some(HOOK));
    assert!(ready());
    // Not published: another replica may have stored a newer one.
    api.set_path(None);
    other.round().await.expect_err("the Secret is not written");
    assert_eq!(api.path(), None);
}

/// The message of the API server about an invalid object may quote its path.
#[tokio::test(start_paused = true)]
async fn the_log_does_not_quote_the_path() {
    crate::tls::install_crypto();
    let api = Fake::new(None);
    let (mut replica, _) = api.replica();
    round(&mut replica).await;
    let path = api.path().expect("is published");
    api.set_path(None);
    api.edit(|state| state.publications_fail = Some(format!("invalid value: {path:?}")));
    let log = Log::begin();
    let stop = CancellationToken::new();
    let following = tokio::spawn(replica.follow(stop.clone()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    stop.cancel();
    following.await.expect("it ends");
    let lines = log.lines();
    assert!(lines.contains("invalid value"), "{lines}");
    assert!(!lines.contains(path.trim_end_matches(HOOK)), "{lines}");
}
