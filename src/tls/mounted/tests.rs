use super::*;
use crate::{
    telemetry::Metrics,
    tls::{Clock, pki::Authority},
};
use std::{os::unix::fs::symlink, sync::Arc};

fn pair() -> Pair {
    let (now, day) = (time::OffsetDateTime::now_utc(), time::Duration::DAY);
    Authority::generate(day * 2, now)
        .and_then(|authority| authority.issue(&["localhost".into()], day, now))
        .expect("pair")
}

/// What the kubelet does: a new directory, and `..data` renamed over to point at it.
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
        // File reads run on other threads, which paused time does not wait for.
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
    let service = Service::new(&Metrics::new(), Clock::system());
    files.load(&service).await.expect("loads");
    let stop = CancellationToken::new();
    let task = tokio::spawn(files.follow(service.clone(), stop.clone()));
    let serving = || {
        service
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
async fn a_missing_file_is_told_by_name() {
    let files = Mounted {
        certificate: "/nowhere/tls.crt".into(),
        key: "/nowhere/tls.key".into(),
    };
    let error = files
        .load(&Service::new(&Metrics::new(), Clock::system()))
        .await
        .expect_err("fails");
    assert!(format!("{error:#}").contains("/nowhere/tls.crt"));
}
