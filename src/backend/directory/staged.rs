//! The contract of a storage backend, run on a directory of this machine.

use super::{Directory, MARKER};
use crate::backend::{
    Backend,
    contract::{BackendFixture, contract},
};
use std::{
    fs,
    os::unix::fs::{MetadataExt, symlink},
    path::{Path, PathBuf},
    time::Duration,
};
use tempfile::TempDir;

pub struct Disk {
    kept: TempDir,
    directory: Directory,
}

impl Disk {
    pub async fn new() -> Self {
        let kept = tempfile::tempdir().expect("a directory");
        let root = kept.path().join("root");
        fs::create_dir(&root).expect("a root");
        fs::write(root.join(MARKER), "").expect("a marker");
        let directory = Directory::open(&root).await.expect("opens");
        Self { kept, directory }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.kept.path().join("root").join(name)
    }

    pub fn outside(&self, name: &str) -> PathBuf {
        self.kept.path().join(name)
    }

    /// Waits until the clock of the file system advances: two directories created in the same step
    /// of that clock have the same time.
    pub async fn next_moment(&self) {
        let probe = self.outside("probe");
        let moment = || {
            fs::write(&probe, "").expect("writes");
            let stat = fs::metadata(&probe).expect("is there");
            (stat.ctime(), stat.ctime_nsec())
        };
        let now = moment();
        while moment() == now {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

fn rename(from: &Path, to: &Path) {
    fs::rename(from, to).expect("renames");
}

impl BackendFixture for Disk {
    fn backend(&self) -> &dyn Backend {
        &self.directory
    }

    async fn create(&self, name: &str) {
        self.next_moment().await;
        fs::create_dir(self.path(name)).expect("creates");
    }

    async fn fill(&self, name: &str) {
        fs::create_dir(self.path(name).join("volume")).expect("fills");
    }

    async fn empty(&self, name: &str) {
        fs::remove_dir(self.path(name).join("volume")).expect("empties");
    }

    async fn remove(&self, name: &str) {
        fs::remove_dir(self.path(name)).expect("removes");
    }

    async fn has(&self, name: &str) -> bool {
        self.path(name).is_dir()
    }

    async fn create_invalid_entries(&self) -> usize {
        let long = "a".repeat(64);
        for name in [
            "Upper",
            "lost+found",
            ".hidden",
            "a.b",
            "-a",
            "a-",
            "ü",
            &long,
        ] {
            fs::create_dir(self.path(name)).expect("creates");
        }
        fs::write(self.path("file"), "").expect("writes");
        symlink(self.kept.path(), self.path("link")).expect("links");
        symlink("nowhere", self.path("dead-link")).expect("links");
        11
    }

    /// Replaces the root by an empty directory, as if its file system were no longer mounted.
    async fn fail(&self) {
        rename(&self.path(""), &self.outside("away"));
        fs::create_dir(self.path("")).expect("a mount point");
    }

    async fn mend(&self) {
        fs::remove_dir(self.path("")).expect("nothing was put there");
        rename(&self.outside("away"), &self.path(""));
    }
}

contract!(Disk::new());
