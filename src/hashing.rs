//! Hash maps with one secret key for the whole process.
//!
//! The key is random, so that no user can choose object names whose hashes collide. A simulation
//! sets a fixed key: the order of a map decides in which order objects are handled, and must be the
//! same in each run.

use std::{
    collections,
    hash::{BuildHasher, DefaultHasher, Hasher, RandomState},
    sync::OnceLock,
};

/// A hash map whose iteration order depends on the key of the process.
#[expect(
    clippy::disallowed_types,
    reason = "its hasher has the key of the process"
)]
pub type HashMap<K, V> = collections::HashMap<K, V, Keyed>;
/// A hash set whose iteration order depends on the key of the process.
#[expect(
    clippy::disallowed_types,
    reason = "its hasher has the key of the process"
)]
pub type HashSet<T> = collections::HashSet<T, Keyed>;

static KEY: OnceLock<u64> = OnceLock::new();

/// Sets the key of this process. It has no effect after the first map was created.
#[cfg(feature = "simulation")]
pub fn set_key(key: u64) {
    let _ = KEY.set(key);
}

/// Creates hashers with the key of the process.
#[derive(Clone, Copy, Debug)]
pub struct Keyed(u64);

impl Default for Keyed {
    fn default() -> Self {
        Self(*KEY.get_or_init(|| RandomState::new().hash_one(0)))
    }
}

impl BuildHasher for Keyed {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        // The keys of a new `DefaultHasher` are constant and known, so each hash begins with the
        // secret key.
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.0);
        hasher
    }
}
