//! Writes a file as a whole or not at all.

use std::{
    fs::{self, OpenOptions, Permissions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

/// Writes the text to a file. An existing file keeps its permissions, and its old content until the
/// new content is complete, or if an error occurs. A pipe or a device is written to directly.
///
/// # Errors
/// When the text cannot be written.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    // A symbolic link is kept, and the file to which it points is replaced.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return fs::write(path, text);
    }
    let temporary = beside(path)?;
    let permissions = fs::metadata(path)
        .map(|metadata| metadata.permissions())
        .ok();
    let written = write(&temporary, text, permissions);
    let written = written.and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // It is possible that the temporary file was not created. The caller gets the first error,
        // so this one is ignored.
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Returns a name for a temporary file in the same directory: a rename from another file system
/// would fail.
fn beside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let name = name.to_string_lossy();
    Ok(path.with_file_name(format!(".{name}.{}.tmp", std::process::id())))
}

fn write(path: &Path, text: &str, permissions: Option<Permissions>) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    if let Some(permissions) = permissions {
        file.set_permissions(permissions)?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn names(directory: &TempDir) -> Vec<String> {
        let entries = fs::read_dir(directory.path()).expect("a directory");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        names
            .map(|name| name.to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn a_file_is_replaced_as_a_whole() {
        let directory = TempDir::new().expect("a directory");
        let path = directory.path().join("page.html");
        for text in ["first", "second"] {
            replace(&path, text).expect("it is written");
            assert_eq!(fs::read_to_string(&path).expect("a text"), text);
            assert_eq!(names(&directory), ["page.html"]);
        }
    }

    #[test]
    fn nothing_is_left_after_an_error() {
        let directory = TempDir::new().expect("a directory");
        let missing = directory.path().join("missing").join("page.html");
        replace(&missing, "text").expect_err("there is no directory");
        replace(directory.path(), "text").expect_err("it is a directory");
        assert!(names(&directory).is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn the_target_of_a_link_is_replaced_and_keeps_its_permissions() {
        use std::os::unix::fs::PermissionsExt as _;

        let directory = TempDir::new().expect("a directory");
        let (path, link) = (directory.path().join("page"), directory.path().join("link"));
        fs::write(&path, "first").expect("a file");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("permissions");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        replace(&link, "second").expect("it is written");
        assert_eq!(fs::read_to_string(&path).expect("a text"), "second");
        assert!(fs::symlink_metadata(&link).expect("a link").is_symlink());
        let mode = fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
