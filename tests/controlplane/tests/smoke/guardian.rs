//! The processes of a group end when the process that started them ends.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use volume_warden_controlplane::{Guardian, eventually};

/// A process that is killed when the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Fails only if the process has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Not a test: [`everything_ends_with_a_killed_process`] runs it as a process, and kills that
/// process.
#[test]
#[ignore = "runs until it is killed"]
fn guarded_until_killed() -> Result<()> {
    let scratch = env::var_os("SCRATCH").context("SCRATCH names a directory")?;
    let guardian = Guardian::start(scratch.as_ref())?;
    let sleep = || {
        let mut command = Command::new("sleep");
        command.arg("600");
        command
    };
    let running = guardian.spawn("running", sleep(), "/dev/null".as_ref())?;
    let stopped = guardian.spawn("stopped", sleep(), "/dev/null".as_ref())?;
    stopped.pause()?;
    println!("\nguarded {} {}", running.pid(), stopped.pid());
    std::thread::sleep(Duration::from_secs(600));
    Ok(())
}

#[tokio::test]
async fn everything_ends_with_a_killed_process() -> Result<()> {
    let parent = tempfile::tempdir()?;
    let scratch = parent.path().join("scratch");
    fs::create_dir(&scratch)?;
    let helper = Command::new(env::current_exe()?)
        .args([
            "--exact",
            "guardian::guarded_until_killed",
            "--ignored",
            "--nocapture",
        ])
        .env("SCRATCH", &scratch)
        .stdout(Stdio::piped())
        .spawn()?;
    let mut helper = Running(helper);
    let output = BufReader::new(helper.0.stdout.take().context("no stdout")?);
    let line = output
        .lines()
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("guarded ").map(str::to_owned));
    let pids: Vec<String> = line
        .context("the helper printed nothing")?
        .split(' ')
        .map(str::to_owned)
        .collect();
    assert!(pids.iter().all(|pid| alive(pid)), "{pids:?}");
    helper.0.kill()?;
    helper.0.wait()?;
    eventually("the members of the group have ended", async || {
        !pids.iter().any(|pid| alive(pid))
    })
    .await?;
    eventually("the scratch directory is removed", async || {
        !scratch.exists()
    })
    .await
}

/// Whether the process is running or stopped. A process that has ended may stay unreaped.
fn alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}
