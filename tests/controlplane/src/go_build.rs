//! Builds the pinned control plane with Go.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, setpriority_process};
use serde::Deserialize;

use crate::binaries::KWOK_STAGES;
use crate::util::log_progress;

const KWOK_MODULE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/kwok");
const KUBERNETES_PACKAGES: [&str; 5] = [
    "go.etcd.io/etcd/server/v3",
    "k8s.io/kubernetes/cmd/kube-apiserver",
    "k8s.io/kubernetes/cmd/kube-controller-manager",
    "k8s.io/kubernetes/cmd/kube-scheduler",
    "k8s.io/kubernetes/cmd/kubectl",
];
/// KWOK's stages that make nodes Ready, renew their Leases, and run, complete and delete pods.
const STAGE_DIRECTORIES: [&str; 3] = ["node/fast", "node/heartbeat-with-lease", "pod/fast"];
/// The lowest scheduling priority.
const LAST: i32 = 19;
/// The module proxy may be temporarily unreachable.
const DOWNLOAD_ATTEMPTS: usize = 3;
const PROGRESS_INTERVAL: Duration = Duration::from_secs(15);
const GO_MISSING: &str = "the test control plane is built once with the Go toolchain, and there is no `go` in PATH: \
    install Go 1.26 or newer, or name a directory of ready binaries in VOLUME_WARDEN_CONTROLPLANE_BIN";

/// Builds all binaries into `directory`, Kubernetes from this Go module, which pins the version.
pub(crate) fn build(directory: &Path, kubernetes: &str, version: &str) -> Result<()> {
    log_progress(
        "building a Kubernetes control plane for the tests, once; this takes several minutes",
    );
    let flags = kubernetes_ldflags(version)?;
    go_build(
        "etcd and Kubernetes",
        kubernetes,
        &flags,
        &KUBERNETES_PACKAGES,
        directory,
    )?;
    go_build(
        "KWOK",
        KWOK_MODULE,
        "-s -w",
        &["sigs.k8s.io/kwok/cmd/kwok"],
        directory,
    )?;
    // Go names a binary by the last element of its package path.
    fs::rename(directory.join("server"), directory.join("etcd"))
        .context("renaming etcd's server binary")?;
    fs::write(directory.join(KWOK_STAGES), kwok_stages()?).context("writing KWOK's stages")
}

/// Without a version the components report v0.0.0 and refuse `--emulated-version`.
fn kubernetes_ldflags(version: &str) -> Result<String> {
    let numbers = version
        .strip_prefix('v')
        .and_then(|numbers| numbers.split_once('.'));
    let (major, rest) = numbers.with_context(|| format!("{version} is no Kubernetes version"))?;
    let minor = rest.split('.').next().unwrap_or(rest);
    let package = "k8s.io/component-base/version";
    Ok(format!(
        "-s -w -X {package}.gitVersion={version} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}"
    ))
}

/// Downloads the modules of the packages, with normal priority: with the lowest one, beside running
/// clusters, the TLS handshake with the module proxy exceeded its time limit.
fn download_modules(what: &str, module: &Path, packages: &[&str]) -> Result<()> {
    for _ in 0..DOWNLOAD_ATTEMPTS {
        let list = Command::new("go")
            .args(["list", "-deps"])
            .args(packages)
            .current_dir(module)
            .env("CGO_ENABLED", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        if started(list)?.wait()?.success() {
            return Ok(());
        }
    }
    bail!(
        "the modules of {what} in {} could not be downloaded; the output of go is above",
        module.display()
    );
}

/// Builds the packages of a module into a directory.
pub(crate) fn go_build(
    what: &str,
    module: impl AsRef<Path>,
    ldflags: &str,
    packages: &[&str],
    output: &Path,
) -> Result<()> {
    let mut directory = output.as_os_str().to_owned();
    let module = module.as_ref();
    download_modules(what, module, packages)?;
    // With the slash Go treats the path as a directory, also for a single package.
    directory.push("/");
    let child = Command::new("go")
        .args(["build", "-trimpath", "-ldflags", ldflags, "-o"])
        .arg(directory)
        .args(packages)
        .current_dir(module)
        .env("CGO_ENABLED", "0")
        .stdin(Stdio::null())
        .spawn();
    let child = started(child)?;
    // Running clusters take precedence over the build.
    let _ = setpriority_process(Some(Pid::from_child(&child)), LAST);
    let status = wait_with_progress(what, child)?;
    if !status.success() {
        bail!(
            "go build of {what} in {} failed ({status}); its output is above",
            module.display()
        );
    }
    Ok(())
}

fn wait_with_progress(what: &str, mut child: Child) -> Result<ExitStatus> {
    let start = Instant::now();
    let mut said = start;
    log_progress(&format!("building {what}"));
    loop {
        if let Some(status) = child.try_wait()? {
            log_progress(&format!("built {what} in {} s", start.elapsed().as_secs()));
            return Ok(status);
        }
        if said.elapsed() >= PROGRESS_INTERVAL {
            said = Instant::now();
            log_progress(&format!(
                "still building {what}, {} s so far",
                start.elapsed().as_secs()
            ));
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// The stages as one file of YAML documents.
fn kwok_stages() -> Result<String> {
    let list = Command::new("go")
        .args(["list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok"])
        .current_dir(KWOK_MODULE)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    let list = started(list)?.wait_with_output()?;
    let module = PathBuf::from(String::from_utf8(list.stdout)?.trim());
    let mut documents = Vec::new();
    for directory in STAGE_DIRECTORIES {
        documents.extend(stages_in(&module.join("kustomize/stage").join(directory))?);
    }
    Ok(documents.join("\n---\n"))
}

fn stages_in(directory: &Path) -> Result<Vec<String>> {
    let files =
        fs::read_dir(directory).with_context(|| format!("reading {}", directory.display()))?;
    let mut paths = files
        .map(|file| Ok(file?.path()))
        .collect::<Result<Vec<_>>>()?;
    paths.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "yaml")
    });
    paths.sort();
    let mut stages = paths
        .iter()
        .map(fs::read_to_string)
        .collect::<Result<Vec<_>, _>>()?;
    // The directory also contains a kustomization.yaml.
    stages.retain(|stage| stage.lines().any(|line| line == "kind: Stage"));
    Ok(stages)
}

/// A Go module in the module cache.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Downloaded {
    /// The directory of its source.
    pub(crate) dir: PathBuf,
    /// The checksum of its source, as in a go.sum.
    pub(crate) sum: String,
}

/// Downloads a module into the module cache. `directory` decides which go.mod, if any, names its
/// version.
pub(crate) fn download(module: &str, directory: &Path) -> Result<Downloaded> {
    let download = Command::new("go")
        .args(["mod", "download", "-json", module])
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    let download = started(download)?.wait_with_output()?;
    if !download.status.success() {
        let output = String::from_utf8_lossy(&download.stdout);
        bail!("go mod download of {module} failed: {output}");
    }
    serde_json::from_slice(&download.stdout).context("reading the output of go mod download")
}

fn started(child: std::io::Result<Child>) -> Result<Child> {
    match child {
        Ok(child) => Ok(child),
        Err(error) if error.kind() == ErrorKind::NotFound => bail!(GO_MISSING),
        Err(error) => Err(error).context("starting go"),
    }
}
