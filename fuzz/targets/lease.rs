//! A replica leads only by a Lease that is free, its own, or unchanged for its whole duration, and
//! otherwise writes nothing. Each write is a valid Lease, and the last one releases it.

#![no_main]

mod api;

use api::Api;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use libfuzzer_sys::fuzz_target;
use std::{sync::Arc, time::Duration};
use tokio::{
    runtime::Builder,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;
use volume_warden::{
    clock::Clock,
    cluster::{Elector, LatestTime, LeaseName, OBSERVED_SINCE},
    telemetry::Metrics,
};

/// How long the replica tries to lead, in virtual time.
const SPAN: Duration = Duration::from_secs(40);
/// Maximum time from the moment when the Lease may be acquired until it is acquired.
const DELAY: Duration = Duration::from_secs(2);

fuzz_target!(|text: &str| {
    let mut runtime = Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(check(text));
});

async fn check(text: &str) {
    let api = Api::storing(text.as_bytes());
    let leases = kube::Api::namespaced(api.client(|_| None), "system");
    let name = LeaseName {
        namespace: "system".to_owned(),
        name: "volume-warden".to_owned(),
        identity: "me".to_owned(),
        former: None,
        labels: [("app".to_owned(), "volume-warden".to_owned())].into(),
    };
    let metrics = Arc::new(Metrics::new());
    let (elector, leadership) =
        Elector::new(leases, name, metrics, LatestTime::new(Clock::system()));
    let (stop, began) = (CancellationToken::new(), Instant::now());
    let running = tokio::spawn(elector.run(stop.clone()));
    let led = timeout(SPAN, leadership.gained()).await.is_ok();
    let after = began.elapsed();
    stop.cancel();
    running.await.expect("no panic");
    assert!(!leadership.holds(), "the replica leads after its end");

    let before: Option<Lease> = serde_json::from_str(text).ok();
    match free_after(text, before.as_ref()) {
        Some(free) => assert!(led && (free..=free + DELAY).contains(&after), "{after:?}"),
        None => assert!(!led && api.state().written.is_empty(), "written"),
    }
    if led {
        check_written(&api, &before.unwrap_or_default());
    }
}

/// The earliest time at which the Lease may be acquired; None if that is too late for [`SPAN`].
fn free_after(text: &str, lease: Option<&Lease>) -> Option<Duration> {
    if text.is_empty() {
        return Some(Duration::ZERO);
    }
    let spec = lease?.spec.clone().unwrap_or_default();
    let seconds = match spec.holder_identity.as_deref() {
        None | Some("" | "me") => 0,
        Some(_) => spec.lease_duration_seconds.unwrap_or_default().max(0),
    };
    let free = Duration::from_secs(seconds.unsigned_abs().into());
    (free < SPAN - DELAY).then_some(free)
}

/// Checks that the first write acquires the Lease and keeps its other fields, and that the last one
/// releases it.
fn check_written(api: &Api, before: &Lease) {
    let written = api.state().written.clone();
    let leases = written.into_iter().map(serde_json::from_value::<Lease>);
    let leases: Vec<_> = leases.map(|lease| lease.expect("a Lease")).collect();
    let first = leases[0].clone();
    let mut metadata = before.metadata.clone();
    let labels = metadata.labels.get_or_insert_default();
    labels.insert("app".to_owned(), "volume-warden".to_owned());
    // A replica that does not observe the Lease removes the observation time of an earlier holder.
    if let Some(annotations) = &mut metadata.annotations {
        annotations.remove(OBSERVED_SINCE);
    }
    metadata.name = first.metadata.name.clone();
    assert_eq!(first.metadata, metadata);
    let spec = first.spec.expect("a spec");
    assert_eq!(spec.holder_identity.as_deref(), Some("me"));
    assert!(spec.renew_time.is_some() && spec.lease_duration_seconds > Some(0));
    assert_eq!(spec.lease_transitions, Some(transitions(before)));
    let last = leases.last().and_then(|lease| lease.spec.clone());
    let last = last.expect("a spec");
    assert_eq!(last.holder_identity.as_deref(), Some(""));
    assert_eq!(last.lease_duration_seconds, Some(1));
}

/// The expected `leaseTransitions`: each new holder increases it, except the very first one.
fn transitions(before: &Lease) -> i32 {
    let LeaseSpec {
        holder_identity,
        lease_transitions,
        ..
    } = before.spec.clone().unwrap_or_default();
    match (holder_identity.as_deref(), lease_transitions) {
        (Some("me"), count) => count.unwrap_or_default(),
        (None, None) => 0,
        (_, count) => count.unwrap_or_default().saturating_add(1),
    }
}
