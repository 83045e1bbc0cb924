//! Tells the program which commit it is built from.

use std::{env, path::Path, process::Command};

const VARIABLE: &str = "VOLUME_WARDEN_COMMIT";

fn main() {
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    let given = env::var(VARIABLE).unwrap_or_default();
    let commit = match given.trim() {
        "" => of_git().unwrap_or_else(|| "unknown".to_owned()),
        given => given.to_owned(),
    };
    if commit.chars().any(|letter| !letter.is_ascii_alphanumeric()) {
        println!("cargo::error={VARIABLE} is {commit:?}; a commit has letters and digits only");
    }
    println!("cargo::rustc-env={VARIABLE}={commit}");
}

/// Only for a release, or whatever is built would be built anew after each commit, and only if this is a repository itself: a
/// tarball may have been unpacked inside of another.
fn of_git() -> Option<String> {
    let root = env::var("CARGO_MANIFEST_DIR").ok()?;
    let released = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    if !released || !Path::new(&root).join(".git").exists() {
        return None;
    }
    // What is checked out, and every move of it. A file that is not there would count as changed each time.
    for file in ["HEAD", "logs/HEAD"] {
        let path = git(&root, &["rev-parse", "--git-path", file])?;
        if Path::new(&root).join(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    git(&root, &["rev-parse", "--short=12", "HEAD"])
}

fn git(root: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(arguments)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
