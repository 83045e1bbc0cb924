use super::*;
use crate::{
    clock::Clock,
    telemetry::Metrics,
    tls::{
        files::POLL,
        pki::Authority,
        test_api::{Fake, WEBHOOKS, service_name},
    },
};
use std::{os::unix::fs::symlink, sync::Arc};

fn pair() -> Pair {
    let (now, day) = (time::OffsetDateTime::now_utc(), time::Duration::DAY);
    Authority::generate(day * 2, now)
        .and_then(|authority| authority.issue(&["localhost".into()], day, now))
        .expect("pair")
}

/// Replaces a mount as the kubelet does: it creates a new directory, and renames a new `..data`
/// link over the old one.
fn mount(root: &std::path::Path, generation: &str, pair: &Pair) {
    let directory = root.join(generation);
    std::fs::create_dir(&directory).expect("directory");
    std::fs::write(directory.join("tls.crt"), &pair.certificate).expect("certificate");
    std::fs::write(directory.join("tls.key"), &pair.key).expect("key");
    symlink(generation, root.join("..data_tmp")).expect("link");
    std::fs::rename(root.join("..data_tmp"), root.join("..data")).expect("rename");
}

async fn settle() {
    for _ in 0..20 {
        tokio::time::sleep(POLL / 4).await;
        // File reads run on other threads, for which paused time does not wait.
        tokio::task::spawn_blocking(std::thread::yield_now)
            .await
            .expect("yields");
    }
}

#[tokio::test(start_paused = true)]
async fn a_swapped_mount_is_followed_and_a_mismatched_pair_is_not() {
    let root = tempfile::tempdir().expect("directory");
    let (first, second) = (pair(), pair());
    mount(root.path(), "1", &first);
    let files = Mounted {
        certificate: root.path().join("..data/tls.crt"),
        key: root.path().join("..data/tls.key"),
    };
    let serving = ServingCertificate::new(&Metrics::new(), Clock::system());
    let loaded = files.load(&serving).await.expect("loads");
    let stop = CancellationToken::new();
    let task = tokio::spawn(loaded.follow(serving.clone(), stop.clone()));
    let serving = || {
        serving
            .certificate
            .load_full()
            .map(|config| Arc::as_ptr(&config) as usize)
    };

    let before = serving();
    settle().await;
    mount(
        root.path(),
        "2",
        &Pair {
            certificate: second.certificate.clone(),
            key: first.key.clone(),
        },
    );
    settle().await;
    assert_eq!(serving(), before, "a key of another certificate is refused");
    mount(root.path(), "3", &second);
    settle().await;
    assert_ne!(serving(), before);
    stop.cancel();
    task.await.expect("ends");
}

#[tokio::test]
async fn a_missing_file_is_reported_by_name() {
    let files = Mounted {
        certificate: "/nowhere/tls.crt".into(),
        key: "/nowhere/tls.key".into(),
    };
    let error = files
        .load(&ServingCertificate::new(&Metrics::new(), Clock::system()))
        .await
        .err()
        .expect("fails");
    assert!(format!("{error:#}").contains("/nowhere/tls.crt"));
}

/// The files change between the read at the start and the first check for changes.
#[tokio::test(start_paused = true)]
async fn a_swap_right_after_the_start_is_followed() {
    let root = tempfile::tempdir().expect("directory");
    let (first, second) = (pair(), pair());
    mount(root.path(), "1", &first);
    let files = Mounted {
        certificate: root.path().join("..data/tls.crt"),
        key: root.path().join("..data/tls.key"),
    };
    let serving = ServingCertificate::new(&Metrics::new(), Clock::system());
    let loaded = files.load(&serving).await.expect("loads");
    let before = serving.certificate.load_full().expect("serves");
    mount(root.path(), "2", &second);
    let task = tokio::spawn(loaded.follow(serving.clone(), CancellationToken::new()));
    settle().await;
    let after = serving.certificate.load_full().expect("serves");
    assert!(!Arc::ptr_eq(&before, &after), "the old one is served");
    task.abort();
}

/// Returns how often the configuration is read in this number of seconds.
async fn checks(api: &Fake, seconds: u64) -> usize {
    let serving = ServingCertificate::new(&Metrics::new(), Clock::system());
    serving.put(&pair()).expect("serves");
    let (client, stop) = (api.client(), CancellationToken::new());
    let read = Configurations::new(client, vec![WEBHOOKS], service_name());
    tokio::spawn(check_trust(serving, read, api.warnings(), stop.clone()));
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    stop.cancel();
    api.calls("GET", "webhookconfigurations")
}

#[tokio::test(start_paused = true)]
async fn a_permanent_mismatch_is_checked_less_and_less_often() {
    crate::tls::install_crypto();
    let checks = checks(&Fake::default(), 600).await;
    assert!(
        (15..=25).contains(&checks),
        "{checks} checks in ten minutes"
    );
}

/// A replica is not ready until it has read the configurations once; after an error, as at the
/// start of an API server, it reads them again soon.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_read_again_soon() {
    crate::tls::install_crypto();
    let api = Fake {
        fails: true,
        ..Fake::default()
    };
    let checks = checks(&api, 20).await;
    assert!(checks >= 4, "{checks} checks in twenty seconds");
}
