//! The binaries of the control plane.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::go_build;
use crate::kubernetes::Kubernetes;
use crate::util::log_progress;

/// The variable that names a directory of built binaries.
pub(crate) const DIRECTORY_VARIABLE: &str = "VOLUME_WARDEN_CONTROLPLANE_BIN";
const KWOK_GO_MOD: &str = include_str!("../kwok/go.mod");
const KWOK_GO_SUM: &str = include_str!("../kwok/go.sum");

/// KWOK's stages, stored with the binaries so that a warm cache needs no Go.
pub(crate) const KWOK_STAGES: &str = "kwok-stages.yaml";
const FILES: [&str; 7] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "kwok",
    KWOK_STAGES,
];

/// A directory with etcd, the Kubernetes binaries, kubectl and KWOK.
#[derive(Debug, Clone)]
pub struct Binaries {
    directory: PathBuf,
}

impl Binaries {
    /// Finds the binaries, and builds them on this user's first use.
    ///
    /// They are in the directory that `VOLUME_WARDEN_CONTROLPLANE_BIN` names, or else in
    /// `${XDG_CACHE_HOME:-$HOME/.cache}/volume-warden/controlplane`, one directory for each set of
    /// pinned versions; `VOLUME_WARDEN_KUBERNETES` selects one. Building takes minutes, needs Go,
    /// blocks, and reports its progress on stderr.
    pub fn locate() -> Result<Self> {
        if let Some(directory) = env::var_os(DIRECTORY_VARIABLE) {
            return Self::given(PathBuf::from(directory));
        }
        Self::of(Kubernetes::chosen()?)
    }

    /// Finds the binaries of this version in the cache, and builds them on this user's first use.
    pub(crate) fn of(kubernetes: Kubernetes) -> Result<Self> {
        let cache = cache_directory()?;
        let directory = cache.join(cache_key(kubernetes)?);
        build_once(&cache, &directory, &FILES, |directory| {
            let version = kubernetes_version(kubernetes)?;
            go_build::build(directory, kubernetes.go_module(), version)
        })?;
        Ok(Self { directory })
    }

    /// The path of one of the files, `kubectl` for example.
    pub fn path(&self, file: &str) -> PathBuf {
        self.directory.join(file)
    }

    fn given(directory: PathBuf) -> Result<Self> {
        match missing_file(&directory, &FILES) {
            None => Ok(Self { directory }),
            Some(file) => bail!(
                "{DIRECTORY_VARIABLE} names {}, which has no file {file}",
                directory.display()
            ),
        }
    }
}

/// Builds these files into the directory if they do not exist, under a lock: one test process
/// builds, and the others wait.
pub(crate) fn build_once(
    cache: &Path,
    directory: &Path,
    files: &[&str],
    build: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    if missing_file(directory, files).is_none() {
        return Ok(());
    }
    fs::create_dir_all(cache).with_context(|| format!("creating {}", cache.display()))?;
    let lock = cache.join("build.lock");
    let lock = File::create(&lock).with_context(|| format!("creating {}", lock.display()))?;
    if lock.try_lock().is_err() {
        log_progress("waiting for another process that builds");
        lock.lock().context("waiting for the build lock")?;
    }
    if missing_file(directory, files).is_none() {
        return Ok(());
    }
    let scratch = tempfile::Builder::new()
        .prefix(".building-")
        .tempdir_in(cache)?;
    build(scratch.path())?;
    if let Some(file) = missing_file(scratch.path(), files) {
        bail!("the build did not create {file}");
    }
    if directory.exists() {
        // The directory is incomplete: a file was removed.
        fs::remove_dir_all(directory)
            .with_context(|| format!("removing {}", directory.display()))?;
    }
    // A directory with its final name is always complete.
    fs::rename(scratch.path(), directory)
        .with_context(|| format!("renaming to {}", directory.display()))?;
    let _ = scratch.keep();
    Ok(())
}

/// Finds files that only some tests need, and returns their directory. This is the directory that
/// `VOLUME_WARDEN_CONTROLPLANE_BIN` names, if it has all of them. Otherwise it is a directory in
/// the cache, named after the first file, this version and the hash of these pins, and built on
/// this user's first use.
pub(crate) fn locate_apart(
    files: &[&'static str],
    version: &str,
    pins: &[&str],
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let given = env::var_os(DIRECTORY_VARIABLE).map(PathBuf::from);
    if let Some(given) = given.filter(|given| missing_file(given, files).is_none()) {
        return Ok(given);
    }
    let first = files.first().context("no files to locate")?;
    let name = first.trim_end_matches(".yaml");
    let cache = cache_directory()?;
    let directory = cache.join(format!("{name}-{version}-{:08x}", pins_hash(pins) as u32));
    build_once(&cache, &directory, files, make)?;
    Ok(directory)
}

fn missing_file<'a>(directory: &Path, files: &[&'a str]) -> Option<&'a str> {
    let mut files = files.iter().copied();
    files.find(|file| !directory.join(file).is_file())
}

/// The cache directory of this user's builds.
pub(crate) fn cache_directory() -> Result<PathBuf> {
    let set = |name| {
        env::var_os(name)
            .filter(|value: &OsString| !value.is_empty())
            .map(PathBuf::from)
    };
    let base = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    let base = base
        .with_context(|| format!("neither {DIRECTORY_VARIABLE}, XDG_CACHE_HOME nor HOME is set"))?;
    Ok(base.join("volume-warden/controlplane"))
}

fn cache_key(kubernetes: Kubernetes) -> Result<String> {
    let kwok = pinned_version(KWOK_GO_MOD, "sigs.k8s.io/kwok")?;
    Ok(format!(
        "kubernetes-{}-kwok-{kwok}-{:08x}",
        kubernetes_version(kubernetes)?,
        pins_hash(&[
            kubernetes.go_mod(),
            kubernetes.go_sum(),
            KWOK_GO_MOD,
            KWOK_GO_SUM,
        ]) as u32
    ))
}

fn kubernetes_version(kubernetes: Kubernetes) -> Result<&'static str> {
    pinned_version(kubernetes.go_mod(), "k8s.io/kubernetes")
}

/// The version of the module that this go.mod names.
pub(crate) fn pinned_version<'a>(go_mod: &'a str, module: &str) -> Result<&'a str> {
    let mut lines = go_mod.lines().map(|line| {
        line.trim()
            .trim_start_matches("require ")
            .split_whitespace()
    });
    lines
        .find_map(|mut words| (words.next() == Some(module)).then(|| words.next())?)
        .with_context(|| format!("go.mod does not pin {module}"))
}

/// FNV-1a: std's hasher may change with the toolchain, which would trigger a rebuild.
pub(crate) fn pins_hash(pins: &[&str]) -> u64 {
    let bytes = pins.iter().flat_map(|pin| pin.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
