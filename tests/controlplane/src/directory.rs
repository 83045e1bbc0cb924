//! The directory of a cluster: logs, certificates, etcd's data, a socket.

use std::env;
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};

const KEEP_VARIABLE: &str = "VOLUME_WARDEN_KEEP_LOGS";
const LOCK_FILE: &str = "lock";
/// How long a directory is kept for reading after a failure, or for a cluster in a `static`.
const KEPT_FOR: Duration = Duration::from_secs(24 * 60 * 60);
/// The address of a unix socket has at most 108 bytes, so the path must not contain a long name.
const NAME_LIMIT: usize = 24;

/// Deleted when dropped, unless a failure occurred.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    keep: AtomicBool,
    /// Locked while this process lives, to distinguish a directory in use from an abandoned one.
    _lock: File,
}

impl Directory {
    /// Creates a directory, and removes those that were abandoned long ago.
    pub(crate) fn create(name: &str) -> Result<Self> {
        let base = env::temp_dir().join(format!(
            "volume-warden-{}",
            rustix::process::getuid().as_raw()
        ));
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&base)
            .with_context(|| format!("creating {}", base.display()))?;
        sweep(&base);
        let prefix: String = name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .take(NAME_LIMIT)
            .collect();
        let directory = tempfile::Builder::new()
            .prefix(&format!("{prefix}-"))
            .tempdir_in(&base)?;
        let lock = File::create(directory.path().join(LOCK_FILE))?;
        lock.lock()
            .with_context(|| format!("locking {}", directory.path().display()))?;
        Ok(Self {
            path: directory.keep(),
            keep: AtomicBool::new(env::var_os(KEEP_VARIABLE).is_some()),
            _lock: lock,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the directory for reading.
    pub(crate) fn keep(&self) {
        self.keep.store(true, Ordering::Relaxed);
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the cluster's logs are kept in {}", self.path.display());
        } else if !self.keep.load(Ordering::Relaxed) {
            // A later run removes what cannot be removed now.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

fn sweep(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else {
        return;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        if old(&path) && abandoned(&path) {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

fn old(path: &Path) -> bool {
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
    modified.is_ok_and(|at| {
        SystemTime::now()
            .duration_since(at)
            .is_ok_and(|age| age > KEPT_FOR)
    })
}

fn abandoned(path: &Path) -> bool {
    File::open(path.join(LOCK_FILE)).is_ok_and(|lock| lock.try_lock().is_ok())
}
