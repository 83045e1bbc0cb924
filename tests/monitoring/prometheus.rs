//! A real Prometheus: whether each query is one, and whether each alert comes when it should.
//!
//! It is built from its Go module, once, into the same cache as the control plane. That takes longer than everything else here, so
//! it is for `VOLUME_WARDEN_SOAK=1` only.

use crate::shipped::{ROOT, rules};
use anyhow::{Context, Result, ensure};
use std::{
    fs::{self, File},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};
use tempfile::TempDir;
use volume_warden_controlplane::eventually;

const GO_MOD: &str = include_str!("prometheus/go.mod");
const MODULE: &str = "github.com/prometheus/prometheus";
const BINARIES: [&str; 2] = ["prometheus", "promtool"];

/// Where the binaries are.
pub struct Prometheus {
    directory: PathBuf,
}

impl Prometheus {
    /// Where this is the long form of the tests.
    pub fn wanted() -> Result<Option<Self>> {
        let soak = std::env::var_os("VOLUME_WARDEN_SOAK").is_some();
        soak.then(Self::locate).transpose()
    }

    fn locate() -> Result<Self> {
        let mut words = GO_MOD.split_whitespace().skip_while(|word| *word != MODULE);
        let version = words.nth(1).context("go.mod pins no Prometheus")?;
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
        let cache = cache.context("neither XDG_CACHE_HOME nor HOME is set")?;
        let cache = cache.join("volume-warden");
        let directory = cache.join(format!("prometheus-{version}"));
        fs::create_dir_all(&directory)?;
        let lock = File::create(cache.join("prometheus.lock"))?;
        lock.lock()?;
        if !BINARIES.iter().all(|name| directory.join(name).exists()) {
            build(&directory)?;
        }
        Ok(Self { directory })
    }

    fn promtool(&self, arguments: &[&str]) -> Result<()> {
        let output = Command::new(self.directory.join("promtool"))
            .args(arguments)
            .output()?;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        ensure!(output.status.success(), "promtool {arguments:?}: {said}");
        Ok(())
    }

    /// Scrapes the program on that port, and can evaluate each of the queries and rules.
    pub async fn answers(&self, metrics_port: u16, queries: &[String]) -> Result<()> {
        let files = tempfile::tempdir()?;
        let server = self.start(files.path(), metrics_port)?;
        let url = format!("http://{}", server.address);
        eventually("Volume Warden is scraped", async || {
            let scraped = "volume_warden_ready == 1";
            let query = ["query", "instant", &url, scraped];
            let answer = Command::new(self.directory.join("promtool"))
                .args(query)
                .output()?;
            let answer = String::from_utf8(answer.stdout)?;
            ensure!(answer.contains("volume_warden_ready"), "{answer}");
            Ok(())
        })
        .await?;
        for query in queries {
            self.promtool(&["query", "instant", &url, query])?;
        }
        Ok(())
    }

    fn start(&self, files: &Path, metrics_port: u16) -> Result<Server> {
        fs::write(files.join("rules.yaml"), rules().to_string())?;
        let job = serde_json::json!({"job_name": "volume-warden", "scrape_interval": "1s",
            "static_configs": [{"targets": [format!("127.0.0.1:{metrics_port}")], "labels": {"namespace": "volume-warden", "pod": "a"}}]});
        let configuration = serde_json::json!({"global": {"evaluation_interval": "1s"}, "rule_files": ["rules.yaml"], "scrape_configs": [job]});
        let file = files.join("prometheus.yaml");
        fs::write(&file, configuration.to_string())?;
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let log = File::create(files.join("log"))?;
        let process = Command::new(self.directory.join("prometheus"))
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                files.join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        Ok(Server { process, address })
    }
}

struct Server {
    process: Child,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn build(directory: &Path) -> Result<()> {
    let packages = BINARIES.map(|name| format!("{MODULE}/cmd/{name}"));
    let status = Command::new("go")
        .args(["build", "-trimpath", "-ldflags", "-s -w", "-o"])
        .arg(format!("{}/", directory.display()))
        .args(packages)
        .current_dir(format!("{ROOT}/tests/monitoring/prometheus"))
        .env("CGO_ENABLED", "0")
        .status()
        .context("Prometheus is built with Go")?;
    ensure!(
        status.success(),
        "go build of Prometheus failed; its output is above"
    );
    Ok(())
}

/// `alerts.yaml`: each alert provoked.
#[test]
fn alerts_come_when_they_should() -> Result<()> {
    let Some(prometheus) = Prometheus::wanted()? else {
        return Ok(());
    };
    let files: TempDir = tempfile::tempdir()?;
    let (rules_file, tests) = (
        files.path().join("rules.yaml"),
        files.path().join("alerts.yaml"),
    );
    fs::write(&rules_file, rules().to_string())?;
    fs::copy(format!("{ROOT}/tests/monitoring/alerts.yaml"), &tests)?;
    prometheus.promtool(&[
        "check",
        "rules",
        "--lint-fatal",
        &rules_file.to_string_lossy(),
    ])?;
    prometheus.promtool(&["test", "rules", &tests.to_string_lossy()])
}
