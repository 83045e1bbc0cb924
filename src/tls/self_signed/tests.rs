use super::*;
use crate::{
    clock::Clock,
    telemetry::{Metrics, test_log::Log},
    tls::test_api::{Fake, WEBHOOKS, service_name},
};
use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};
use time::OffsetDateTime;

const MINUTES: u64 = 60;
const DAY: i64 = 86_400;

/// Starts a replica on this API server. The result sets by how many seconds its clock is ahead.
fn begin(api: &Fake) -> Arc<AtomicI64> {
    let ahead = Arc::new(AtomicI64::new(0));
    begin_at(api, &ahead);
    ahead
}

/// Starts a replica with this clock.
fn begin_at(api: &Fake, ahead: &Arc<AtomicI64>) -> ServingCertificate {
    begin_with(api, ahead, &Metrics::new())
}

/// Starts a replica with this clock and these metrics.
fn begin_with(api: &Fake, ahead: &Arc<AtomicI64>, metrics: &Metrics) -> ServingCertificate {
    crate::tls::install_crypto();
    let days = |days: u64| Duration::from_secs(days * 86_400);
    let offset = ahead.clone();
    let clock = Clock::new(move || {
        OffsetDateTime::now_utc() + time::Duration::seconds(offset.load(Ordering::SeqCst))
    });
    let settings = Settings {
        client: api.client(),
        secret: "tls".to_owned(),
        service: service_name(),
        configurations: vec![WEBHOOKS],
        lifetimes: Lifetimes::new(days(365), days(90)).expect("lifetimes"),
    };
    let service = ServingCertificate::new(metrics, clock);
    let replica = SelfSigned::new(settings, service.clone());
    tokio::spawn(replica.follow(api.warnings(), CancellationToken::new()));
    service
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_secrets_it_reads_less_and_less_often() {
    let api = Fake {
        forbids: true,
        ..Fake::default()
    };
    begin(&api);
    pass(10 * MINUTES).await;
    let reads = api.calls("GET", "/secrets");
    assert!((15..=25).contains(&reads), "{reads} reads in ten minutes");
}

/// A caBundle that another program reverts delays the next step of a rotation. The replica writes
/// it at growing intervals.
#[tokio::test(start_paused = true)]
async fn a_cabundle_that_is_reverted_in_a_rotation_is_written_less_and_less() {
    let api = Fake::default();
    let ahead = begin(&api);
    pass(1).await;
    assert_eq!(api.calls("POST", "/secrets"), 1, "all is made");
    ahead.store(250 * DAY, Ordering::SeqCst);
    pass(10).await;
    assert_eq!(api.calls("PUT", "/secrets"), 1, "the next CA is made");
    ahead.fetch_add(120, Ordering::SeqCst);
    pass(10).await;
    let before = api.calls("PATCH", "webhookconfigurations");
    pass(10 * MINUTES).await;
    let written = api.calls("PATCH", "webhookconfigurations") - before;
    assert!((15..=25).contains(&written), "{written} in ten minutes");
    assert_eq!(api.calls("PUT", "/secrets"), 1, "no step is taken");
}

/// The API server calls no webhook whose certificate a CA signed that it does not trust.
#[tokio::test(start_paused = true)]
async fn no_new_ca_signs_while_a_webhook_configuration_may_not_be_read() {
    let api = Fake::default();
    let ahead = begin(&api);
    pass(1).await;
    api.hides.store(true, Ordering::SeqCst);
    ahead.store(250 * DAY, Ordering::SeqCst);
    pass(2 * MINUTES).await;
    let next = api.secret();
    assert_eq!(api.calls("PUT", "/secrets"), 1, "the next CA is made");
    ahead.fetch_add(120, Ordering::SeqCst);
    pass(10 * MINUTES).await;
    assert_eq!(api.secret(), next);
    assert!(api.calls("GET", "/secrets") > 10, "it goes on");
}

/// A configuration may be published long after the next CA was created.
#[tokio::test(start_paused = true)]
async fn api_servers_have_time_to_observe_a_ca_that_was_published_late() {
    let api = Fake {
        stores_bundles: true,
        ..Fake::default()
    };
    let ahead = begin(&api);
    pass(1).await;
    api.hides.store(true, Ordering::SeqCst);
    ahead.store(250 * DAY, Ordering::SeqCst);
    pass(10 * MINUTES).await;
    assert_eq!(api.calls("PUT", "/secrets"), 1, "the next CA is made");
    ahead.fetch_add(120, Ordering::SeqCst);
    let patches = || api.calls("PATCH", "webhookconfigurations");
    let before = patches();
    api.hides.store(false, Ordering::SeqCst);
    let mut seconds = 0;
    while patches() == before && seconds < 10 * MINUTES {
        pass(1).await;
        seconds += 1;
    }
    assert!(patches() > before, "the next CA is published");
    // The next round sees that it is published.
    pass(MINUTES).await;
    for (seconds, stored) in [(59, 1), (1, 2)] {
        ahead.fetch_add(seconds, Ordering::SeqCst);
        pass(MINUTES).await;
        assert_eq!(api.calls("PUT", "/secrets"), stored, "{seconds}");
    }
}

/// A replica that starts while a renewal is due serves the stored certificate.
#[tokio::test(start_paused = true)]
async fn the_stored_certificate_is_served_if_the_secret_cannot_be_written() {
    let api = Fake::default();
    let ahead = begin(&api);
    pass(1).await;
    let stored = api.secret();
    api.keeps.store(true, Ordering::SeqCst);
    ahead.store(80 * DAY, Ordering::SeqCst);
    let other = begin_at(&api, &ahead);
    pass(1).await;
    assert!(api.calls("PUT", "/secrets") > 0, "a renewal is due");
    assert_eq!(api.secret(), stored);
    let reasons = other.not_ready_reasons();
    assert!(
        reasons
            .iter()
            .all(|each| !each.contains("no serving certificate")),
        "{reasons:?}"
    );
}

/// An idle replica, with nothing to renew or repair, sends few requests to the API server.
#[tokio::test(start_paused = true)]
async fn a_round_is_no_more_often_than_a_minute_needs() {
    let api = Fake::default();
    begin(&api);
    pass(10 * MINUTES).await;
    let rounds = api.calls("GET", "/secrets");
    assert!((11..=13).contains(&rounds), "{rounds} in ten minutes");
}

/// The message of the API server about an invalid configuration quotes the path of its webhooks.
#[tokio::test(start_paused = true)]
async fn the_log_does_not_quote_the_path_of_a_webhook() {
    let secret = "0123456789abcdef".repeat(4);
    let api = Fake {
        refusal: Some(format!(
            "invalid value: \"/{secret}/pvc-protection/claims\""
        )),
        ..Fake::default()
    };
    let log = Log::begin();
    begin(&api);
    pass(1).await;
    let lines = log.lines();
    assert!(lines.contains("invalid value"), "{lines}");
    assert!(!lines.contains(&secret), "{lines}");
}

/// After a failed round, the metrics of webhooks are those of an earlier one.
#[tokio::test(start_paused = true)]
async fn the_time_of_the_last_round_that_succeeded_is_a_metric() {
    for fails in [false, true] {
        let api = Fake {
            refusal: fails.then(|| "no".to_owned()),
            ..Fake::default()
        };
        let metrics = Metrics::new();
        begin_with(&api, &Arc::default(), &metrics);
        pass(1).await;
        let text = metrics.text();
        let success = "volume_warden_webhooks_last_success_timestamp_seconds{task=\"CABundle\"}";
        assert_eq!(text.contains(success), !fails, "{text}");
    }
}
