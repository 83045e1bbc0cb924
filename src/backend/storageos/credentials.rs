//! User and password for StorageOS, read from the files of a mounted Secret.

use crate::backend::Failure;
use serde::Serialize;
use std::path::Path;

/// User and password for the login to StorageOS. The type does not implement `Debug`, so that they
/// are never logged.
#[derive(Serialize)]
pub(super) struct Credentials {
    username: String,
    password: String,
}

impl Credentials {
    /// Reads the user and the password from their files in `directory`.
    ///
    /// # Errors
    /// When a file cannot be read, is empty or is not UTF-8 text.
    pub(super) async fn read(directory: &Path) -> Result<Self, Failure> {
        Ok(Self {
            username: word(&directory.join("username")).await?,
            password: word(&directory.join("password")).await?,
        })
    }
}

async fn word(file: &Path) -> Result<String, Failure> {
    let shown = file.display();
    let text = tokio::fs::read_to_string(file)
        .await
        .map_err(|error| Failure::credentials(format!("cannot read {shown}: {error}")))?;
    match text.trim() {
        "" => Err(Failure::credentials(format!("{shown} is empty"))),
        word => Ok(word.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ns_27_white_space_around_them_does_not_count() {
        let files = tempfile::tempdir().expect("a directory");
        let write = |name, text| std::fs::write(files.path().join(name), text).expect("writes");
        write("username", " admin\n");
        let missing = Credentials::read(files.path()).await.err();
        let why = missing.expect("fails").to_string();
        assert!(why.contains("password: No such file"), "{why}");

        write("password", "\t\n");
        let empty = Credentials::read(files.path()).await.err();
        let why = empty.expect("fails").to_string();
        assert!(why.ends_with("password is empty"), "{why}");

        write("password", "\r\npass word\r\n");
        let read = Credentials::read(files.path()).await.expect("reads");
        assert_eq!((&*read.username, &*read.password), ("admin", "pass word"));
    }
}
