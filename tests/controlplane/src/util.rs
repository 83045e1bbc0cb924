//! What several modules need and std does not have.

use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, also after a panic elsewhere: a failed test must not fail those that share its cluster.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says it on the terminal even in a test that passes: libtest captures `eprintln!`, not this.
pub(crate) fn say(line: &str) {
    // A closed stderr is no reason to fail.
    let _ = writeln!(io::stderr(), "{line}");
}

/// As many different ports as asked for, free at this moment.
pub(crate) fn free_ports<const N: usize>() -> io::Result<[u16; N]> {
    let mut ports = [0; N];
    let mut listeners = Vec::with_capacity(N);
    for port in &mut ports {
        // Held until all are chosen, or the kernel could give the same one twice.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        *port = listener.local_addr()?.port();
        listeners.push(listener);
    }
    Ok(ports)
}

/// The last `lines` lines of a text.
pub(crate) fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
