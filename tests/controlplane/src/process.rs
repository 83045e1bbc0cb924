//! A process of the cluster's group.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::time::{Instant, sleep};

use crate::util::{lock, tail};

/// Clock ticks in a second, in `/proc` on Linux.
const TICKS_PER_SECOND: f64 = 100.0;
/// The fields of the CPU time in user mode and in the kernel, after the name; see `proc(5)`.
const UTIME: usize = 11;
const STIME: usize = 12;

/// A running process; dropping it kills it. Belongs to no tokio runtime.
#[derive(Debug)]
pub struct Process {
    name: String,
    pid: u32,
    log: PathBuf,
    /// The length of the log at its start: an earlier process of this name has written to it.
    begin: usize,
    child: Arc<Mutex<Child>>,
}

impl Process {
    pub(crate) fn start(name: &str, mut command: Command, log: &Path) -> Result<Self> {
        let output = File::options().create(true).append(true).open(log);
        let output = output.with_context(|| format!("opening {}", log.display()))?;
        let begin = usize::try_from(output.metadata()?.len())?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("starting {name}, {}", command.get_program().display()))?;
        let pid = child.id();
        Ok(Self {
            name: name.to_owned(),
            pid,
            log: log.to_owned(),
            begin,
            child: Arc::new(Mutex::new(child)),
        })
    }

    /// The child, for the guardian, which reaps all members of its group.
    pub(crate) fn child(&self) -> Arc<Mutex<Child>> {
        Arc::clone(&self.child)
    }

    /// The name of the process.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Pauses the process with SIGSTOP: it keeps its connections and does not answer. Returns when
    /// all of its threads are stopped; until one of them has received the signal, the others
    /// continue.
    pub fn pause(&self) -> Result<()> {
        let pid = self.signal(Signal::STOP)?;
        let stopped = || {
            waitid(
                WaitId::Pid(pid),
                WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT,
            )
        };
        retry_on_intr(stopped).with_context(|| format!("waiting until {} stops", self.name))?;
        Ok(())
    }

    /// Resumes the process after [`Process::pause`].
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT).map(drop)
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) -> Result<()> {
        self.signal(Signal::TERM).map(drop)
    }

    /// Kills the process with SIGKILL, and returns when it has ended.
    pub fn kill(&self) -> Result<ExitStatus> {
        let mut child = lock(&self.child);
        child
            .kill()
            .with_context(|| format!("killing {}", self.name))?;
        Ok(child.wait()?)
    }

    /// Waits until the process exits.
    pub async fn wait(&self, timeout: Duration) -> Result<ExitStatus> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(status) = lock(&self.child).try_wait()? {
                return Ok(status);
            }
            if Instant::now() >= deadline {
                bail!(
                    "{} (pid {}) still runs after {timeout:?}",
                    self.name,
                    self.pid
                );
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Whether the process has not ended. A paused process counts as running.
    pub fn is_running(&self) -> bool {
        matches!(lock(&self.child).try_wait(), Ok(None))
    }

    /// Returns an error with the end of the log if the process has ended.
    pub(crate) fn ensure_running(&self) -> Result<()> {
        if let Some(status) = lock(&self.child).try_wait()? {
            let how = status
                .signal()
                .map_or_else(|| status.to_string(), |signal| format!("signal {signal}"));
            bail!(
                "{} ended ({how}); its log, {}, ends with:\n{}",
                self.name,
                self.log.display(),
                tail(&self.log(), 20)
            );
        }
        Ok(())
    }

    /// Current resident memory, `VmRSS`.
    pub fn memory_bytes(&self) -> Result<u64> {
        self.status_field("VmRSS:")
    }

    /// Peak resident memory, `VmHWM`.
    pub fn peak_memory_bytes(&self) -> Result<u64> {
        self.status_field("VmHWM:")
    }

    /// CPU time of all threads so far, in seconds.
    pub fn cpu_seconds(&self) -> Result<f64> {
        let path = format!("/proc/{}/stat", self.pid);
        let stat = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        // The name, in parentheses, may contain spaces.
        let fields = stat.rsplit_once(") ").map(|(_, fields)| fields.split(' '));
        let fields: Vec<&str> = fields
            .with_context(|| format!("{path} has no name"))?
            .collect();
        let ticks = fields.get(UTIME..=STIME).context("times")?;
        let ticks = ticks.iter().map(|ticks| ticks.parse::<u64>());
        let ticks: u64 = ticks.sum::<Result<_, _>>()?;
        Ok(ticks as f64 / TICKS_PER_SECOND)
    }

    /// The output of the process so far.
    pub fn log(&self) -> String {
        let all = fs::read(&self.log).unwrap_or_default();
        let own = all.get(self.begin..).unwrap_or_default();
        String::from_utf8_lossy(own).into_owned()
    }

    /// The file of the output.
    pub fn log_path(&self) -> &Path {
        &self.log
    }

    fn signal(&self, signal: Signal) -> Result<Pid> {
        // No other thread can reap the process under the lock, so its id is not reused.
        let mut child = lock(&self.child);
        if let Some(status) = child.try_wait()? {
            bail!("{} has ended already ({status})", self.name);
        }
        let pid = Pid::from_child(&child);
        kill_process(pid, signal).with_context(|| format!("sending a signal to {}", self.name))?;
        Ok(pid)
    }

    fn status_field(&self, field: &str) -> Result<u64> {
        let path = format!("/proc/{}/status", self.pid);
        let status = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kibibytes = line.and_then(|value| value.trim().strip_suffix(" kB"));
        let kibibytes = kibibytes.with_context(|| format!("{path} has no {field}"))?;
        Ok(kibibytes.trim().parse::<u64>()? * 1024)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only if the process has already ended.
        let _ = self.kill();
    }
}
