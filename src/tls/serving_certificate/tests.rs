use super::*;
use crate::{
    cluster::Configuration,
    tls::{pki::Authority, test_api::service_name},
};
use kube::api::{ApiResource, DynamicObject};
use serde_json::json;
use time::{Duration, OffsetDateTime};

fn authority() -> Authority {
    Authority::generate(Duration::days(100), OffsetDateTime::now_utc()).expect("a CA")
}

/// A configuration whose two webhooks have this caBundle.
fn found(name: &'static str, bundle: &str) -> StoredConfiguration {
    let configuration = Configuration::Mutating(name);
    let resource: ApiResource = configuration.resource();
    let bundle = k8s_openapi::ByteString(bundle.as_bytes().to_vec());
    let webhook = |name: &str| json!({"name": name, "clientConfig": {"service": {"name": "a", "namespace": "b"}, "caBundle": bundle}});
    let webhooks = json!({"webhooks": [webhook("one"), webhook("two")]});
    StoredConfiguration {
        configuration,
        service: service_name(),
        object: DynamicObject::new(name, &resource).data(webhooks),
    }
}

fn serving(authority: &Authority, metrics: &Metrics) -> ServingCertificate {
    let serving = ServingCertificate::new(metrics, Clock::system());
    let (names, now) = (["a.b.svc".to_owned()], OffsetDateTime::now_utc());
    let pair = authority.issue(&names, Duration::days(50), now);
    serving.put(&pair.expect("a leaf")).expect("serves");
    serving
}

fn ca_mismatch(metrics: &Metrics) -> String {
    let text = metrics.text();
    let lines = text.lines();
    let mut values =
        lines.filter_map(|line| line.strip_prefix("volume_warden_webhooks_ca_mismatch "));
    values.next().expect("the metric").to_owned()
}

#[test]
fn one_configuration_that_is_wrong_leaves_the_others_in_service() {
    crate::tls::install_crypto();
    let (own, foreign, metrics) = (authority(), authority(), Metrics::new());
    let serving = serving(&own, &metrics);
    assert!(
        !serving.not_ready_reasons().is_empty(),
        "nothing is read yet"
    );
    let (good, bad) = (
        found("good", &own.certificate),
        found("bad", &foreign.certificate),
    );
    for wrong in [bad, found("empty", "")] {
        assert!(!serving.check_trust(&[found("good", &own.certificate), wrong]));
        assert_eq!(serving.not_ready_reasons(), Vec::<String>::new());
        assert_eq!(ca_mismatch(&metrics), "2");
    }
    assert!(serving.check_trust(&[good]));
    assert_eq!(ca_mismatch(&metrics), "0");
}

#[test]
fn a_certificate_that_no_webhook_trusts_is_not_ready() {
    crate::tls::install_crypto();
    let (own, foreign, metrics) = (authority(), authority(), Metrics::new());
    let serving = serving(&own, &metrics);
    assert!(!serving.check_trust(&[found("bad", &foreign.certificate), found("empty", "")]));
    let reasons = serving.not_ready_reasons();
    assert_eq!(reasons.len(), 4, "{reasons:?}");
    assert!(reasons[0].contains("webhook one of bad"), "{reasons:?}");
    assert!(serving.check_trust(&[]), "none is installed");
    assert_eq!(serving.not_ready_reasons(), Vec::<String>::new());
}
