//! The directory of a cluster: logs, certificates, etcd's data, a socket.

use std::env;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};

const KEEP_VARIABLE: &str = "VOLUME_WARDEN_KEEP_LOGS";
const LOCK_FILE: &str = "lock";
/// Contains the program that the directory belongs to, unless its logs are to be kept.
const PROGRAM_FILE: &str = "program";
/// How long a directory is kept for reading after a failure, or after the end of a cluster in a
/// `static`, unless the same program runs again before.
const KEPT_FOR: Duration = Duration::from_secs(24 * 60 * 60);
/// The address of a unix socket has at most 108 bytes, so the path must not contain a long name.
const NAME_LIMIT: usize = 24;
/// The directory with the data of etcd, or a link to it.
const DATA: &str = "etcd";
/// A file system in memory.
const MEMORY: &str = "/dev/shm";
/// Bytes that must be free in this file system. The log of each etcd has 128 MB from its start, and
/// two dozen run at a time.
const MEMORY_NEEDED: u64 = 8 << 30;

/// The directory of a cluster. It is deleted when dropped, unless a failure occurred.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    keep: AtomicBool,
    /// Locked while this process lives, to distinguish a directory in use from an abandoned one.
    _lock: File,
}

impl Directory {
    /// Creates a directory. The first call in a process also removes the directories that earlier
    /// runs of the same program left, and those that were abandoned long ago.
    pub(crate) fn create(name: &str) -> Result<Self> {
        static SWEPT: Once = Once::new();
        let base = env::temp_dir().join(format!(
            "volume-warden-{}",
            rustix::process::getuid().as_raw()
        ));
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&base)
            .with_context(|| format!("creating {}", base.display()))?;
        let program = program();
        SWEPT.call_once(|| sweep(&base, program.as_deref()));
        let keep = keeps_logs();
        let directory = Self::create_in(&base, name, program.as_deref().filter(|_| !keep))?;
        directory.keep.store(keep, Ordering::Relaxed);
        Ok(directory)
    }

    fn create_in(base: &Path, name: &str, program: Option<&str>) -> Result<Self> {
        let prefix: String = name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .take(NAME_LIMIT)
            .collect();
        let directory = tempfile::Builder::new()
            .prefix(&format!("{prefix}-"))
            .tempdir_in(base)?;
        let lock = File::create(directory.path().join(LOCK_FILE))?;
        lock.lock()
            .with_context(|| format!("locking {}", directory.path().display()))?;
        if let Some(program) = program {
            fs::write(directory.path().join(PROGRAM_FILE), program)?;
        }
        Ok(Self {
            path: directory.keep(),
            keep: AtomicBool::new(false),
            _lock: lock,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The path at which etcd creates its data: in memory if there is room, because etcd refuses
    /// requests while a slow disk delays its log. The data is removed with this directory, also
    /// after a failure.
    pub(crate) fn data(&self) -> io::Result<PathBuf> {
        let own = self.path.join(DATA);
        if !has_room(Path::new(MEMORY)) {
            return Ok(own);
        }
        let data = tempfile::Builder::new()
            .prefix("volume-warden-etcd-")
            .tempdir_in(MEMORY)?
            .keep();
        // If this process is killed, the link shows the next run what to remove.
        symlink(&data, own)?;
        Ok(data)
    }

    /// Keeps the directory for reading.
    pub(crate) fn keep(&self) {
        self.keep.store(true, Ordering::Relaxed);
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        remove_data(&self.path);
        if thread::panicking() {
            eprintln!("the cluster's logs are kept in {}", self.path.display());
        } else if !self.keep.load(Ordering::Relaxed) {
            // A later run removes what cannot be removed now.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Whether the directory exists and has room for the data of all clusters.
fn has_room(directory: &Path) -> bool {
    let room = rustix::fs::statvfs(directory);
    room.is_ok_and(|room| room.f_bavail.saturating_mul(room.f_frsize) >= MEMORY_NEEDED)
}

/// Removes the data of the cluster with this directory if it is in memory.
fn remove_data(directory: &Path) {
    if let Ok(data) = fs::read_link(directory.join(DATA)) {
        let _ = fs::remove_dir_all(data);
    }
}

/// Whether the user asked to keep the logs of all clusters.
pub(crate) fn keeps_logs() -> bool {
    env::var_os(KEEP_VARIABLE).is_some()
}

/// The program that runs: its path without the hash in the name of a test binary, which changes
/// with each build.
fn program() -> Option<String> {
    let path = env::current_exe().ok()?;
    let name = path.file_name()?.to_str()?;
    let stem = name.rsplit_once('-').map_or(name, |(stem, _)| stem);
    Some(path.with_file_name(stem).to_str()?.to_owned())
}

fn sweep(base: &Path, program: Option<&str>) {
    let Ok(entries) = fs::read_dir(base) else {
        return;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        if (old(&path) || belongs_to(&path, program)) && abandoned(&path) {
            remove_data(&path);
            let _ = fs::remove_dir_all(&path);
        }
    }
}

fn belongs_to(path: &Path, program: Option<&str>) -> bool {
    let of = fs::read_to_string(path.join(PROGRAM_FILE)).ok();
    of.is_some() && of.as_deref() == program
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_run_of_a_program_removes_what_the_last_one_left() -> Result<()> {
        let base = tempfile::tempdir()?;
        let left = |program| -> Result<PathBuf> {
            let directory = Directory::create_in(base.path(), "cluster", program)?;
            directory.keep();
            Ok(directory.path().to_owned())
        };
        let [last, other, kept] = [left(Some("one"))?, left(Some("other"))?, left(None)?];
        let in_memory = base.path().join("in-memory");
        fs::create_dir(&in_memory)?;
        symlink(&in_memory, last.join(DATA))?;
        let running = Directory::create_in(base.path(), "cluster", Some("one"))?;
        sweep(base.path(), Some("one"));
        let exist = [&*last, &in_memory, &other, &kept, running.path()].map(Path::exists);
        assert_eq!(exist, [false, false, true, true, true]);
        Ok(())
    }
}
