//! Builds version 0.1.0 from the history of this repository.

use anyhow::{Context, Result, ensure};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The commit of version 0.1.0.
const COMMIT: &str = "6433dfa295adeb42ad344e55659969fabeec82f9";

/// The binary and the manifests of version 0.1.0.
pub struct OldVersion {
    pub binary: PathBuf,
    pub manifests: PathBuf,
}

impl OldVersion {
    /// Builds version 0.1.0, unless the cache of this user contains it. Fails if this clone is
    /// shallow or was unpacked without its history.
    pub fn locate() -> Result<Self> {
        let mut commit_exists = git(&["cat-file", "-e", &format!("{COMMIT}^{{commit}}")]);
        ensure!(
            commit_exists.stderr(Stdio::null()).status()?.success(),
            "this clone lacks version 0.1.0, commit {COMMIT}: run git fetch --unshallow"
        );
        let directory = cache()?.join(format!("version-{COMMIT}"));
        let binary = directory.join("volume-warden");
        let source = directory.join("source");
        if !binary.exists() {
            fs::create_dir_all(&source)?;
            unpack(&source)?;
            let built = directory.join("target/debug/volume-warden");
            build(&source, &directory.join("target"))?;
            // The rename ensures that an interrupted copy is never used.
            let copy = directory.join("copy");
            fs::copy(&built, &copy).with_context(|| built.display().to_string())?;
            fs::rename(copy, &binary)?;
        }
        let manifests = source.join("manifests");
        Ok(Self { binary, manifests })
    }
}

fn git(arguments: &[&str]) -> Command {
    let mut git = Command::new("git");
    git.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR"));
    git
}

fn unpack(source: &Path) -> Result<()> {
    let mut archive = git(&["archive", COMMIT]).stdout(Stdio::piped()).spawn()?;
    let stdout = archive.stdout.take().context("a pipe")?;
    let mut tar = Command::new("tar");
    let tar = tar.arg("-x").arg("-C").arg(source).stdin(stdout).status()?;
    ensure!(
        tar.success() && archive.wait()?.success(),
        "git archive | tar failed"
    );
    Ok(())
}

fn build(source: &Path, target: &Path) -> Result<()> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let built = cargo
        .args([
            "build",
            "--locked",
            "--bin",
            "volume-warden",
            "--target-dir",
        ])
        .arg(target)
        .current_dir(source)
        .status()
        .context("starting cargo")?;
    ensure!(built.success(), "version 0.1.0 was not built");
    Ok(())
}

fn cache() -> Result<PathBuf> {
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".cache"));
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache
        .or_else(home)
        .context("neither XDG_CACHE_HOME nor HOME")?;
    Ok(cache.join("volume-warden"))
}
