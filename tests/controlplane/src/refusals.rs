//! Ends the test run when one of the shipped policies refuses a write of Volume Warden: they must
//! permit all of its writes. A refused write is retried or skipped, so a scenario could pass
//! without it. The test run also ends when Volume Warden publishes an Event that the documentation
//! does not list.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    path::Path,
    process,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::documented_events::is_undocumented;

/// Precedes the name of the policy in the error of a refused request.
const KIND: &str = "ValidatingAdmissionPolicy '";
/// A part of the names of the policies that restrict the service account. It follows the name of
/// the installation: `volume-warden`, `<namespace>-volume-warden`, or a name that a chart value
/// sets.
const NAME: &str = "-restrict-";
const INTERVAL: Duration = Duration::from_secs(1);

/// Reads the log of a Volume Warden until it is dropped.
#[derive(Debug)]
pub(crate) struct Refusals {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Refusals {
    pub(crate) fn watch(log: &Path) -> Self {
        let (ended, log) = (Arc::new(AtomicBool::new(false)), log.to_owned());
        let until = ended.clone();
        let thread = thread::spawn(move || read(&log, &until));
        Self {
            ended,
            thread: Some(thread),
        }
    }
}

impl Drop for Refusals {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread has no result, and does not panic.
            let _ = thread.join();
        }
    }
}

fn is_refusal(line: &str) -> bool {
    line.split(KIND)
        .skip(1)
        .any(|rest| rest.split('\'').next().unwrap_or_default().contains(NAME))
}

fn problem(line: &str) -> Option<&'static str> {
    if is_refusal(line) {
        return Some("a write of Volume Warden was refused");
    }
    is_undocumented(line).then_some("docs/reference/events.md does not list this Event")
}

fn read(log: &Path, ended: &AtomicBool) {
    let (mut offset, mut rest) = (0, Vec::new());
    loop {
        let last = ended.load(Ordering::Relaxed);
        let mut new = Vec::new();
        if let Ok(mut file) = File::open(log)
            && file.seek(SeekFrom::Start(offset)).is_ok()
            && file.read_to_end(&mut new).is_ok()
        {
            offset += new.len() as u64;
            rest.append(&mut new);
        }
        // A line may be written in parts.
        let part = rest.iter().rposition(|byte| *byte == b'\n');
        let part = rest.split_off(part.map_or(0, |end| end + 1));
        check(log, &String::from_utf8_lossy(&rest));
        rest = part;
        if last {
            return;
        }
        thread::park_timeout(INTERVAL);
    }
}

fn check(log: &Path, lines: &str) {
    let found = |line| Some((problem(line)?, line));
    if let Some((problem, line)) = lines.lines().find_map(found) {
        let said = format!("{}: {problem}: {line}\n", log.display());
        // Written without a macro, because libtest captures the output of macros.
        let _ = io::stderr().write_all(said.as_bytes());
        process::exit(101);
    }
}

#[cfg(test)]
mod tests {
    use super::is_refusal;

    #[test]
    fn the_policies_of_every_installation_are_found() {
        for (policy, refused) in [
            ("volume-warden-restrict-claims", true),
            ("pvc-provisioner-volume-warden-restrict-volumes", true),
            ("storage-warden-restrict-webhooks", true),
            ("volume-warden-bound-claims", false),
        ] {
            let line = format!(
                "WARN x: ValidatingAdmissionPolicy '{policy}' with binding 'a-restrict-b' denied request: y"
            );
            assert_eq!(is_refusal(&line), refused, "{line}");
        }
    }
}
