//! Tests for failures that only a file system has.

use super::{
    Directory, MARKER,
    disk::{Root, removed},
    staged::Disk,
    waits_for,
};
use crate::backend::{
    Backend as _, Deletion, Failure, Listed, Outcome,
    contract::{BackendFixture, delete, listed, listing},
};
use parking_lot::Mutex;
use rustix::io::Errno;
use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    pin::pin,
    sync::{Arc, mpsc},
    time::{Duration, SystemTime},
};
use tokio::time::timeout;

async fn why(root: impl AsRef<Path>) -> String {
    let failure = Directory::open(root.as_ref()).await.expect_err("refuses");
    assert_eq!(failure.outcome(), Outcome::Server);
    failure.to_string()
}

#[tokio::test]
async fn a_root_without_the_marker_is_refused() {
    let kept = tempfile::tempdir().expect("a directory");
    let root = kept.path();
    assert!(why(root.join("missing")).await.contains("cannot be opened"));
    assert!(
        why(root)
            .await
            .contains("holds no file .volume-warden-root")
    );
    fs::create_dir(root.join(MARKER)).expect("creates");
    assert!(
        why(root).await.contains("holds no file"),
        "a directory is none"
    );
    fs::remove_dir(root.join(MARKER)).expect("removes");
    symlink("/etc/hostname", root.join(MARKER)).expect("links");
    assert!(why(root).await.contains("holds no file"), "a link is none");
    fs::remove_file(root.join(MARKER)).expect("removes");
    fs::write(root.join(MARKER), "").expect("writes");
    assert!(why(root.join(MARKER)).await.contains("Not a directory"));
    Directory::open(root).await.expect("opens");
}

#[tokio::test]
async fn without_the_marker_nothing_is_deleted() {
    let disk = Disk::new().await;
    disk.create("one").await;
    let namespace = listed(&disk, "one").await;
    fs::remove_file(disk.path(MARKER)).expect("removes");
    let failure = disk.backend().list().await.expect_err("fails");
    assert_eq!(failure.outcome(), Outcome::Server);
    let failure = disk.backend().delete(&namespace).await.expect_err("fails");
    assert_eq!(failure.outcome(), Outcome::Server);
    assert!(disk.has("one").await);
}

#[tokio::test]
async fn a_link_that_took_the_place_is_not_followed() {
    let disk = Disk::new().await;
    disk.create("one").await;
    let namespace = listed(&disk, "one").await;
    fs::create_dir(disk.outside("other")).expect("creates");
    fs::remove_dir(disk.path("one")).expect("removes");
    symlink("../other", disk.path("one")).expect("links");
    assert_eq!(delete(&disk, &namespace).await, Deletion::NotFound);
    assert!(disk.outside("other").is_dir());
    assert!(disk.path("one").is_symlink());
    assert_eq!(listing(&disk).await.skipped, 1);
}

/// The link replaces the directory after all checks, immediately before the removal.
#[tokio::test]
async fn a_link_or_a_file_in_the_last_moment_does_no_harm() {
    for put in [
        (|path: &Path| symlink("../other", path)) as fn(&Path) -> std::io::Result<()>,
        |path| fs::write(path, "data"),
        |_| Ok(()),
    ] {
        let disk = Disk::new().await;
        disk.create("one").await;
        let namespace = listed(&disk, "one").await;
        fs::create_dir(disk.outside("other")).expect("creates");
        let (path, root) = (disk.path("one"), Root::open(&disk.path("")).expect("opens"));
        let answer = root.remove(&namespace, || {
            fs::remove_dir(&path).expect("removes");
            put(&path).is_ok()
        });
        assert_eq!(answer, Some(Ok(Deletion::NotFound)));
        assert!(disk.outside("other").is_dir());
    }
}

#[tokio::test]
async fn what_is_filled_in_the_last_moment_stays() {
    let disk = Disk::new().await;
    disk.create("one").await;
    let namespace = listed(&disk, "one").await;
    let root = Root::open(&disk.path("")).expect("opens");
    let answer = root.remove(&namespace, || fs::write(disk.path("one/data"), "").is_ok());
    assert!(
        matches!(answer, Some(Ok(Deletion::NotEmpty(_)))),
        "{answer:?}"
    );
    assert!(disk.path("one/data").is_file());
}

/// Another file system is mounted over the root between the check of the marker and the removal.
#[tokio::test]
async fn the_removal_is_in_the_root_that_had_the_marker() {
    let disk = Disk::new().await;
    disk.create("one").await;
    let namespace = listed(&disk, "one").await;
    let root = Root::open(&disk.path("")).expect("opens");
    let answer = root.remove(&namespace, || {
        fs::rename(disk.path(""), disk.outside("below")).expect("renames");
        fs::create_dir_all(disk.path("one")).is_ok()
    });
    assert_eq!(answer, Some(Ok(Deletion::Deleted)));
    assert!(disk.path("one").is_dir());
    assert!(!disk.outside("below").join("one").exists());
}

#[tokio::test]
async fn no_name_leads_out_of_the_root() {
    let disk = Disk::new().await;
    fs::create_dir(disk.outside("other")).expect("creates");
    fs::create_dir_all(disk.path("one/two")).expect("creates");
    let absolute = disk.outside("other").display().to_string();
    for id in [
        "", ".", "..", "../other", "one/two", "one/", "/", "a\0b", &absolute,
    ] {
        let namespace = Listed {
            id: id.to_owned(),
            name: "one".to_owned(),
            version: String::new(),
            since: None,
        };
        assert_eq!(
            delete(&disk, &namespace).await,
            Deletion::NotFound,
            "{id:?}"
        );
    }
    assert!(disk.outside("other").is_dir() && disk.path("one/two").is_dir());
}

#[tokio::test]
async fn a_directory_reports_its_age() {
    let disk = Disk::new().await;
    disk.create("one").await;
    let then = SystemTime::now() - Duration::from_secs(3600);
    let opened = fs::File::open(disk.path("one")).expect("opens");
    opened.set_modified(then).expect("sets");
    let since = listed(&disk, "one").await.since.expect("has a time");
    assert_eq!(since, then);
}

#[test]
fn system_errors_are_distinguished() {
    let outcome = |answer| match removed(answer) {
        Ok(deletion) => deletion.outcome(),
        Err(failure) => failure.outcome(),
    };
    for (answer, expected) in [
        (Ok(()), Outcome::Ok),
        (Err(Errno::NOENT), Outcome::NotFound),
        (Err(Errno::NOTDIR), Outcome::NotFound),
        (Err(Errno::NOTEMPTY), Outcome::InUse),
        (Err(Errno::EXIST), Outcome::InUse),
        (Err(Errno::BUSY), Outcome::InUse),
        (Err(Errno::ACCESS), Outcome::Forbidden),
        (Err(Errno::PERM), Outcome::Forbidden),
        (Err(Errno::ROFS), Outcome::Forbidden),
        (Err(Errno::NOSPC), Outcome::Server),
        (Err(Errno::IO), Outcome::Transport),
        (Err(Errno::STALE), Outcome::Transport),
    ] {
        assert_eq!(outcome(answer), expected, "{answer:?}");
    }
}

#[tokio::test]
async fn a_call_to_a_disk_that_hangs_times_out_and_does_not_happen_later() {
    let disk = Disk::new().await;
    disk.create("one").await;
    let namespace = listed(&disk, "one").await;
    let limit = Duration::from_millis(50);
    let slow = Directory::at(disk.path(""), limit);
    let (release, hold) = mpsc::channel::<()>();
    let (sender, receiver) = mpsc::channel();
    let failure = slow
        .on_disk(move |root, in_time| {
            let _ = hold.recv();
            let _ = sender.send(root.remove(&namespace, in_time));
            Ok(())
        })
        .await
        .expect_err("late");
    assert_eq!(failure.outcome(), Outcome::Timeout);
    release.send(()).expect("still there");
    let answer = tokio::task::spawn_blocking(move || receiver.recv()).await;
    assert_eq!(answer.expect("ends"), Ok(None));
    assert!(disk.has("one").await);
}

/// The deletion waits while the caller loses the Lease or its process stops. Then it must not
/// happen any more.
#[tokio::test]
async fn an_abandoned_deletion_does_not_happen() {
    let disk = Disk::new().await;
    disk.create("one").await;
    let namespace = listed(&disk, "one").await;
    let (release, hold) = mpsc::channel::<()>();
    let (sender, receiver) = mpsc::channel();
    let directory = Directory::at(disk.path(""), Duration::from_secs(60));
    let work = directory.on_disk(move |root, in_time| {
        let _ = hold.recv();
        let _ = sender.send(root.remove(&namespace, in_time));
        Ok(())
    });
    let left = tokio::time::timeout(Duration::from_millis(50), work).await;
    assert!(left.is_err());
    release.send(()).expect("still there");
    let answer = tokio::task::spawn_blocking(move || receiver.recv()).await;
    assert_eq!(answer.expect("ends"), Ok(None));
    assert!(disk.has("one").await);
}

/// At the start of a process, the server of a network file system may not answer: the other
/// components must start.
#[tokio::test]
async fn a_disk_that_hangs_at_first_is_ready_once_it_answers() {
    let disk = Disk::new().await;
    assert!(disk.backend().is_ready());
    let directory = Directory::at(disk.path(""), Duration::from_millis(20));
    let hanging = directory.permits.clone().acquire_many_owned(4).await;
    let begun = directory.open_first(Duration::from_millis(10)).await;
    assert_eq!((begun, directory.is_ready()), (Ok(()), false));
    let opening = directory.open_in_attempts(Duration::from_millis(1));
    let mut opening = pin!(opening);
    let limit = Duration::from_millis(100);
    assert!(
        timeout(limit, &mut opening).await.is_err(),
        "it still hangs"
    );
    drop(hanging);
    opening.await;
}

/// A process whose root directory has no marker file must not start, and one whose root may not be
/// read neither.
#[test]
fn only_a_disk_that_fails_is_waited_for() {
    let is_waited_for = |failure: Failure| waits_for(&failure);
    assert!(is_waited_for(Failure::timeout("")) && is_waited_for(Failure::transport("")));
    assert!(!is_waited_for(Failure::server("")) && !is_waited_for(Failure::permissions("")));
}

#[tokio::test]
async fn a_list_ends_once_its_caller_no_longer_waits() {
    let disk = Disk::new().await;
    for name in ["one", "two", "three"] {
        fs::create_dir(disk.path(name)).expect("creates");
    }
    let root = Root::open(&disk.path("")).expect("opens");
    let entries = Mutex::new(0);
    let in_time = || {
        let mut entries = entries.lock();
        *entries += 1;
        *entries < 3
    };
    assert_eq!(root.list(in_time), None);
    assert_eq!(*entries.lock(), 3, "no further entry is read");
}

#[tokio::test]
async fn threads_that_hang_are_few() {
    let disk = Disk::new().await;
    let slow = Directory::at(disk.path(""), Duration::from_millis(20));
    let (release, hold) = mpsc::channel::<()>();
    let hold = Arc::new(Mutex::new(hold));
    let (sender, receiver) = mpsc::channel();
    for _ in 0..super::MAX_CONCURRENT_CALLS * 3 {
        let (hold, sender) = (hold.clone(), sender.clone());
        let hanging = slow.on_disk(move |_, _| {
            let _ = sender.send(());
            let _ = hold.lock().recv();
            Ok(())
        });
        hanging.await.expect_err("late");
    }
    drop((release, sender));
    // The loop ends when no thread works any more: on a busy machine a thread may not have begun
    // yet.
    let started = tokio::task::spawn_blocking(move || receiver.iter().count());
    assert_eq!(started.await.expect("ends"), super::MAX_CONCURRENT_CALLS);
}

#[tokio::test]
async fn one_that_was_used_since_it_was_listed_has_to_be_listed_again() {
    let disk = Disk::new().await;
    disk.create("one").await;
    let namespace = listed(&disk, "one").await;
    disk.next_moment().await;
    disk.fill("one").await;
    disk.empty("one").await;
    assert_eq!(delete(&disk, &namespace).await, Deletion::Stale);
    assert!(disk.has("one").await);
    let namespace = listed(&disk, "one").await;
    assert_eq!(delete(&disk, &namespace).await, Deletion::Deleted);
}
