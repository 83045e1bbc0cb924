//! The reference in `docs/` agrees with the code, and every link of the documentation has a target.
//!
//! Its pages are generated: `VOLUME_WARDEN_WRITE_REFERENCE=1 cargo test --test reference` writes
//! them.

mod causes;
#[path = "../support/documentation.rs"]
mod documentation;
mod events;
mod exit_codes;
mod figures;
mod flags;
mod images;
mod krew;
mod labels;
mod links;
mod metrics;
mod names;
mod readme;
mod recording;
mod roles;
mod snippets;

use std::{fs, path::Path};

/// The root of this repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Compares a generated page with the committed one, or writes it.
fn generated(page: &str, content: &str) {
    let path = root().join(page);
    if std::env::var_os("VOLUME_WARDEN_WRITE_REFERENCE").is_some() {
        fs::write(path, content).expect("the page is written");
        return;
    }
    let committed = fs::read_to_string(path).unwrap_or_default();
    let differs = committed
        .lines()
        .zip(content.lines())
        .find(|(left, right)| left != right);
    assert!(
        committed == content,
        "{page} is not what the code says: run VOLUME_WARDEN_WRITE_REFERENCE=1 cargo test --test \
         reference. First difference: {differs:?}"
    );
}
