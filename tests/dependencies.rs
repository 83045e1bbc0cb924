//! Checks the dependencies of the program and its tests: `deny.toml` bans none of them, and all are
//! from crates.io. The notices contain the licences of the crates in the program, and the base
//! image is named by its digest.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

const LOCKS: [&str; 2] = [
    include_str!("../Cargo.lock"),
    include_str!("../fuzz/Cargo.lock"),
];
const DENY: &str = include_str!("../deny.toml");
const CONTAINERFILE: &str = include_str!("../Containerfile");
const TOOLCHAIN: &str = include_str!("../rust-toolchain.toml");
/// The target platforms of the image and of the archives.
const SYSTEMS: [&str; 5] = [
    "x86_64-unknown-linux-musl",
    "aarch64-unknown-linux-musl",
    "x86_64-apple-darwin",
    "aarch64-apple-darwin",
    "x86_64-pc-windows-msvc",
];
/// Each licence that requires its text to be included has more characters than this.
const SHORTEST_LICENCE: usize = 500;
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

/// Runs a command in the root of the project, and returns what it prints.
fn output(program: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = command.output().expect(program);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {errors}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The crates in the program, as `name version`, without those of build scripts and tests.
fn crates() -> BTreeSet<String> {
    let mut arguments = vec!["tree", "--locked", "--package", "volume-warden"];
    arguments.extend(["--edges", "normal", "--prefix", "none", "--format", "{p}"]);
    arguments.extend(SYSTEMS.iter().flat_map(|system| ["--target", system]));
    let tree = output(env!("CARGO"), &arguments);
    let mut crates = BTreeSet::new();
    for line in tree.lines() {
        if let [name, version, ..] = line.split(' ').collect::<Vec<_>>()[..] {
            crates.insert(format!("{name} {}", version.trim_start_matches('v')));
        }
    }
    let own = concat!("volume-warden ", env!("CARGO_PKG_VERSION"));
    assert!(crates.remove(own), "{crates:?}");
    crates
}

#[test]
fn the_notices_name_every_crate() {
    let notices = output("release/notices", &[]);
    let mut longest: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in notices.split(&"=".repeat(80)).skip(1) {
        let (titles, text) = entry.split_once(&"-".repeat(80)).expect("a text");
        for title in titles.trim().lines() {
            let name = title.split(" (").next().expect("a name");
            let length = longest.entry(name).or_default();
            *length = text.trim().len().max(*length);
        }
    }
    let crates = crates();
    for known in ["rustls ", "windows-sys ", "libmimalloc-sys "] {
        assert!(crates.iter().any(|each| each.starts_with(known)), "{known}");
    }
    let without = |each: &&String| {
        let length = longest.get(each.as_str()).copied();
        length.unwrap_or_default() < SHORTEST_LICENCE
    };
    let missing: Vec<_> = crates.iter().filter(without).collect();
    assert!(missing.is_empty(), "without a licence text: {missing:?}");
}

/// The image contains the licences and the SBOM beside the binary.
#[test]
fn the_image_contains_notices_and_sbom() {
    let image = CONTAINERFILE.rsplit("\nFROM scratch\n").next();
    let copied: Vec<_> = image
        .expect("an image")
        .lines()
        .filter_map(|line| line.strip_prefix("COPY "))
        .collect();
    for expected in [
        "LICENSE /LICENSE",
        "--from=builder /THIRD-PARTY-NOTICES.txt /volume-warden.cdx.json /",
        "--from=builder /volume-warden /volume-warden",
    ] {
        assert!(copied.contains(&expected), "{expected}: {copied:?}");
    }
}

/// A tag can be moved to another image, a digest cannot. The version in the tag is that of the
/// tests.
#[test]
fn the_base_image_is_named_by_its_digest() {
    let bases: Vec<_> = CONTAINERFILE
        .lines()
        .filter_map(|line| line.strip_prefix("FROM "))
        .flat_map(|line| line.split(' ').find(|word| !word.starts_with("--")))
        .filter(|base| *base != "scratch")
        .collect();
    let [base] = bases[..] else {
        panic!("one base image, not {bases:?}");
    };
    let (tag, digest) = base.split_once("@sha256:").expect("a digest");
    assert!(digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let channels = values(TOOLCHAIN, "channel");
    let expected = channels.iter().map(|version| format!("rust:{version}-"));
    assert!(
        expected.into_iter().all(|expected| tag.contains(&expected)),
        "{tag} has another version than rust-toolchain.toml: {channels:?}"
    );
}
