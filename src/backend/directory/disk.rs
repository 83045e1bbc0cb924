//! File system operations of the backend `directory`. All functions here block.

use super::MARKER;
use crate::backend::{Deletion, Failure, Listed, Listing, Sentence, name::may_be_namespace};
use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, Dir, DirEntry, FileType, Mode, OFlags, Stat, open, statat, unlinkat},
    io::{Errno, Result as IoResult},
};
use std::{
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The errors of a file system whose disk or server fails or is not reachable.
const UNREACHABLE: [Errno; 9] = [
    Errno::IO,
    Errno::STALE,
    Errno::TIMEDOUT,
    Errno::HOSTDOWN,
    Errno::HOSTUNREACH,
    Errno::NETUNREACH,
    Errno::CONNREFUSED,
    Errno::CONNRESET,
    Errno::NOTCONN,
];
/// Maximum number of namespaces in a list: more are no storage of a Kubernetes cluster.
const MAX_NAMESPACES: usize = 100_000;

/// An open root directory that contained the marker file when it was opened.
pub(super) struct Root(OwnedFd);

impl Root {
    /// Opens the root directory. Its path may contain symbolic links, because the administrator
    /// configured it. The marker file may not be a symbolic link.
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

    /// Lists the directories of namespaces. If `in_time` returns false meanwhile, because the
    /// caller no longer waits, it stops and returns none: a file system may return entries without
    /// end.
    pub(super) fn list(&self, in_time: impl Fn() -> bool) -> Option<Result<Listing, Failure>> {
        let mut listing = Listing::default();
        let entries = match Dir::read_from(&self.0) {
            Ok(entries) => entries,
            Err(error) => return Some(Err(unreadable(error))),
        };
        for entry in entries {
            if !in_time() {
                return None;
            }
            if let Err(failure) = self.add(entry, &mut listing) {
                return Some(Err(failure));
            }
        }
        Some(Ok(listing))
    }

    fn add(&self, entry: IoResult<DirEntry>, listing: &mut Listing) -> Result<(), Failure> {
        let entry = entry.map_err(unreadable)?;
        let Ok(name) = entry.file_name().to_str() else {
            listing.skipped += 1;
            return Ok(());
        };
        if [".", "..", MARKER].contains(&name) {
            return Ok(());
        }
        match self.listed(name) {
            Ok(Some(_)) if listing.namespaces.len() == MAX_NAMESPACES => {
                return Err(Failure::server(format!(
                    "the root directory has more than {MAX_NAMESPACES} directories of namespaces"
                )));
            }
            Ok(Some(namespace)) => listing.namespaces.push(namespace),
            Ok(None) => listing.skipped += 1,
            Err(Errno::NOENT) => {}
            Err(error) => {
                return Err(failure("a directory of the root cannot be examined", error));
            }
        }
        Ok(())
    }

    /// Removes the directory of a namespace if it is empty and has not changed since it was listed.
    /// If `in_time` returns false right before the removal, because the caller no longer waits, it
    /// removes nothing and returns none.
    pub(super) fn remove(
        &self,
        namespace: &Listed,
        in_time: impl Fn() -> bool,
    ) -> Option<Result<Deletion, Failure>> {
        let name = &*namespace.id;
        let current = match self.listed(name) {
            Ok(current) => current,
            Err(Errno::NOENT) => None,
            Err(error) => {
                return Some(Err(failure(
                    "the directory of the namespace cannot be examined",
                    error,
                )));
            }
        };
        let answer = match current {
            None => Deletion::NotFound,
            Some(current) if current.version != namespace.version => Deletion::Stale,
            Some(_) if !in_time() => return None,
            // If the directory is replaced by a link or a file, or gets content, from here on, the
            // removal fails.
            Some(_) => return Some(removed(unlinkat(&self.0, name, AtFlags::REMOVEDIR))),
        };
        Some(Ok(answer))
    }

    /// Describes the directory of a namespace; none if `name` is not such a directory. A valid
    /// namespace name cannot lead out of the root.
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

/// Translates the result of `rmdir` on the directory of a namespace.
pub(super) fn removed(answer: IoResult<()>) -> Result<Deletion, Failure> {
    let not_empty = |why| Ok(Deletion::NotEmpty(Sentence::new(why)));
    match answer {
        Ok(()) => Ok(Deletion::Deleted),
        // The listed directory was removed; another file may have its name now.
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(Deletion::NotFound),
        Err(Errno::NOTEMPTY | Errno::EXIST) => not_empty("the directory is not empty"),
        Err(Errno::BUSY) => not_empty("a file system is mounted on the directory"),
        Err(error) => Err(failure(
            "the directory of the namespace cannot be removed",
            error,
        )),
    }
}

fn unreadable(error: Errno) -> Failure {
    failure("the root directory cannot be read", error)
}

fn failure(what: &str, error: Errno) -> Failure {
    let why = format!("{what}: {error}");
    match error {
        Errno::ACCESS | Errno::PERM | Errno::ROFS => Failure::permissions(why),
        error if UNREACHABLE.contains(&error) => Failure::transport(why),
        _ => Failure::server(why),
    }
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Identifies the state of a directory. Inode numbers are reused at once, so the version also
/// contains the time of the last change, which every added or removed entry updates.
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
