//! Runs `wrk` on its own core.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::{
    io::ErrorKind,
    path::Path,
    process::{Command, Output},
    time::Duration,
};

/// As many connections as the API server would keep open under this load.
const CONNECTIONS: usize = 16;
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/admission/wrk.lua");

/// The results of `wrk`; times are in microseconds.
#[derive(Deserialize)]
pub struct Load {
    requests: u64,
    failed: u64,
    microseconds: u64,
    p50: u64,
    p99: u64,
}

impl Load {
    /// Responses per second.
    pub fn rate(&self) -> f64 {
        self.requests as f64 / Duration::from_micros(self.microseconds).as_secs_f64()
    }

    /// The median latency.
    pub fn p50(&self) -> Duration {
        Duration::from_micros(self.p50)
    }

    /// The 99th percentile of the latency.
    pub fn p99(&self) -> Duration {
        Duration::from_micros(self.p99)
    }
}

/// Fails if `wrk` or `taskset` is not installed. The error names the packages to install.
pub fn installed() -> Result<()> {
    for program in ["wrk", "taskset"] {
        match Command::new(program).arg("--version").output() {
            Err(error) if error.kind() == ErrorKind::NotFound => anyhow::bail!(
                "`{program}` is not in PATH: this part requires `wrk` and `taskset`; \
                 on Debian and Ubuntu, run `apt-get install wrk util-linux`"
            ),
            printed => drop(printed?),
        }
    }
    Ok(())
}

/// Sends POSTs of the file `body` at the highest possible rate for `time`.
pub async fn load(core: usize, url: String, body: &Path, time: Duration) -> Result<Load> {
    let mut command = Command::new("taskset");
    command
        .args(["-c", &core.to_string(), "wrk", "-t1"])
        .arg(format!("-c{CONNECTIONS}"))
        .arg(format!("-d{}s", time.as_secs()))
        .args(["--latency", "-s", SCRIPT, &url])
        .env("REVIEW", body);
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    parse(&output)
}

fn parse(output: &Output) -> Result<Load> {
    let printed = String::from_utf8_lossy(&output.stdout);
    let whole = || {
        format!(
            "output of wrk: {printed}{}",
            String::from_utf8_lossy(&output.stderr)
        )
    };
    ensure!(output.status.success(), whole());
    let last = printed.lines().last().with_context(whole)?;
    let load: Load = serde_json::from_str(last).with_context(whole)?;
    ensure!(load.requests > 0 && load.failed == 0, whole());
    Ok(load)
}
