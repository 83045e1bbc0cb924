//! The dependencies of the program and its tests: none that `deny.toml` bans, and all from
//! crates.io.

use std::collections::BTreeSet;

const LOCKS: [&str; 2] = [
    include_str!("../Cargo.lock"),
    include_str!("../fuzz/Cargo.lock"),
];
const DENY: &str = include_str!("../deny.toml");
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// The values of the lines `key = "value"`.
fn values<'a>(text: &'a str, key: &str) -> BTreeSet<&'a str> {
    let values = text.lines().filter_map(|line| {
        let value = line.trim().strip_prefix(key)?.strip_prefix(" = \"")?;
        value.split('"').next()
    });
    values.collect()
}

#[test]
fn nothing_banned_is_built_in() {
    let banned = values(DENY, "{ crate");
    assert!(banned.contains("aws-lc-rs"), "{banned:?}");
    for lock in LOCKS {
        let names = values(lock, "name");
        assert!(names.contains("rustls"), "{names:?}");
        let found: Vec<_> = banned.intersection(&names).collect();
        assert!(found.is_empty(), "banned by deny.toml: {found:?}");
    }
}

#[test]
fn everything_is_from_crates_io() {
    for lock in LOCKS {
        assert_eq!(values(lock, "source"), BTreeSet::from([CRATES_IO]));
    }
}
