//! A root directory that contains only the binary, as in the image.

use anyhow::{Context, Result};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// Runs the binary in the root directory as the user UID and the group GID. The superuser changes
/// to them; any other user needs a new user namespace, in which it keeps its capabilities for
/// chroot.
const ENTRY: &str = r#"#!/bin/sh
if [ "$(id -u)" = 0 ]; then
  exec chroot --userspec=UID:GID "ROOT" /volume-warden "$@"
fi
exec unshare --map-user=UID --map-group=GID --keep-caps chroot "ROOT" /volume-warden "$@"
"#;

/// User and group of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User(pub u32, pub u32);

impl User {
    /// The user that the image names.
    pub const IMAGE: Self = Self(65532, 65532);
    /// A user as OpenShift's `restricted-v2` assigns it: from the range of the namespace, in the
    /// root group.
    pub const ARBITRARY: Self = Self(1_000_650_000, 0);

    /// The user of a process, in the process's own user namespace.
    pub fn of(pid: u32) -> Result<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let id = |key: &str, map: &str| -> Result<u32> {
            let mut lines = status.lines();
            let line = lines.find_map(|line| line.strip_prefix(key));
            let outside: u32 = line
                .and_then(|line| line.split_whitespace().next())
                .with_context(|| format!("no {key}"))?
                .parse()?;
            let map = fs::read_to_string(format!("/proc/{pid}/{map}"))?;
            let mut map = map.split_whitespace().map(str::parse::<u32>);
            let mut next = || map.next().context("an empty map");
            let (first, from) = (next()??, next()??);
            Ok(outside - from + first)
        };
        Ok(Self(id("Uid:", "uid_map")?, id("Gid:", "gid_map")?))
    }
}

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
        for user in [User::IMAGE, User::ARBITRARY] {
            let entry = ENTRY
                .replace("ROOT", &root.path().to_string_lossy())
                .replace("UID", &user.0.to_string())
                .replace("GID", &user.1.to_string());
            fs::write(root.entry(user), entry)?;
            fs::set_permissions(root.entry(user), Permissions::from_mode(0o755))?;
        }
        fs::set_permissions(root.path(), Permissions::from_mode(0o555))?;
        fs::set_permissions(root.directory.path(), Permissions::from_mode(0o755))?;
        Ok(root)
    }

    /// The script that runs the binary in the root directory, as [`User::IMAGE`] or
    /// [`User::ARBITRARY`].
    pub fn entry(&self, user: User) -> PathBuf {
        self.directory.path().join(format!("entry-{}", user.0))
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
            .context("the kubeconfig names no CA file")?;
        for file in [kubeconfig, Path::new(authority)] {
            self.mount(file)?;
        }
        Ok(())
    }

    fn mount(&self, file: &Path) -> Result<()> {
        let inside = self.path().join(file.strip_prefix("/")?);
        // The directory is writable for its owner only while the file is copied.
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
        // The owner can remove the content only from a writable directory.
        let _ = fs::set_permissions(self.path(), Permissions::from_mode(0o755));
    }
}
