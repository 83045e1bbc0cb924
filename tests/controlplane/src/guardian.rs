//! The process that kills all other processes of a cluster when this process has ended.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use crate::process::Process;
use crate::util::lock;

/// Reads its stdin to the end, which is reached when this process exits for any reason, and then
/// ends its process group: first with SIGTERM, and two seconds later with SIGKILL, which also works
/// on stopped processes.
///
/// HUP is ignored because the kernel sends it to an orphaned process group with a stopped member;
/// a line on stdout reports when the signals are ignored. The wait also covers a member that was
/// being started when this process was killed.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
echo
while read -r _; do :; done
kill -TERM 0
sleep 2
rm -rf "$1"
if [ -e "$2" ]; then grep -oE '/tmp/hostpath_pv/[0-9a-f-]{36}' "$2" | sort -u | xargs rm -rf; fi
kill -KILL 0
"#;

/// The time to wait until the members have ended after SIGKILL. They end at once unless they are in
/// a system call.
const GONE_TIMEOUT: Duration = Duration::from_secs(10);

/// A `/bin/sh` that leads a process group and ends that group when this process ends: by
/// returning, by a panic, by Ctrl-C, by SIGKILL, or with the guardian in a `static` that is never
/// dropped.
#[derive(Debug)]
pub struct Guardian {
    shell: Child,
    group: i32,
    /// The only write end of the pipe: std sets CLOEXEC, so no child inherits it.
    _pipe: Option<ChildStdin>,
    members: Mutex<Vec<Arc<Mutex<Child>>>>,
}

impl Guardian {
    /// Starts a guardian, which removes `scratch` if it has to end the group. Returns once the
    /// guardian ignores signals.
    pub fn start(scratch: &Path) -> Result<Self> {
        Self::of_cluster(scratch, Path::new(""))
    }

    /// As [`Self::start`]; it also removes the directories that `audit_log` shows, see
    /// [`Provisioned`](crate::provisioned::Provisioned), unless the path is empty.
    pub(crate) fn of_cluster(scratch: &Path, audit_log: &Path) -> Result<Self> {
        let mut shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "volume-warden-guardian"])
            .arg(scratch)
            .arg(audit_log)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("starting /bin/sh as the guardian of a cluster")?;
        let pipe = shell.stdin.take();
        let stdout = shell.stdout.take();
        let group = i32::try_from(shell.id()).context("a process id beyond i32")?;
        let guardian = Self {
            shell,
            group,
            _pipe: pipe,
            members: Mutex::default(),
        };
        await_line(stdout.context("the guardian has no stdout")?)?;
        Ok(guardian)
    }

    /// The process group, for a child that needs no [`Process`].
    pub(crate) fn group(&self) -> i32 {
        self.group
    }

    /// Starts a member of the group, with its output appended to `log`.
    pub fn spawn(&self, name: &str, mut command: Command, log: &Path) -> Result<Process> {
        command.process_group(self.group);
        let process = Process::start(name, command, log)?;
        let mut members = lock(&self.members);
        members.retain(|member| matches!(lock(member).try_wait(), Ok(None)));
        members.push(process.child());
        Ok(process)
    }

    /// Kills the whole group at once, and returns when it has ended. No member needs a graceful
    /// shutdown, because its data is about to be deleted.
    fn end(&mut self) {
        let group = Pid::from_child(&self.shell);
        // The guardian has not been reaped, so no other group can have this id.
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.shell.wait();
        for member in lock(&self.members).drain(..) {
            let _ = lock(&member).wait();
        }
        let deadline = Instant::now() + GONE_TIMEOUT;
        while test_kill_process_group(group).is_ok() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Waits for the line that reports that signals no longer end the guardian. Until then its group
/// has no other members, because a signal to the group could end the guardian before them.
fn await_line(stdout: ChildStdout) -> Result<()> {
    let mut line = String::new();
    let read = BufReader::new(stdout).read_line(&mut line);
    ensure!(read? > 0, "the guardian of a cluster ended at once");
    Ok(())
}

impl Drop for Guardian {
    fn drop(&mut self) {
        self.end();
    }
}
