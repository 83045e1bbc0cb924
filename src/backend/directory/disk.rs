//! File system operations. Everything here blocks.

use super::MARKER;
use crate::backend::{Deletion, Failure, Listed, Listing, Sentence, name::may_be_namespace};
use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, open, statat, unlinkat},
    io::{Errno, Result as IoResult},
};
use std::{
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// An open directory that held the marker when it was opened.
pub(super) struct Root(OwnedFd);

impl Root {
    /// Opens the root. The path to the root may contain symbolic links, because the administrator
    /// configured it. The marker may not be one.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let shown = path.display();
        let root = open(path, how, Mode::empty())
            .map_err(|error| failure(&format!("{shown} cannot be opened"), error))?;
        let marked = match statat(&root, MARKER, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => kind(&stat) == FileType::RegularFile,
            Err(Errno::NOENT) => false,
            Err(error) => return Err(failure(&format!("{MARKER} cannot be examined"), error)),
        };
        marked.then_some(Self(root)).ok_or_else(|| {
            Failure::server(format!(
                "{shown} holds no file {MARKER}: it is not the root, or nothing is mounted there"
            ))
        })
    }

    pub(super) fn list(&self) -> Result<Listing, Failure> {
        let unreadable = |error| failure("the root cannot be read", error);
        let mut listing = Listing::default();
        for entry in Dir::read_from(&self.0).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let Ok(name) = entry.file_name().to_str() else {
                listing.skipped += 1;
                continue;
            };
            if [".", "..", MARKER].contains(&name) {
                continue;
            }
            match self.listed(name) {
                Ok(Some(namespace)) => listing.namespaces.push(namespace),
                Ok(None) => listing.skipped += 1,
                Err(Errno::NOENT) => {}
                Err(error) => return Err(failure("a directory cannot be examined", error)),
            }
        }
        Ok(listing)
    }

    /// Nothing, if it was not `in_time` when everything was known.
    pub(super) fn remove(
        &self,
        namespace: &Listed,
        in_time: impl Fn() -> bool,
    ) -> Option<Result<Deletion, Failure>> {
        let name = &*namespace.id;
        let current = match self.listed(name) {
            Ok(current) => current,
            Err(Errno::NOENT) => None,
            Err(error) => return Some(Err(failure("the directory cannot be examined", error))),
        };
        let answer = match current {
            None => Deletion::NotFound,
            Some(current) if current.version != namespace.version => Deletion::Stale,
            Some(_) if !in_time() => return None,
            // What becomes a link or a file from here on makes this fail, and what is filled as
            // well.
            Some(_) => return Some(removed(unlinkat(&self.0, name, AtFlags::REMOVEDIR))),
        };
        Some(Ok(answer))
    }

    /// Nothing, if that is not the directory of a namespace. A name that may be one cannot lead
    /// out of the root.
    fn listed(&self, name: &str) -> IoResult<Option<Listed>> {
        if !may_be_namespace(name) {
            return Ok(None);
        }
        let stat = statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok((kind(&stat) == FileType::Directory).then(|| Listed {
            id: name.to_owned(),
            name: name.to_owned(),
            version: version(&stat),
            since: since(&stat),
        }))
    }
}

/// What `rmdir` says.
pub(super) fn removed(answer: IoResult<()>) -> Result<Deletion, Failure> {
    let not_empty = |why| Ok(Deletion::NotEmpty(Sentence::new(why)));
    match answer {
        Ok(()) => Ok(Deletion::Deleted),
        // Something else took the name meanwhile; the directory is gone.
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(Deletion::NotFound),
        Err(Errno::NOTEMPTY | Errno::EXIST) => not_empty("the directory is not empty"),
        Err(Errno::BUSY) => not_empty("a file system is mounted on the directory"),
        Err(error) => Err(failure("the directory cannot be removed", error)),
    }
}

fn failure(what: &str, error: Errno) -> Failure {
    let why = format!("{what}: {error}");
    match error {
        Errno::ACCESS | Errno::PERM | Errno::ROFS => Failure::rights(why),
        _ => Failure::server(why),
    }
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Inode numbers are reused at once, so they identify a directory only together with the time of
/// its last change. That time also changes with every entry that is added or removed.
fn version(stat: &Stat) -> String {
    format!(
        "{}-{}-{}.{:09}",
        stat.st_dev, stat.st_ino, stat.st_ctime, stat.st_ctime_nsec
    )
}

fn since(stat: &Stat) -> Option<SystemTime> {
    let seconds = u64::try_from(stat.st_mtime).ok()?;
    let nanoseconds = u32::try_from(stat.st_mtime_nsec).ok()?;
    UNIX_EPOCH.checked_add(Duration::new(seconds, nanoseconds))
}
