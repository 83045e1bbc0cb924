//! Utilities of several modules.

use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks the mutex even if a thread has panicked while it held the lock: a failed test must not
/// fail the tests that share its cluster.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes to the terminal even in a test that passes: libtest captures `eprintln!`, not this.
pub(crate) fn log_progress(line: &str) {
    // A closed stderr is not a failure.
    let _ = writeln!(io::stderr(), "{line}");
}

/// A command that runs the program on `core` only. The core is set before the program starts,
/// because a program reads the number of cores once.
pub(crate) fn on_core(binary: &Path, core: Option<usize>) -> Command {
    let Some(core) = core else {
        return Command::new(binary);
    };
    let mut command = Command::new("taskset");
    command.arg("-c").arg(core.to_string()).arg(binary);
    command
}

/// The ports are below the kernel's range of ephemeral ports, which outgoing connections use: the
/// kernel could assign an ephemeral port after it is chosen here and before a process listens on
/// it.
const FIRST_PORT: u16 = 10_000;
const PORTS: u16 = 20_000;

/// Returns this many different ports that are free now, and does not choose them again for a long
/// time.
pub(crate) fn free_ports<const N: usize>() -> io::Result<[u16; N]> {
    let mut ports = [0; N];
    for port in &mut ports {
        let mut turns = 0..PORTS;
        let free = turns.find_map(|_| Some(next_port()).filter(|port| is_free(*port)));
        *port = free.ok_or(io::ErrorKind::AddrInUse)?;
    }
    Ok(ports)
}

/// The ports in order. The first one differs between processes.
fn next_port() -> u16 {
    static TURN: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(101);
    let turn = start.wrapping_add(TURN.fetch_add(1, Ordering::Relaxed));
    // The remainder is smaller than a u16.
    FIRST_PORT + (turn % u32::from(PORTS)) as u16
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// The last `lines` lines of a text.
pub(crate) fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
