//! Sets the scheduling policies of threads with `chrt` of util-linux. If that fails, all threads
//! have the same policy.

/// Lets this thread use only the processor time that no other thread needs.
pub fn only_idle_time() {
    set("--idle", "0");
}

/// Lets this thread run before any other thread. Requires root.
pub fn before_others() {
    set("--fifo", "1");
}

#[cfg(target_os = "linux")]
fn set(policy: &str, priority: &str) {
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    let set = std::process::Command::new("chrt")
        .args([policy, "--pid", priority, &thread])
        .output();
    match set {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let error = String::from_utf8_lossy(&output.stderr);
            eprintln!("a thread shares the cores alike: {}", error.trim());
        }
        Err(error) => eprintln!("a thread shares the cores alike: chrt: {error}"),
    }
}

#[cfg(not(target_os = "linux"))]
fn set(_: &str, _: &str) {
    eprintln!("a thread shares the cores alike: it has no other policy here");
}
