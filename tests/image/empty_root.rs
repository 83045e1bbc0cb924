//! An empty root directory for one process.

use anyhow::{Context, Result};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// Root becomes the user of the image; any other user can only become root of a new user
/// namespace.
const ENTRY: &str = r#"#!/bin/sh
if [ "$(id -u)" = 0 ]; then
  exec chroot --userspec=65532:65532 "ROOT" /volume-warden "$@"
fi
exec unshare --map-root-user chroot "ROOT" /volume-warden "$@"
"#;

/// A root directory with the binary as its only content.
pub struct EmptyRoot {
    directory: TempDir,
}

impl EmptyRoot {
    /// Creates a root directory with this binary.
    pub fn with(binary: &Path) -> Result<Self> {
        let directory = TempDir::new()?;
        let root = Self { directory };
        fs::create_dir(root.path())?;
        fs::copy(binary, root.path().join("volume-warden"))
            .with_context(|| format!("copying {}", binary.display()))?;
        let entry = ENTRY.replace("ROOT", &root.path().to_string_lossy());
        fs::write(root.entry(), entry)?;
        fs::set_permissions(root.entry(), Permissions::from_mode(0o755))?;
        fs::set_permissions(root.path(), Permissions::from_mode(0o555))?;
        fs::set_permissions(root.directory.path(), Permissions::from_mode(0o755))?;
        Ok(root)
    }

    /// Runs the binary in the root directory.
    pub fn entry(&self) -> PathBuf {
        self.directory.path().join("entry")
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    /// Copies the kubeconfig and the CA file that it names to the same paths in the root
    /// directory.
    pub fn mount_kubeconfig(&self, kubeconfig: &Path) -> Result<()> {
        let config: Value = serde_json::from_slice(&fs::read(kubeconfig)?)?;
        let authority = config
            .pointer("/clusters/0/cluster/certificate-authority")
            .and_then(Value::as_str)
            .context("the kubeconfig names no authority")?;
        for file in [kubeconfig, Path::new(authority)] {
            self.mount(file)?;
        }
        Ok(())
    }

    fn mount(&self, file: &Path) -> Result<()> {
        let inside = self.path().join(file.strip_prefix("/")?);
        // The directory's owner may write to it for this moment.
        fs::set_permissions(self.path(), Permissions::from_mode(0o755))?;
        fs::create_dir_all(inside.parent().context("a file is in a directory")?)?;
        fs::copy(file, &inside)?;
        fs::set_permissions(&inside, Permissions::from_mode(0o444))?;
        fs::set_permissions(self.path(), Permissions::from_mode(0o555))?;
        Ok(())
    }

    /// Every path in the root directory.
    pub fn files(&self) -> Result<BTreeSet<PathBuf>> {
        let mut found = BTreeSet::new();
        let mut unread = vec![self.path()];
        while let Some(directory) = unread.pop() {
            for entry in fs::read_dir(directory)? {
                let path = entry?.path();
                if path.is_dir() {
                    unread.push(path.clone());
                }
                found.insert(path);
            }
        }
        Ok(found)
    }
}

impl Drop for EmptyRoot {
    fn drop(&mut self) {
        // Otherwise its owner could not remove its content.
        let _ = fs::set_permissions(self.path(), Permissions::from_mode(0o755));
    }
}
