//! Sets the commit that `--version` prints.

use std::{env, path::Path, process::Command};

const VARIABLE: &str = "VOLUME_WARDEN_COMMIT";

fn main() {
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    let given = env::var(VARIABLE).unwrap_or_default();
    let commit = match given.trim() {
        "" => git_commit().unwrap_or_else(|| "unknown".to_owned()),
        given => given.to_owned(),
    };
    if commit.chars().any(|letter| !letter.is_ascii_alphanumeric()) {
        println!("cargo::error={VARIABLE} is {commit:?}; use only letters and digits");
    }
    println!("cargo::rustc-env={VARIABLE}={commit}");
}

/// The commit of the git checkout. Only for a release, because other profiles would be rebuilt
/// after each commit, and only if the project is itself a repository: a tarball may be unpacked
/// inside another repository.
fn git_commit() -> Option<String> {
    let root = env::var("CARGO_MANIFEST_DIR").ok()?;
    let released = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    if !released || !Path::new(&root).join(".git").exists() {
        return None;
    }
    // HEAD, and each change of it. A missing file would count as changed at each build.
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
