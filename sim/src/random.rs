//! Random numbers that depend on the seed of a history and on the decision that they are used for.
//!
//! Each decision has its own generator, so a decision stays the same when another one is left out.
//! Shrinking depends on that.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Creates the generator for one decision of the history with this seed.
pub fn generator(seed: u64, decision: impl Hash) -> fastrand::Rng {
    fastrand::Rng::with_seed(digest((seed, decision)))
}

/// Returns a number for the value that is the same on each run.
pub fn digest(value: impl Hash) -> u64 {
    // The keys of a new `DefaultHasher` are constants.
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Returns whether an event with this chance in a thousand happens.
pub fn happens(random: &mut fastrand::Rng, per_mille: u32) -> bool {
    random.u32(0..1000) < per_mille
}
