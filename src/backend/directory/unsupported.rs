//! In place of `disk` on systems without the file system calls that it needs.

use crate::backend::{Deletion, Failure, Listed, Listing};
use std::{convert::Infallible, path::Path};

/// A root directory, which cannot be opened on this system.
pub(super) struct Root(Infallible);

impl Root {
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        Err(Failure::server(format!(
            "{shown} cannot be opened: the storage backend `directory` needs Unix"
        )))
    }

    pub(super) fn list(&self, _: impl Fn() -> bool) -> Option<Result<Listing, Failure>> {
        match self.0 {}
    }

    pub(super) fn remove(
        &self,
        _: &Listed,
        _: impl Fn() -> bool,
    ) -> Option<Result<Deletion, Failure>> {
        match self.0 {}
    }
}
